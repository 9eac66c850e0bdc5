use uuid::Uuid;

use super::*;
use crate::vm::PowerState;

fn domain(name: &str, sources: &[&str]) -> Domain {
    Domain {
        name: name.to_owned(),
        state: PowerState::ShutOff,
        disk_sources: sources.iter().map(|path| (*path).to_owned()).collect(),
        untraced_sources: Vec::new(),
    }
}

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// D-81
#[test]
fn d_80_a_domain_is_known_while_its_allocation_holds_something_here() {
    let (here, gone) = (AllocationId(Uuid::now_v7()), AllocationId(Uuid::now_v7()));
    let domains = [
        domain("somebody", &[]),
        domain(here.vm_name().as_str(), &[]),
        domain(gone.vm_name().as_str(), &[]),
    ];
    let found = unknown(&domains, &BTreeSet::from([here]));
    let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, [gone.vm_name().as_str(), "somebody"]);
}

#[test]
fn a_67_functions_are_reported_with_driver_parent_and_fault() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = "sys/bus/pci/devices/0000:1b:00.0";
    let (card, function) = (
        "sys/bus/pci/devices/0000:1a:00.0",
        "sys/bus/pci/devices/0000:1a:00.1",
    );
    for (device, vendor, class) in [
        (gpu, "0x10de", "0x030200"),
        (card, "0x15b3", "0x020700"),
        (function, "0x15b3", "0x020700"),
    ] {
        write(dir.path(), &format!("{device}/vendor"), vendor);
        write(dir.path(), &format!("{device}/class"), class);
        write(dir.path(), &format!("{device}/numa_node"), "1\n");
    }
    let link = |target: &str, at: &str| {
        std::os::unix::fs::symlink(target, dir.path().join(at)).unwrap();
    };
    link("../0000:1a:00.0", &format!("{function}/physfn"));
    link("../0000:1a:00.1", &format!("{card}/virtfn0"));
    link(
        "../../../../bus/pci/drivers/vfio-pci",
        &format!("{gpu}/driver"),
    );
    link(
        "../../../../bus/pci/drivers/mlx5_core",
        &format!("{function}/driver"),
    );
    let root = HostRoot::new(dir.path());
    let somebody = domain("somebody", &["/sys/bus/pci/devices/0000:1b:00.0"]);
    let found = functions(&root, &[&somebody]);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (
            found[0].pci_address.as_str(),
            found[0].driver.as_str(),
            found[0].physical_function.as_str()
        ),
        ("0000:1a:00.1", "mlx5_core", "0000:1a:00.0")
    );
    assert_eq!(
        (
            found[1].driver.as_str(),
            found[1].used_by.as_str(),
            found[1].numa_node
        ),
        ("vfio-pci", "somebody", Some(1))
    );
    assert!(found.iter().all(|one| one.fault.is_empty()));
    std::fs::write(dir.path().join(gpu).join("config"), [0xff; 64]).unwrap();
    let found = functions(&root, &[]);
    assert_eq!(found[1].fault, "it does not answer on its bus");
    assert!(found[1].used_by.is_empty());
}

#[test]
fn addresses_of_the_guests_network_that_the_host_has_are_reported() {
    let json = r#"[{"ifname":"lo","addr_info":[{"family":"inet","local":"127.0.0.1"}]},
        {"ifname":"ovsbr0","addr_info":[{"family":"inet","local":"10.100.0.1"},{"family":"inet","local":"10.100.0.10"}]},
        {"ifname":"eno1","addr_info":[{"family":"inet","local":"10.101.0.7"}]}]"#;
    let found = of_interfaces(json, "10.100.0.1/24");
    let of = |one: &pb::HostAddress| format!("{} {}", one.interface, one.ip);
    let found: Vec<String> = found.iter().map(of).collect();
    assert_eq!(found, ["ovsbr0 10.100.0.1", "ovsbr0 10.100.0.10"]);
    assert!(of_interfaces("nonsense", "10.100.0.1/24").is_empty());
    assert!(of_interfaces(json, "").is_empty());
}

#[test]
fn a_disk_is_read_again_only_after_somebody_wrote_to_it() {
    let stat = "  10 0 80 3  7 0 56 9  0 12 12  2 0 2048 1  0 0";
    assert_eq!(writes(stat).as_deref(), Some("7 56 2 2048"));
    assert_eq!(
        writes(&stat.replacen("  10 0 80 ", "  99 0 999 ", 1)),
        writes(stat),
        "a read is no write"
    );
    assert_ne!(writes(&stat.replace("2048", "4096")), writes(stat));
    assert_eq!(writes("1 2 3"), None);
}

#[test]
fn rules_that_are_put_back_in_time_are_not_missing() {
    let observed = Observed::default();
    let of = |status: EvidenceStatus| {
        [Evidence {
            check: RULES.to_owned(),
            status: status.into(),
            ..Evidence::default()
        }]
    };
    let (failed, passed) = (of(EvidenceStatus::Fail), of(EvidenceStatus::Pass));
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(rules_hold(&observed, &failed, at(0)));
    assert!(rules_hold(&observed, &passed, at(5)));
    assert!(rules_hold(&observed, &failed, at(10)));
    assert!(!rules_hold(&observed, &failed, at(20)));
    assert!(rules_hold(&observed, &passed, at(30)));
}
