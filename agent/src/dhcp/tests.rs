use super::*;

fn mac(text: &str) -> Mac {
    text.parse().unwrap()
}

/// What is reported of a lease (J-11, J-12).
#[test]
fn d_65_the_lease_of_an_earlier_guest_does_not_count() {
    let ip = Ipv4Addr::new(10, 100, 0, 10);
    let lease = |expires, ip| Some(DhcpLease { expires, ip });
    for (observed, before, expected) in [
        (None, None, LeaseState::Missing),
        (lease(100, ip), None, LeaseState::Bound),
        (lease(100, ip), Some(100), LeaseState::Stale),
        (lease(160, ip), Some(100), LeaseState::Bound),
        (
            lease(160, Ipv4Addr::new(10, 100, 0, 11)),
            Some(100),
            LeaseState::Mismatch,
        ),
    ] {
        assert_eq!(LeaseState::of(observed.as_ref(), ip, before), expected);
    }
}

fn here(folder: &std::path::Path) -> Dhcp {
    // a dnsmasq that lives, so that it can be notified
    let pid_file = folder.join("pid");
    std::fs::write(&pid_file, "1\n").unwrap();
    Dhcp::new(settings::Dhcp {
        hosts_dir: folder.to_owned(),
        leases_file: folder.join("leases"),
        pid_file,
    })
}

#[test]
fn p6_a_vm_is_told_by_the_latest_change_of_its_project() {
    let folder = tempfile::tempdir().unwrap();
    let dhcp = here(folder.path());
    let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
        .parse()
        .unwrap();
    let group: NetworkGroup = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab".parse().unwrap();
    std::fs::write(dhcp.file(&vm), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
    let now = || dhcp.reservations().unwrap()[0].group;
    // that dnsmasq is not there is the caller's to hear; the file is what counts here
    let _unheard = dhcp.regroup(&vm, Some(group), 7);
    assert_eq!(now(), Some(group));
    assert!(!dhcp.regroup(&vm, Some(group), 7).unwrap(), "again");
    assert!(!dhcp.regroup(&vm, None, 6).unwrap(), "an older change");
    assert_eq!(now(), Some(group));
    let _unheard = dhcp.regroup(&vm, None, 8);
    assert_eq!(now(), None);
    // the same to an agent that was started since
    let next = here(folder.path());
    assert!(!next.regroup(&vm, Some(group), 7).unwrap(), "an older one");
    assert_eq!(now(), None);
    // a later change that changes nothing is the last one all the same
    let _unheard = next.regroup(&vm, None, 10);
    assert!(!dhcp.regroup(&vm, Some(group), 9).unwrap());
    // and stays so when the launch reserves the address again
    let again = Reservation {
        vm: vm.clone(),
        mac: mac("52:54:00:10:00:0a"),
        ip: Ipv4Addr::new(10, 100, 0, 10),
        group: Some(group),
        version: 0,
    };
    let _unheard = next.reserve(&again);
    assert_eq!(now(), None);
    let _unheard = next.regroup(&vm, Some(group), 11);
    assert_eq!(
        std::fs::read_to_string(dhcp.file(&vm)).unwrap(),
        format!("52:54:00:10:00:0a,10.100.0.10,set:group-{group},set:version-11\n")
    );
    // a VM that was removed meanwhile gets no reservation by it
    std::fs::remove_file(dhcp.file(&vm)).unwrap();
    assert!(!dhcp.regroup(&vm, Some(group), 12).unwrap());
    assert!(dhcp.reservations().unwrap().is_empty());
}

#[test]
fn a_vm_that_gets_the_address_of_the_probe_has_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dhcp = here(folder.path());
    let ip = Ipv4Addr::new(10, 100, 0, 254);
    let probe = folder.path().join(PROBE);
    let _unheard = dhcp.reserve_probe(&mac("02:67:70:72:6f:62"), ip);
    assert!(probe.exists());
    let reservation = |last| Reservation {
        vm: "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
            .parse()
            .unwrap(),
        mac: mac("52:54:00:10:00:0a"),
        ip: Ipv4Addr::new(10, 100, 0, last),
        group: None,
        version: 0,
    };
    let _unheard = dhcp.reserve(&reservation(10));
    assert!(probe.exists(), "another address");
    let _unheard = dhcp.reserve(&reservation(254));
    assert!(!probe.exists());
    let error = dhcp.reserve_probe(&mac("02:67:70:72:6f:62"), ip);
    assert!(error.unwrap_err().message.contains("10.100.0.254"));
    assert!(!probe.exists());
}

/// An operator's check is a process of its own: it must not take the address that the agent gives to a VM just now.
#[test]
fn the_address_of_the_probe_is_fenced_across_the_processes_of_a_host() {
    use std::os::unix::fs::MetadataExt as _;

    let folder = tempfile::tempdir().unwrap();
    let (agent, check) = (here(folder.path()), here(folder.path()));
    let ip = Ipv4Addr::new(10, 100, 0, 254);
    let lock = agent.alone().unwrap();
    let waits = std::thread::spawn(move || {
        check
            .reserve_probe(&mac("02:67:70:72:6f:62"), ip)
            .unwrap_err()
    });
    // it waits for the lock, as the kernel shows it
    let inode = std::fs::metadata(folder.path()).unwrap().ino();
    let is_waiting = |text: &str| {
        let mut lines = text.lines().filter(|line| line.contains("-> FLOCK"));
        lines.any(|line| line.contains(&format!(":{inode} ")))
    };
    while !is_waiting(&std::fs::read_to_string("/proc/locks").unwrap()) {
        assert!(!waits.is_finished(), "it did not wait");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let vm = "gpuaas-gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab.conf";
    std::fs::write(folder.path().join(vm), "52:54:00:10:00:0a,10.100.0.254\n").unwrap();
    drop(lock);
    let refused = waits.join().unwrap();
    assert!(
        refused.message.contains("a VM got the address"),
        "{refused}"
    );
    assert!(!folder.path().join(PROBE).exists());
}

#[test]
fn leases_and_reservations_parse() {
    let text = "1795199999 52:54:00:10:00:0B 10.100.0.11 * *\n1795200000 52:54:00:10:00:0a 10.100.0.10 guest ff:1\n";
    let found = parse_lease(text, &mac("52:54:00:10:00:0a")).unwrap();
    assert_eq!(
        found,
        DhcpLease {
            expires: 1_795_200_000,
            ip: Ipv4Addr::new(10, 100, 0, 10)
        }
    );
    assert_eq!(parse_lease(text, &mac("52:54:00:10:00:0c")), None);
    let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
        .parse()
        .unwrap();
    let alone = parse_reservation(vm.clone(), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
    assert_eq!((alone.group, alone.version), (None, 0));
    let group = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab";
    let line = format!("52:54:00:10:00:0a,10.100.0.10,set:group-{group}\n");
    let grouped = parse_reservation(vm.clone(), &line).unwrap();
    assert_eq!(
        (grouped.group, grouped.version),
        (Some(group.parse().unwrap()), 0)
    );
    let changed = "52:54:00:10:00:0a,10.100.0.10,set:version-7\n";
    let changed = parse_reservation(vm.clone(), changed).unwrap();
    assert_eq!((changed.group, changed.version), (None, 7));
    assert!(parse_reservation(vm, "nonsense").is_none());
}

/// D-62
#[test]
fn d_63_the_file_is_named_after_the_vm() {
    let dir = tempfile::tempdir().unwrap();
    let dhcp = Dhcp::new(settings::Dhcp {
        hosts_dir: dir.path().into(),
        leases_file: dir.path().join("leases"),
        pid_file: dir.path().join("pid"),
    });
    let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
        .parse()
        .unwrap();
    let file = dhcp.file(&vm);
    assert!(file.ends_with("gpuaas-gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab.conf"));
    assert!(dhcp.alive().is_err());
    dhcp.remove(&vm).unwrap();
}

/// The removal of a reservation breaks off before dnsmasq is notified; the next try finds the file gone.
/// D-64
#[test]
fn inc_20_a_signal_to_dnsmasq_that_was_lost_is_sent_by_the_next_try() {
    use std::os::unix::process::ExitStatusExt;
    let dir = tempfile::tempdir().unwrap();
    let dhcp = Dhcp::new(settings::Dhcp {
        hosts_dir: dir.path().into(),
        leases_file: dir.path().join("leases"),
        pid_file: dir.path().join("pid"),
    });
    let vm: VmName = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
        .parse()
        .unwrap();
    std::fs::write(dhcp.file(&vm), "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
    assert!(dhcp.remove(&vm).is_err(), "dnsmasq is not there");
    assert!(!dhcp.file(&vm).exists());
    assert!(dhcp.remove(&vm).is_err(), "the signal is still owed");

    // a process that is called dnsmasq and ends by the signal
    let program = dir.path().join("dnsmasq");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut process = std::process::Command::new(&program)
        .arg("60")
        .spawn()
        .unwrap();
    std::fs::write(dir.path().join("pid"), process.id().to_string()).unwrap();
    dhcp.remove(&vm).unwrap();
    assert_eq!(process.wait().unwrap().signal(), Some(1));
    dhcp.remove(&vm).unwrap();
    assert!(dhcp.reservations().unwrap().is_empty());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "the program and its pid: {left:?}");
}

/// One thread serves calls. A file that does not answer must not take it from them: here the next task on it is the one
/// that makes the file answer.
#[test]
fn a_file_of_dnsmasq_that_does_not_answer_holds_up_no_other_call() {
    let dir = tempfile::tempdir().unwrap();
    let leases_file = dir.path().join("leases");
    nix::unistd::mkfifo(&leases_file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let dhcp = Dhcp::new(settings::Dhcp {
        hosts_dir: dir.path().into(),
        leases_file: leases_file.clone(),
        pid_file: dir.path().join("pid"),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let read = runtime.spawn(async move { dhcp.lease(&mac("52:54:00:10:00:0a")) });
    let answer = runtime.spawn(async move {
        std::fs::write(leases_file, "7 52:54:00:10:00:0a 10.100.0.10 * *\n").unwrap();
    });
    let lease = runtime.block_on(async {
        answer.await.unwrap();
        read.await.unwrap().unwrap()
    });
    assert_eq!(lease.map(|lease| lease.expires), Some(7));
}

#[test]
fn the_reservation_of_the_checks_is_written_once_and_is_no_guests() {
    let dir = tempfile::tempdir().unwrap();
    let dhcp = Dhcp::new(settings::Dhcp {
        hosts_dir: dir.path().into(),
        leases_file: dir.path().join("leases"),
        pid_file: dir.path().join("pid"),
    });
    let (own, ip) = (mac("02:67:70:72:6f:62"), Ipv4Addr::new(10, 100, 0, 254));
    assert!(
        dhcp.reserve_probe(&own, ip).is_err(),
        "dnsmasq is not there"
    );
    let file = dir.path().join(PROBE);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "02:67:70:72:6f:62,10.100.0.254\n"
    );
    dhcp.reserve_probe(&own, ip).unwrap();
    assert!(dhcp.reservations().unwrap().is_empty());
}

#[test]
fn a_pid_that_another_process_has_by_now_is_never_signalled() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    std::fs::write(&pid_file, std::process::id().to_string()).unwrap();
    let dhcp = Dhcp::new(settings::Dhcp {
        hosts_dir: dir.path().into(),
        leases_file: dir.path().join("leases"),
        pid_file,
    });
    let error = dhcp.alive().unwrap_err();
    assert!(error.message.contains("not dnsmasq"), "{}", error.message);
}
