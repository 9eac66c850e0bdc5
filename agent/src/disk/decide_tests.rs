//! Table of the disk decision: every way a disk may be unsafe, alone, for every intent.
use super::*;
use crate::disk::facts::{DomainUse, gather};
use crate::disk::holders::DescriptorHolder;
use crate::host::root::HostRoot;
use proptest::prelude::*;

const BYTES: u64 = 2 << 30;

fn identity() -> DiskIdentity {
    "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331"
        .parse()
        .unwrap()
}

fn raw() -> DiskFacts {
    DiskFacts {
        name: Some("nvme1n1".into()),
        is_block: true,
        bytes: BYTES,
        ..DiskFacts::default()
    }
}

const INTENTS: [Intent; 4] = [
    Intent::Clone { touched: false },
    Intent::Clone { touched: true },
    Intent::Wipe,
    Intent::Verify,
];

fn refused_for_all(facts: &DiskFacts, expected: &Blocker) {
    for intent in INTENTS {
        let blockers = decide(&identity(), BYTES, facts, intent).unwrap_err();
        assert!(blockers.contains(expected), "{intent:?}: {blockers:?}");
    }
}

#[test]
fn d_29_a_raw_unused_disk_is_proven_for_every_intent() {
    for intent in INTENTS {
        let disk = decide(&identity(), BYTES, &raw(), intent).unwrap();
        assert_eq!(disk.device(), PathBuf::from("/dev/nvme1n1"));
    }
}

#[test]
fn inc_12_mounted_child_partition_refused() {
    let mut facts = raw();
    facts.partitions = vec!["nvme1n1p2".into()];
    facts.mounts = vec![("nvme1n1p2".into(), "/share2".into())];
    refused_for_all(
        &facts,
        &Blocker::Mounted {
            device: "nvme1n1p2".into(),
            at: "/share2".into(),
        },
    );
}

#[test]
fn d_34_a_shut_off_domain_counts_as_use() {
    for state in ["running", "shut off", "paused", "crashed"] {
        let mut facts = raw();
        facts.domains = vec![DomainUse {
            name: "gpuaas-slice-x".into(),
            state: state.into(),
        }];
        refused_for_all(
            &facts,
            &Blocker::UsedByDomain {
                name: "gpuaas-slice-x".into(),
                state: state.into(),
            },
        );
    }
}

#[test]
fn d_34_a_vm_starts_on_its_own_disk_alone() {
    let allocation = AllocationId(uuid::Uuid::from_u128(7));
    let intent = Intent::Boot { allocation };
    let domain = |name: &str| DomainUse {
        name: name.to_owned(),
        state: "shut off".into(),
    };
    let own = domain(allocation.vm_name().as_str());
    let mut facts = raw();
    facts.partitions = vec!["nvme1n1p1".into()];
    facts.signatures = vec!["gpt".into()];
    facts.domains = vec![own.clone()];
    assert!(decide(&identity(), BYTES, &facts, intent).is_ok());
    for other in INTENTS {
        assert!(decide(&identity(), BYTES, &facts, other).is_err());
    }
    facts.domains = vec![own, domain("gpuaas-slice-x")];
    let blockers = decide(&identity(), BYTES, &facts, intent).unwrap_err();
    assert!(
        matches!(&blockers[..], [Blocker::UsedByDomain { name, .. }] if name == "gpuaas-slice-x")
    );
    facts.domains.pop();
    facts.mounts = vec![("nvme1n1p1".into(), "/share".into())];
    assert!(decide(&identity(), BYTES, &facts, intent).is_err());
}

#[test]
fn d_29_a_process_that_holds_it_open_refuses_it() {
    let mut facts = raw();
    facts.descriptor_holders = vec![DescriptorHolder {
        pid: 77,
        program: "dd".into(),
    }];
    refused_for_all(
        &facts,
        &Blocker::OpenBy {
            pid: 77,
            program: "dd".into(),
        },
    );
}

#[test]
fn d_29_swap_holders_read_only_size_and_claims_refuse_it() {
    let with = |change: fn(&mut DiskFacts)| {
        let mut facts = raw();
        change(&mut facts);
        facts
    };
    refused_for_all(
        &with(|f| f.swaps = vec!["/dev/nvme1n1p3".into()]),
        &Blocker::Swap("/dev/nvme1n1p3".into()),
    );
    refused_for_all(
        &with(|f| f.holders = vec!["dm-0".into()]),
        &Blocker::Holder("dm-0".into()),
    );
    refused_for_all(&with(|f| f.read_only = true), &Blocker::ReadOnly);
    refused_for_all(
        &with(|f| f.bytes = 1),
        &Blocker::WrongSize {
            found: 1,
            approved: BYTES,
        },
    );
    refused_for_all(
        &with(|f| f.bytes = 0),
        &Blocker::WrongSize {
            found: 0,
            approved: BYTES,
        },
    );
    refused_for_all(&with(|f| f.is_block = false), &Blocker::NotABlockDevice);
    refused_for_all(&with(|f| f.claimed = true), &Blocker::Claimed);
    refused_for_all(&with(|f| f.name = None), &Blocker::Missing);
    refused_for_all(
        &with(|f| f.ambiguous = Some("nvme1c1n1".into())),
        &Blocker::Ambiguous("nvme1c1n1".into()),
    );
}

#[test]
fn inc_43_an_unmounted_disk_with_partitions_is_not_raw() {
    let mut facts = raw();
    facts.partitions = vec!["nvme1n1p1".into()];
    facts.signatures = vec!["gpt".into()];
    let clone = decide(&identity(), BYTES, &facts, Intent::Clone { touched: false }).unwrap_err();
    assert_eq!(
        clone,
        [
            Blocker::Partitioned("nvme1n1p1".into()),
            Blocker::Signature("gpt".into())
        ]
    );
    assert!(
        decide(&identity(), BYTES, &facts, Intent::Clone { touched: true }).is_ok(),
        "our own clone restarts"
    );
    assert!(
        decide(&identity(), BYTES, &facts, Intent::Wipe).is_ok(),
        "a wipe is for disks with partitions"
    );
}

#[test]
fn a_missing_disk_and_an_unsafe_one_are_told_apart() {
    let missing = refusal(&identity(), &[Blocker::Missing]);
    assert_eq!(missing.reason, ErrorReason::DeviceMissing);
    let used = refusal(&identity(), &[Blocker::Swap("x".into())]);
    assert_eq!(used.reason, ErrorReason::DiskUnsafe);
}

/// A recorded host: sysfs and procfs of one disk with two partitions.
fn recorded(mount: &str, swaps: &str, fd: Option<&str>) -> DiskFacts {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    for (name, number) in [
        ("nvme1n1", "259:1"),
        ("nvme1n1p1", "259:2"),
        ("nvme1n1p2", "259:3"),
    ] {
        write(
            &format!("sys/class/block/{name}/dev"),
            &format!("{number}\n"),
        );
    }
    for partition in ["nvme1n1p1", "nvme1n1p2"] {
        write(
            &format!("sys/class/block/nvme1n1/{partition}/partition"),
            "1\n",
        );
    }
    write("sys/class/block/nvme1n1/size", "4194304\n");
    write("sys/class/block/nvme1n1/ro", "0\n");
    write("proc/self/mountinfo", mount);
    write("proc/swaps", swaps);
    write("proc/4242/comm", "mysqld\n");
    if let Some(target) = fd {
        std::fs::create_dir_all(dir.path().join("proc/4242/fd")).unwrap();
        std::os::unix::fs::symlink(target, dir.path().join("proc/4242/fd/7")).unwrap();
    }
    gather(&HostRoot::new(dir.path()), "nvme1n1")
}

#[test]
fn inc_12_a_recorded_host_with_a_mounted_child_is_refused() {
    let quiet = recorded(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        "Filename Type\n",
        None,
    );
    assert!(decide(&identity(), BYTES, &quiet, Intent::Wipe).is_ok());
    for mount in [
        "36 35 259:3 / /share2 rw - ext4 /dev/nvme1n1p2 rw\n",
        "36 35 0:44 / /share2 rw - btrfs /dev/nvme1n1p2 rw\n",
        "36 35 259:3 / /share2 rw - ext4 /dev/mapper/renamed rw\n",
    ] {
        let facts = recorded(mount, "", None);
        let blockers = decide(&identity(), BYTES, &facts, Intent::Wipe).unwrap_err();
        assert_eq!(
            blockers,
            [Blocker::Mounted {
                device: "nvme1n1p2".into(),
                at: "/share2".into()
            }]
        );
    }
}

#[test]
fn d_29_a_recorded_host_with_swap_or_an_open_partition_is_refused() {
    let swap = recorded(
        "",
        "Filename Type Size\n/dev/nvme1n1p1 partition 1 0 -2\n",
        None,
    );
    assert_eq!(
        decide(&identity(), BYTES, &swap, Intent::Wipe).unwrap_err(),
        [Blocker::Swap("/dev/nvme1n1p1".into())]
    );
    let open = recorded("", "", Some("/dev/nvme1n1p2"));
    assert_eq!(
        decide(&identity(), BYTES, &open, Intent::Wipe).unwrap_err(),
        [Blocker::OpenBy {
            pid: 4242,
            program: "mysqld".into()
        }]
    );
    let other = recorded("", "", Some("/dev/nvme2n1"));
    assert!(decide(&identity(), BYTES, &other, Intent::Wipe).is_ok());
}

proptest! {
    /// Whatever else is true: no proof for a disk in use.
    #[test]
    fn d_29_no_use_is_ever_proven_safe(
        used in 0..5u8,
        partitions in prop::collection::vec("[a-z]{3}", 0..2),
        signatures in prop::collection::vec("[a-z]{3}", 0..2),
        intent in 0..4usize,
    ) {
        let mut facts = raw();
        facts.partitions = partitions;
        facts.signatures = signatures;
        match used {
            0 => facts.mounts = vec![("nvme1n1".into(), "/".into())],
            1 => facts.swaps = vec!["/dev/nvme1n1".into()],
            2 => facts.domains = vec![DomainUse { name: "d".into(), state: "shut off".into() }],
            3 => facts.descriptor_holders = vec![DescriptorHolder { pid: 1, program: "p".into() }],
            _ => facts.claimed = true,
        }
        prop_assert!(decide(&identity(), BYTES, &facts, INTENTS[intent]).is_err());
    }
}

#[test]
fn d_33_a_disk_that_became_another_one_before_its_claim_is_not_written_to() {
    let facts = DiskFacts {
        diskseq: Some(7),
        ..raw()
    };
    let disk = decide(&identity(), BYTES, &facts, Intent::Wipe).unwrap();
    let same = AfterClaim {
        resolution: Resolution::Device("nvme1n1".into()),
        diskseq: Some(7),
        number: Some("259:3".into()),
        claimed: "259:3".into(),
    };
    assert_eq!(disk.check_claimed(&same), Ok(()));
    type Change = fn(&mut AfterClaim);
    let changes: [Change; 5] = [
        |after| after.resolution = Resolution::Device("nvme2n1".into()),
        |after| after.resolution = Resolution::Missing,
        |after| after.diskseq = Some(8),
        |after| after.number = None,
        |after| after.claimed = "259:9".into(),
    ];
    for change in changes {
        let mut after = same.clone();
        change(&mut after);
        assert!(
            matches!(disk.check_claimed(&after), Err(Blocker::Changed(_))),
            "{after:?}"
        );
    }
}
