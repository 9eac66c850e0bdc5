//! Virtual functions of the fabric.
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use gpuaas_agent::binding::functions::{apply, plan};
use gpuaas_agent::checks::NodeMode;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::prepare::Machine;
use gpuaas_agent::prepare::machine::{Kernel, Sysfs};
use gpuaas_agent::prepare::mode::Modes;
use gpuaas_agent::settings::Fabric;

use super::{SLOT, TestHost, good};
use crate::recorded::reference_host::CORNERS;

fn host(made: &str) -> TestHost {
    let mut host = good();
    let device = format!("/sys/devices/pci0000:15/{}", CORNERS[0].nic_address());
    for (name, text) in [
        ("sriov_numvfs", made),
        ("sriov_offset", "1"),
        ("sriov_stride", "1"),
        ("sriov_drivers_autoprobe", "1"),
    ] {
        host.text(format!("{device}/{name}"), text);
    }
    if made == "0" {
        host.remove(&format!("{device}/virtfn0"));
    }
    let host = TestHost::of(&host);
    host.write("/var/lib/gpuaas/node-mode", "slice");
    host
}

/// The function of this number, where the kernel will have it.
fn function(number: u32) -> String {
    CORNERS[0]
        .nic_address()
        .replace("00.0", &format!("00.{}", number + 1))
}

fn attribute(host: &TestHost, name: &str) -> String {
    host.read(&format!(
        "/sys/devices/pci0000:15/{}/{name}",
        CORNERS[0].nic_address()
    ))
}

/// CON-02, CON-23: by the unit at the start of the host.
#[test]
fn j_25_j_26_as_many_functions_as_approved_slots_need() {
    let host = host("0");
    let none = host.run(&["fabric-vfs"]);
    assert_eq!((none.code, none.steps()), (0, Vec::new()), "{}", none.text);
    host.approve(SLOT, &[&function(0), &function(2)], false);
    let ran = host.run(&["fabric-vfs", "--dry-run"]);
    assert_eq!(ran.steps().len(), 2, "{}", ran.text);
    let ran = host.run(&["fabric-vfs"]);
    assert!(ran.text.contains("3\\ \\>"), "{}", ran.text);
    assert_eq!(attribute(&host, "sriov_numvfs").trim(), "3");
    assert_eq!(attribute(&host, "sriov_drivers_autoprobe").trim(), "0");
    // no other device is touched
    let other = format!(
        "/sys/devices/pci0000:37/{}/sriov_numvfs",
        CORNERS[1].nic_address()
    );
    assert_eq!(host.read(&other).trim(), "1");
    assert_eq!(host.run(&["fabric-vfs"]).steps(), Vec::<String>::new());
}

/// Binds the first function to a driver, or to none.
fn driven_by(host: &TestHost, driver: Option<&str>) {
    let link = host.path(&format!("/sys/bus/pci/devices/{}/driver", function(0)));
    let _absent_is_fine = std::fs::remove_file(&link);
    if let Some(driver) = driver {
        std::os::unix::fs::symlink(format!("/sys/bus/pci/drivers/{driver}"), link).unwrap();
    }
}

#[test]
fn j_25_a_number_that_is_not_none_changes_only_while_no_function_is_in_use() {
    // the slot needs the second function, and there is one
    let free = host("1");
    driven_by(&free, None);
    free.approve(SLOT, &[&function(1)], false);
    let ran = free.run(&["fabric-vfs", "--dry-run"]);
    let writes: Vec<String> = ran
        .steps()
        .into_iter()
        .filter(|step| step.contains("numvfs"))
        .collect();
    assert!(
        writes.len() == 2 && writes[0].starts_with("write_value 0 >"),
        "{writes:?}"
    );

    // the host's own network goes through one that its driver has
    let used = host("1");
    driven_by(&used, Some("mlx5_core"));
    used.approve(SLOT, &[&function(1)], false);
    let ran = used.run(&["fabric-vfs"]);
    assert!(ran.refusals().contains("mlx5_core"), "{}", ran.text);
    assert_eq!(attribute(&used, "sriov_numvfs").trim(), "1");

    let held = host("1");
    held.approve(SLOT, &[&function(1)], false);
    held.approve(
        "0192f0c1-2222-7bbb-8ccc-000000000000",
        &[&function(0)],
        true,
    );
    let ran = held.run(&["fabric-vfs"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.refusals().contains("an allocation holds"),
        "{}",
        ran.text
    );
    assert_eq!(attribute(&held, "sriov_numvfs").trim(), "1");

    let open = host("1");
    driven_by(&open, Some("vfio-pci"));
    open.approve(SLOT, &[&function(1)], false);
    let link = open.path(&format!("/sys/bus/pci/devices/{}/iommu_group", function(0)));
    let group = std::fs::read_link(link).unwrap();
    let group = group.file_name().unwrap().to_string_lossy().into_owned();
    std::fs::create_dir_all(open.path("/proc/950/fd")).unwrap();
    std::os::unix::fs::symlink(format!("/dev/vfio/{group}"), open.path("/proc/950/fd/9")).unwrap();
    open.write("/proc/950/stat", "950 (qemu) S 1");
    let ran = open.run(&["fabric-vfs"]);
    assert!(ran.refusals().contains("process 950"), "{}", ran.text);
}

#[test]
fn j_25_more_than_a_device_can_have_is_refused() {
    let host = host("0");
    let config = host.state("agent.toml");
    let example = super::repository().join("deploy/deb/node-agent.toml");
    let example = std::fs::read_to_string(example).unwrap();
    let nic = CORNERS[0].nic_address();
    std::fs::write(
        &config,
        format!(
            "{example}\n[agent.fabric.virtual_functions]\n\"{nic}\" = 17\n\"0000:ee:00.0\" = 1\n"
        ),
    )
    .unwrap();
    let ran = host.run(&["fabric-vfs", "--config", config.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    for why in [
        "17 functions are wanted, and it can have 16",
        "0000:ee:00.0: there is no such device",
    ] {
        assert!(ran.refusals().contains(why), "{why}: {}", ran.text);
    }
    assert_eq!(attribute(&host, "sriov_numvfs").trim(), "0");
}

#[test]
fn con_22_outside_of_slice_mode_no_function_is_made() {
    let host = host("0");
    host.approve(SLOT, &[&function(0)], false);
    host.write("/var/lib/gpuaas/node-mode", "baremetal");
    let ran = host.run(&["fabric-vfs"]);
    assert_eq!((ran.code, ran.steps()), (0, Vec::new()), "{}", ran.text);
}

/// Two cards without functions, each with an approved slot.
fn two_cards() -> TestHost {
    let mut host = good();
    for (corner, bus) in [(&CORNERS[0], "15"), (&CORNERS[1], "37")] {
        let device = format!("/sys/devices/pci0000:{bus}/{}", corner.nic_address());
        for (name, text) in [
            ("sriov_numvfs", "0"),
            ("sriov_offset", "1"),
            ("sriov_stride", "1"),
            ("sriov_drivers_autoprobe", "1"),
        ] {
            host.text(format!("{device}/{name}"), text);
        }
        host.remove(&format!("{device}/virtfn0"));
    }
    let host = TestHost::of(&host);
    host.write("/var/lib/gpuaas/node-mode", "slice");
    let of = |corner: usize| CORNERS[corner].nic_address().replace("00.0", "00.1");
    host.approve(SLOT, &[&of(0), &of(1)], false);
    host
}

fn made_by_second(host: &TestHost) -> String {
    let nic = CORNERS[1].nic_address();
    let path = format!("/sys/devices/pci0000:37/{nic}/sriov_numvfs");
    host.read(&path).trim().to_owned()
}

#[test]
fn j_25_one_bad_card_keeps_no_other_from_its_functions_and_is_named() {
    let host = two_cards();
    let first = CORNERS[0].nic_address();
    let total = format!("/sys/devices/pci0000:15/{first}/sriov_totalvfs");
    host.write(&total, "none\n");
    let config = host.state("agent.toml");
    let example = super::repository().join("deploy/deb/node-agent.toml");
    let example = std::fs::read_to_string(example).unwrap();
    let own = format!("{example}\n[agent.fabric.virtual_functions]\n\"{first}\" = 1\n");
    std::fs::write(&config, own).unwrap();
    let ran = host.run(&["fabric-vfs", "--config", config.to_str().unwrap()]);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(ran.refusals().contains(&first), "{}", ran.text);
    let named = format!("failed_devices={first}");
    assert!(ran.text.lines().any(|line| line == named), "{}", ran.text);
    assert_eq!(made_by_second(&host), "1");
}

/// A kernel that lets one card have nothing.
struct Refuses(String);

impl Kernel for Refuses {
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()> {
        match path.to_string_lossy().contains(&self.0) {
            true => Err(io::Error::from_raw_os_error(12)),
            false => Sysfs.write(root, path, value),
        }
    }
}

#[tokio::test]
async fn j_25_a_card_whose_kernel_refuses_ends_its_own_plan_alone() {
    let host = two_cards();
    let first = CORNERS[0].nic_address();
    let kernel = Arc::new(Refuses(first.clone()));
    let machine = Machine::new(HostRoot::new(host.tree()), None).with_kernel(kernel);
    let slice = Modes {
        profile: Some(NodeMode::Slice),
        ..Modes::default()
    };
    let state = Path::new("/var/lib/gpuaas");
    let work = plan(&machine, slice, state, &Fabric::default()).unwrap();
    assert_eq!((work.cards.len(), work.refused()), (2, BTreeSet::new()));
    let mut errors = 0;
    let failed = apply(&machine, &work, |_, done| {
        errors += usize::from(done.is_err());
    })
    .await;
    assert_eq!(
        (failed, errors),
        (BTreeSet::from([first.parse().unwrap()]), 1)
    );
    assert_eq!(made_by_second(&host), "1");
}
