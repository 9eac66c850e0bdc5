//! The check before the package leaves its host.
use super::{HOLDER, SLOT, TestHost};

const CHECK: [&str; 1] = ["removal-check"];

#[test]
fn p9_a_package_whose_host_has_a_vm_or_a_held_slot_stays() {
    let host = TestHost::new();
    host.state_text("domains", "web-1\n\n");
    let before = host.files();
    let ran = host.run(&CHECK);
    assert_eq!(
        (ran.code, ran.refusals()),
        (0, String::new()),
        "{}",
        ran.text
    );

    let vm = "gpuaas-slice-23bd713b60734ef78a512897e902365d";
    host.state_text("domains", &format!("web-1\n{vm}\n\n"));
    let ran = host.run(&CHECK);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(ran.refusals().contains(vm), "{}", ran.text);
    assert!(!ran.text.contains("web-1"), "it is not ours: {}", ran.text);

    // nothing is said on a guess
    host.instead("virsh", "exit 1");
    let ran = host.run(&CHECK);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(
        ran.refusals().contains("nobody knows which VMs are here"),
        "{}",
        ran.text
    );
    assert_eq!(host.files(), before, "it looks and changes nothing");
}

/// A stopped slice: libvirt need not have its VM, and its disk is its tenant's.
#[test]
fn p9_a_package_whose_host_holds_a_slot_stays() {
    let host = TestHost::new();
    host.approve(SLOT, &["0000:1b:00.0"], true);
    let ran = host.run(&CHECK);
    assert_eq!(ran.code, 1, "{}", ran.text);
    assert!(
        ran.refusals().contains(&HOLDER.replace('-', "")),
        "{}",
        ran.text
    );
    // one that never had libvirt
    std::fs::remove_dir_all(host.path("/var/lib/libvirt")).unwrap();
    assert_eq!(host.run(&CHECK).code, 1);
}

#[test]
fn d_57_devices_that_stay_bound_are_named_with_the_command_that_gives_them_back() {
    let host = TestHost::new();
    host.write("/var/lib/gpuaas/vfio-devices", "0000:1b:00.0\n");
    let ran = host.run(&CHECK);
    assert_eq!(ran.code, 0, "{}", ran.text);
    let text = ran.text.replace('\\', "");
    let expected =
        "0000:1b:00.0 stays bound to vfio-pci: bind-devices --mode baremetal gives it back";
    assert!(text.contains(expected), "{text}");
}
