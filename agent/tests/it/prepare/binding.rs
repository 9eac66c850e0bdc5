//! Binding to VFIO, with a kernel that is played on the tree.
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use gpuaas_agent::binding::devices::{Outcome, Work, apply, plan};
use gpuaas_agent::checks::NodeMode;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::prepare::Machine;
use gpuaas_agent::prepare::machine::Kernel;
use gpuaas_agent::prepare::mode::Modes;
use gpuaas_agent::settings::GpuFabric;

use super::{Host, SLOT, TestHost, good};
use crate::recorded::reference_host::CORNERS;

const STATE: &str = "/var/lib/gpuaas";

/// Drivers take and let go of devices as the kernel has it; one that refuses a device has it no more.
#[derive(Default, Clone)]
pub struct Played {
    pub refuses: Option<&'static str>,
    pub writes: Arc<Mutex<Vec<String>>>,
}

impl Played {
    /// Everything that was written so far.
    pub fn writes(&self) -> Vec<String> {
        self.writes.lock().unwrap().clone()
    }
}

impl Kernel for Played {
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()> {
        let line = format!("{value} > {}", path.display());
        self.writes.lock().unwrap().push(line);
        let text = path.to_str().unwrap();
        let device = |address: &str| root.path(format!("/sys/bus/pci/devices/{address}"));
        let take = |address: &str, driver: &str| {
            if self.refuses == Some(driver) {
                return Err(io::Error::from_raw_os_error(19));
            }
            let target = format!("../../../bus/pci/drivers/{driver}");
            std::os::unix::fs::symlink(target, device(address).join("driver"))
        };
        if text.ends_with("/driver_override") {
            return fs::write(root.path(path), value.trim());
        }
        if text.ends_with("/unbind") {
            return fs::remove_file(device(value).join("driver"));
        }
        if text == "/sys/bus/pci/drivers_probe" {
            let chosen =
                fs::read_to_string(device(value).join("driver_override")).unwrap_or_default();
            // no match is no error for the kernel
            let _outcome = take(value, &chosen);
            return Ok(());
        }
        if let Some(driver) = text.strip_suffix("/bind") {
            return take(value, driver.rsplit('/').next().unwrap());
        }
        panic!("{text} is no attribute of a binding");
    }
}

fn slice() -> Modes {
    Modes {
        profile: Some(NodeMode::Slice),
        ..Modes::default()
    }
}

fn machine(host: &TestHost, kernel: &Played) -> Machine {
    Machine::new(HostRoot::new(host.tree()), None).with_kernel(Arc::new(kernel.clone()))
}

fn planned(host: &TestHost) -> Work {
    plan(
        &machine(host, &Played::default()),
        slice(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap()
}

pub fn driver(host: &TestHost, address: &str) -> String {
    let link = host.path(&format!("/sys/bus/pci/devices/{address}/driver"));
    let target = fs::read_link(link).unwrap_or_default();
    target
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn set_driver(host: &mut Host, root: &str, address: &str, driver: &str) {
    let target = format!("../../../bus/pci/drivers/{driver}");
    host.link(
        format!("/sys/devices/pci0000:{root}/{address}/driver"),
        target,
    );
}

/// The GPU and the function of the first corner with the drivers of a host that was never prepared.
pub fn native() -> TestHost {
    let mut host = good();
    set_driver(&mut host, "15", &CORNERS[0].gpu_address(), "nvidia");
    set_driver(&mut host, "15", &CORNERS[0].function_address(), "mlx5_core");
    set_driver(&mut host, "37", &CORNERS[1].gpu_address(), "nvidia");
    TestHost::of(&host)
}

fn approve_first(host: &TestHost) {
    let (gpu, function) = (CORNERS[0].gpu_address(), CORNERS[0].function_address());
    host.approve(
        SLOT,
        &[&gpu, &function, "/dev/disk/by-id/nvme-eui.0"],
        false,
    );
}

/// L-22: the list is that of approved slots.
#[test]
fn d_57_d_58_approved_devices_are_bound_and_kept_and_no_other() {
    let host = native();
    let none = planned(&host);
    assert!(none.devices.is_empty(), "no approved slot yet");
    approve_first(&host);
    let kernel = Played::default();
    let machine = machine(&host, &kernel);
    let work = plan(&machine, slice(), Path::new(STATE), &GpuFabric::default()).unwrap();
    let outcomes = apply(&machine, &work);
    assert_eq!(outcomes.len(), 2);
    for one in &outcomes {
        assert_eq!(
            (one.driver.as_str(), one.error.as_ref()),
            ("vfio-pci", None)
        );
        let kept = host.read(&format!("/etc/driverctl.d/pci-{}", one.device));
        assert_eq!(kept, "vfio-pci\n");
    }
    // a GPU that no slot has stays where it is
    assert_eq!(driver(&host, &CORNERS[1].gpu_address()), "nvidia");
    kernel.writes.lock().unwrap().clear();
    assert!(
        planned(&host).devices.is_empty(),
        "the second time changes nothing"
    );

    // what went back to its own driver is bound again
    let gpu = CORNERS[0].gpu_address();
    let link = host.path(&format!("/sys/bus/pci/devices/{gpu}/driver"));
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("../../../bus/pci/drivers/nvidia", link).unwrap();
    let work = planned(&host);
    assert_eq!(work.devices.len(), 1);
    assert_eq!(work.devices[0].former.as_deref(), Some("nvidia"));
}

#[test]
fn d_58_d_59_nothing_is_bound_outside_of_slice_mode_or_under_a_service_that_holds_gpus() {
    let host = native();
    approve_first(&host);
    let machine = machine(&host, &Played::default());
    for modes in [
        Modes::default(),
        Modes {
            reported: Some(NodeMode::Baremetal),
            ..slice()
        },
    ] {
        let work = plan(&machine, modes, Path::new(STATE), &GpuFabric::default()).unwrap();
        assert!(work.devices.is_empty() && work.plan().refusals.is_empty());
    }
    host.write("/proc/900/comm", "nv-fabricmanage\n");
    let work = planned(&host);
    assert!(work.devices.is_empty());
    assert!(work.plan().refusals[0].contains("runtime-prepare"));
}

#[test]
fn d_58_what_the_host_needs_is_never_bound_whatever_was_approved() {
    let mut host = good();
    set_driver(&mut host, "15", &CORNERS[0].gpu_address(), "nvidia");
    // a slot's disk that the host mounts; the management interface, behind a bond
    let name = host.partition(&CORNERS[3].disk_folder(), 1, 44);
    host.mount("259:44", &format!("/dev/{name}"), "/share5");
    let nic = "/sys/devices/pci0000:b8/0000:bc:00.0/net/eno8303";
    host.text(format!("{nic}/operstate"), "up");
    host.link(format!("{nic}/master"), "../../../../bc/bond0");
    let plain = "/sys/devices/pci0000:b8/0000:bc:00.1/net/eno8403";
    host.text(format!("{plain}/operstate"), "up");
    host.text("/proc/net/route", "Iface\tDestination\neno8403\t00000000");
    let host = TestHost::of(&host);
    let disk = CORNERS[3].disk_address();
    let gpu = CORNERS[0].gpu_address();
    let never = [
        (
            "0000:01:00.0",
            "it is the controller of nvme4n1, which is mounted at /",
        ),
        (disk.as_str(), "mounted at /share5"),
        ("0000:bc:00.0", "the host uses its interface eno8303"),
        ("0000:bc:00.1", "the host uses its interface eno8403"),
        ("0000:8c:00.0", "it is neither a GPU nor a virtual function"),
        ("0000:05:00.0", "it is neither a GPU nor a virtual function"),
        ("0000:ee:00.0", "it is not there"),
    ];
    let mut devices: Vec<&str> = never.iter().map(|(address, _)| *address).collect();
    devices.push(&gpu);
    host.approve(SLOT, &devices, false);
    let work = planned(&host);
    let refusals = work.plan().refusals;
    for (address, why) in never {
        let own = refusals.iter().find(|own| own.starts_with(address));
        assert!(
            own.is_some_and(|own| own.contains(why)),
            "{address} {why}: {refusals:?}"
        );
    }
    // one bad device keeps no good one from its slot
    let bound: Vec<_> = work
        .devices
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(bound, [gpu]);
}

#[test]
fn d_57_a_device_that_vfio_does_not_take_has_its_former_driver_again() {
    let host = native();
    approve_first(&host);
    let kernel = Played {
        refuses: Some("vfio-pci"),
        ..Played::default()
    };
    let machine = machine(&host, &kernel);
    let work = plan(&machine, slice(), Path::new(STATE), &GpuFabric::default()).unwrap();
    let outcomes = apply(&machine, &work);
    let of = |address: String| -> &Outcome {
        outcomes.iter().find(|one| one.device == address).unwrap()
    };
    let gpu = of(CORNERS[0].gpu_address());
    assert_eq!(gpu.driver, "nvidia");
    assert_eq!(
        gpu.error.as_deref(),
        Some("vfio-pci did not take it; nvidia has it")
    );
    assert_eq!(of(CORNERS[0].function_address()).driver, "mlx5_core");
    // not repeated at the next start
    assert!(!host.path("/etc/driverctl.d").exists());
    let chosen = host.read(&format!(
        "/sys/bus/pci/devices/{}/driver_override",
        gpu.device
    ));
    assert_eq!(chosen.trim(), "");
}

#[test]
fn d_56_a_device_that_an_allocation_holds_is_not_taken_from_its_driver() {
    let host = native();
    host.approve(SLOT, &[&CORNERS[0].gpu_address()], true);
    let work = planned(&host);
    assert!(work.devices.is_empty());
    assert!(work.plan().refusals[0].contains("an allocation holds it"));
}

/// A process with this open.
pub fn process(host: &TestHost, pid: u32, program: &str, node: &str) {
    host.write(&format!("/proc/{pid}/comm"), &format!("{program}\n"));
    let arguments = format!("{program}\0--token=hunter2\0");
    host.write(&format!("/proc/{pid}/cmdline"), &arguments);
    let folder = host.path(&format!("/proc/{pid}/fd"));
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(node, folder.join("7")).unwrap();
}

#[test]
fn d_96_d_97_a_gpu_that_a_process_has_open_keeps_its_driver() {
    let host = native();
    approve_first(&host);
    let (gpu, function) = (CORNERS[0].gpu_address(), CORNERS[0].function_address());
    let before = planned(&host);
    process(&host, 4242, "python3", "/dev/nvidia0");
    let work = planned(&host);
    let bound: Vec<_> = work
        .devices
        .iter()
        .map(|one| one.address.to_string())
        .collect();
    assert_eq!(bound, [function.as_str()], "the function is not the GPU");
    let refusals = work.plan().refusals;
    assert_eq!(
        refusals,
        [format!(
            "{gpu}: process 4242 (python3) has /dev/nvidia0 open; end it first"
        )]
    );

    // one that opened it after the plan was made
    let kernel = Played::default();
    let machine = machine(&host, &kernel);
    let outcomes = apply(&machine, &before);
    let of = |address: &str| outcomes.iter().find(|one| one.device == address).unwrap();
    assert_eq!(of(&gpu).driver, "nvidia");
    let error = of(&gpu).error.as_deref();
    assert_eq!(
        error,
        Some("process 4242 (python3) has /dev/nvidia0 open; nvidia keeps it")
    );
    assert_eq!(of(&function).driver, "vfio-pci");
    let writes = kernel.writes.lock().unwrap().join("\n");
    assert!(!writes.contains(&format!("{gpu} >")), "{writes}");

    // the nodes that the kernel shows at the device itself
    let host = native();
    approve_first(&host);
    let device = format!("/sys/bus/pci/devices/{function}/infiniband_verbs/uverbs4");
    host.write(
        &format!("{device}/uevent"),
        "MAJOR=231\nDEVNAME=infiniband/uverbs4\n",
    );
    process(&host, 4243, "ib_write_bw", "/dev/infiniband/uverbs5");
    assert_eq!(planned(&host).devices.len(), 2, "another card's");
    process(&host, 4244, "ib_write_bw", "/dev/infiniband/uverbs4");
    let refusals = planned(&host).plan().refusals;
    assert!(
        refusals.len() == 1 && refusals[0].contains("process 4244 (ib_write_bw)"),
        "{refusals:?}"
    );
}

fn bound() -> (TestHost, Machine) {
    let host = native();
    approve_first(&host);
    let machine = machine(&host, &Played::default());
    let outcomes = apply(&machine, &planned(&host));
    assert!(
        outcomes.iter().all(|one| one.error.is_none()),
        "{outcomes:?}"
    );
    (host, machine)
}

/// The slot has no device any more, but for these.
fn approved_are(host: &TestHost, devices: &[&str]) {
    let journal = host.path("/var/lib/gpuaas/journal.sqlite");
    let connection = rusqlite::Connection::open(journal).unwrap();
    connection.execute("DELETE FROM slot_devices", ()).unwrap();
    drop(connection);
    host.approve(SLOT, devices, false);
}

fn baremetal() -> Modes {
    Modes {
        reported: Some(NodeMode::Baremetal),
        ..slice()
    }
}

#[test]
fn d_57_d_58_what_is_not_approved_any_more_is_given_back_and_nothing_of_others() {
    let (host, machine) = bound();
    let (gpu, function) = (CORNERS[0].gpu_address(), CORNERS[0].function_address());
    let other = CORNERS[1].gpu_address();
    let file = |address: &str| format!("/etc/driverctl.d/pci-{address}");
    // an operator chose the same for a GPU of their own
    host.write(&file(&other), "vfio-pci\n");
    host.write("/etc/driverctl.d/README", "ours\n");
    approved_are(&host, &[&function]);
    let work = plan(&machine, slice(), Path::new(STATE), &GpuFabric::default()).unwrap();
    assert!(work.devices.is_empty());
    let outcomes = apply(&machine, &work);
    assert_eq!(outcomes.len(), 1);
    assert_eq!((&outcomes[0].device, &outcomes[0].error), (&gpu, &None));
    assert!(!host.path(&file(&gpu)).exists());
    let chosen = format!("/sys/bus/pci/devices/{gpu}/driver_override");
    assert_eq!(host.read(&chosen).trim(), "");
    for stays in [&file(&function), &file(&other), "/etc/driverctl.d/README"] {
        assert!(host.path(stays).exists(), "{stays}");
    }
    assert_eq!(driver(&host, &function), "vfio-pci");
    assert_eq!(
        host.read("/var/lib/gpuaas/vfio-devices"),
        format!("{function}\n")
    );
    let again = plan(&machine, slice(), Path::new(STATE), &GpuFabric::default()).unwrap();
    assert_eq!((again.returned.len(), again.devices.len()), (0, 0));
}

#[test]
fn d_58_con_26_a_host_that_goes_back_to_bare_metal_has_its_devices_again() {
    let (host, machine) = bound();
    let (gpu, function) = (CORNERS[0].gpu_address(), CORNERS[0].function_address());
    // nobody says what the host is for: it stays as it is
    let unsaid = plan(
        &machine,
        Modes::default(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    assert!(unsaid.plan().steps.is_empty() && unsaid.returned.is_empty());
    // the operator has chosen another driver since
    host.write(&format!("/etc/driverctl.d/pci-{function}"), "mlx5_core\n");
    // a VM that somebody runs by hand
    let link = host.path(&format!("/sys/bus/pci/devices/{gpu}/iommu_group"));
    let group = fs::read_link(link).unwrap();
    let group = group.file_name().unwrap().to_string_lossy().into_owned();
    process(&host, 950, "qemu-system-x86", &format!("/dev/vfio/{group}"));
    let work = plan(
        &machine,
        baremetal(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    let refusals = work.plan().refusals;
    assert!(
        refusals.len() == 1 && refusals[0].contains("process 950 (qemu-system-x86)"),
        "{refusals:?}"
    );
    fs::remove_dir_all(host.path("/proc/950")).unwrap();

    let work = plan(
        &machine,
        baremetal(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    assert!(work.plan().refusals.is_empty() && work.devices.is_empty());
    let outcomes = apply(&machine, &work);
    assert!(
        outcomes.iter().all(|one| one.error.is_none()),
        "{outcomes:?}"
    );
    assert!(!host.path(&format!("/etc/driverctl.d/pci-{gpu}")).exists());
    let theirs = host.read(&format!("/etc/driverctl.d/pci-{function}"));
    assert_eq!(theirs, "mlx5_core\n");
    assert_ne!(driver(&host, &gpu), "vfio-pci");
    assert_ne!(driver(&host, &function), "vfio-pci");
    let again = plan(
        &machine,
        baremetal(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    assert!(again.returned.is_empty() && again.plan().steps.is_empty());
}

#[test]
fn d_56_a_device_that_an_allocation_holds_is_not_given_back() {
    let host = native();
    host.approve(SLOT, &[&CORNERS[0].gpu_address()], false);
    let machine = machine(&host, &Played::default());
    apply(&machine, &planned(&host));
    host.approve(SLOT, &[], true);
    let work = plan(
        &machine,
        baremetal(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    assert!(work.returned.is_empty());
    let refusals = work.plan().refusals;
    assert!(
        refusals[0].contains("an allocation holds it"),
        "{refusals:?}"
    );
    assert_eq!(driver(&host, &CORNERS[0].gpu_address()), "vfio-pci");
}

#[test]
fn d_57_a_return_that_was_broken_off_is_finished_by_the_next() {
    let (host, machine) = bound();
    let gpu = CORNERS[0].gpu_address();
    let device = |name: &str| host.path(&format!("/sys/bus/pci/devices/{gpu}/{name}"));
    // ended after VFIO had let it go and before a driver was asked to take it
    fs::remove_file(host.path(&format!("/etc/driverctl.d/pci-{gpu}"))).unwrap();
    fs::remove_file(device("driver")).unwrap();
    fs::write(device("driver_override"), "(null)\n").unwrap();
    let work = plan(
        &machine,
        baremetal(),
        Path::new(STATE),
        &GpuFabric::default(),
    )
    .unwrap();
    let own = work
        .returned
        .iter()
        .find(|one| one.address.to_string() == gpu);
    let steps = &own.unwrap().steps;
    assert_eq!(steps.len(), 1, "{steps:?}");
    let probe = format!("{gpu} > /sys/bus/pci/drivers_probe");
    assert_eq!(steps[0].action.to_string(), probe);
}
