//! Table of the disk decision: every way a disk may be unsafe, alone, for every intent.
use super::*;
use crate::disk::facts::{DomainUse, gather};
use crate::disk::holders::DescriptorHolder;
use crate::error::HostResult;
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

const WIPE: Intent = Intent::Wipe { touched: true };
const INTENTS: [Intent; 5] = [
    Intent::Clone { touched: false },
    Intent::Clone { touched: true },
    Intent::Wipe { touched: false },
    WIPE,
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

/// D-30, D-31, D-32, D-77: the parent is not mounted; every intent is refused before it begins.
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
fn d_29_swap_holders_read_only_size_and_exclusive_opens_refuse_it() {
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
    refused_for_all(&with(|f| f.busy = true), &Blocker::Busy);
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
        decide(&identity(), BYTES, &facts, WIPE).is_ok(),
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
struct Recorded(tempfile::TempDir);

impl Recorded {
    fn new(mount: &str, swaps: &str) -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        for (name, number) in [
            ("nvme1n1", "259:1"),
            ("nvme1n1p1", "259:2"),
            ("nvme1n1p2", "259:3"),
        ] {
            host.device(name, number);
        }
        for partition in ["nvme1n1p1", "nvme1n1p2"] {
            host.write(
                &format!("sys/class/block/nvme1n1/{partition}/partition"),
                "1\n",
            );
        }
        host.write("sys/class/block/nvme1n1/size", "4194304\n");
        host.write("sys/class/block/nvme1n1/ro", "0\n");
        host.write("proc/self/mountinfo", mount);
        host.write("proc/swaps", swaps);
        host.write("proc/4242/comm", "mysqld\n");
        host
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    fn device(&self, name: &str, number: &str) {
        self.write(
            &format!("sys/class/block/{name}/dev"),
            &format!("{number}\n"),
        );
    }

    /// What the kernel shows when `upper` stands on `lower`.
    fn stands_on(&self, upper: &str, lower: &str) {
        self.write(&format!("sys/class/block/{upper}/slaves/{lower}/dev"), "");
    }

    fn facts(&self) -> HostResult<DiskFacts> {
        gather(
            &HostRoot::new(self.0.path()),
            "nvme1n1",
            &["trusted".into()],
        )
    }

    fn wipe(&self) -> Result<ProvenDisk, Vec<Blocker>> {
        decide(&identity(), BYTES, &self.facts().unwrap(), WIPE)
    }
}

fn recorded(mount: &str, swaps: &str, fd: Option<&str>) -> DiskFacts {
    let host = Recorded::new(mount, swaps);
    if let Some(target) = fd {
        host.link("proc/4242/fd/7", target);
    }
    host.facts().unwrap()
}

/// The root's partition, as every host has it mounted.
const QUIET: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
const NO_SWAP: &str = "Filename Type\n";

#[test]
fn p9_what_cannot_be_read_is_never_taken_for_free() {
    // a folder where a file should be, or the reverse, cannot be read, not even by root
    type Break = fn(&Recorded);
    let broken: [(&str, Break); 6] = [
        ("no /proc/swaps", |host| {
            std::fs::remove_file(host.0.path().join("proc/swaps")).unwrap();
        }),
        ("/proc/self/mountinfo", |host| {
            std::fs::remove_file(host.0.path().join("proc/self/mountinfo")).unwrap();
        }),
        ("another mount namespace", |host| {
            host.link("proc/4242/ns/mnt", "mnt:[4026531841]");
            host.write("proc/4242/stat", "4242 (mysqld) S 1");
            host.write("proc/4242/mountinfo/x", "");
        }),
        ("descriptors", |host| {
            host.write("proc/4242/stat", "4242 (mysqld) S 1");
            host.write("proc/4242/fd", "");
        }),
        ("holders", |host| {
            host.write("sys/class/block/nvme1n1p2/holders", "");
        }),
        ("read-only", |host| {
            host.write("sys/class/block/nvme1n1/ro", "perhaps\n");
        }),
    ];
    assert!(Recorded::new(QUIET, NO_SWAP).wipe().is_ok());
    for (what, spoil) in broken {
        let host = Recorded::new(QUIET, NO_SWAP);
        spoil(&host);
        assert!(host.facts().is_err(), "{what}");
    }
    let garbled = Recorded::new("no mountinfo at all\n", NO_SWAP);
    assert!(garbled.facts().is_err());
}

#[test]
fn p9_only_a_program_that_the_operator_trusts_may_be_closed_to_the_agent() {
    for (program, good) in [("trusted", true), ("mysqld", false)] {
        let host = Recorded::new(QUIET, NO_SWAP);
        host.write("proc/4242/stat", "4242 (x) S 1");
        host.write("proc/4242/comm", program);
        host.write("proc/4242/fd", "");
        assert_eq!(host.facts().is_ok(), good, "{program}");
    }
}

#[test]
fn p9_a_process_that_ended_meanwhile_holds_nothing() {
    let host = Recorded::new(QUIET, NO_SWAP);
    // a zombie's namespace and descriptors cannot be read, and it has none
    host.write("proc/4242/stat", "4242 (a) name) Z 1 1");
    host.write("proc/4242/fd", "");
    host.link("proc/4242/ns/mnt", "mnt:[4026531841]");
    host.write("proc/4242/mountinfo/x", "");
    assert!(host.wipe().is_ok());
}

#[test]
fn p9_a_thread_holds_and_mounts_what_its_process_does_not_show() {
    let used = |main: &str, change: fn(&Recorded)| {
        let host = Recorded::new(QUIET, NO_SWAP);
        host.write("proc/4242/stat", main);
        host.write("proc/4242/task/4242/stat", main);
        host.write("proc/4242/task/4243/stat", "4243 (mysqld) S 1");
        change(&host);
        host.wipe().unwrap_err()
    };
    let open = Blocker::OpenBy {
        pid: 4242,
        program: "mysqld".into(),
    };
    let mounted = Blocker::Mounted {
        device: "nvme1n1p2".into(),
        at: "/own".into(),
    };
    // the main thread has ended, or it has a table or a namespace of its own
    for main in ["4242 (mysqld) Z 1", "4242 (mysqld) S 1"] {
        let blockers = used(main, |host| {
            host.link("proc/4242/task/4243/fd/3", "/dev/nvme1n1p2");
        });
        assert_eq!(blockers, std::slice::from_ref(&open), "{main}");
        let blockers = used(main, |host| {
            let mount = "36 35 259:3 / /own rw - ext4 /dev/nvme1n1p2 rw\n";
            host.link("proc/4242/task/4243/ns/mnt", "mnt:[4026531841]");
            host.write("proc/4242/task/4243/mountinfo", mount);
        });
        assert_eq!(blockers, std::slice::from_ref(&mounted), "{main}");
    }
    // a table of its own with the same numbers
    let blockers = used("4242 (mysqld) S 1", |host| {
        host.link("proc/4242/fd/3", "/dev/null");
        host.link("proc/4242/task/4243/fd/3", "/dev/nvme1n1p2");
    });
    assert_eq!(blockers, std::slice::from_ref(&open));
    let host = Recorded::new(QUIET, NO_SWAP);
    host.write("proc/4242/task/4243/stat", "4243 (mysqld) S 1");
    host.write("proc/4242/task/4243/fd", "");
    assert!(host.facts().is_err(), "what cannot be read is not free");
}

#[test]
fn p9_whatever_stands_on_the_disk_at_any_height_is_use_of_it() {
    let host = Recorded::new(QUIET, NO_SWAP);
    // partition → RAID → its partition → crypt → LVM, which the kernel shows from above alone
    host.device("md0", "9:0");
    host.device("md0p1", "259:9");
    host.write("sys/class/block/md0/md0p1/partition", "1");
    host.device("dm-0", "254:0");
    host.device("dm-1", "254:1");
    host.write("sys/class/block/dm-1/dm/name", "vg-root\n");
    host.stands_on("md0", "nvme1n1p2");
    host.stands_on("dm-0", "md0p1");
    host.stands_on("dm-1", "dm-0");
    let holders = ["dm-0", "dm-1", "md0"].map(|name| Blocker::Holder(name.into()));
    assert_eq!(host.wipe().unwrap_err(), holders);

    let mounted = "36 35 0:44 / /data rw - btrfs /dev/mapper/vg-root rw\n";
    host.write("proc/self/mountinfo", mounted);
    host.write("proc/swaps", "Filename Type\n/dev/dm-0 partition 1 0 -2\n");
    host.link("proc/4242/fd/3", "/dev/md0p1");
    let blockers = host.wipe().unwrap_err();
    for expected in [
        Blocker::Mounted {
            device: "dm-1".into(),
            at: "/data".into(),
        },
        Blocker::Swap("/dev/dm-0".into()),
        Blocker::OpenBy {
            pid: 4242,
            program: "mysqld".into(),
        },
    ] {
        assert!(blockers.contains(&expected), "{blockers:?}");
    }
}

#[test]
fn p9_holders_and_loop_devices_over_a_disk_are_use_of_it() {
    let host = Recorded::new(QUIET, NO_SWAP);
    host.write("sys/class/block/nvme1n1p1/holders/bcache0/dev", "");
    assert_eq!(
        host.wipe().unwrap_err(),
        [Blocker::Holder("bcache0".into())]
    );
    let host = Recorded::new(QUIET, NO_SWAP);
    host.device("loop7", "7:7");
    host.write(
        "sys/class/block/loop7/loop/backing_file",
        "/dev/nvme1n1p2\n",
    );
    assert_eq!(host.wipe().unwrap_err(), [Blocker::Holder("loop7".into())]);
}

#[test]
fn p9_a_loop_device_over_what_cannot_be_found_may_stand_on_any_disk() {
    for (path, is_use) in [
        ("/srv/slot0.img", false),
        ("/srv/slot1.img (deleted)", true),
        ("/container/nodes/disk", true),
        ("/dev/node-of-a-container", true),
        ("/dev/nvme2n1", false),
    ] {
        let host = Recorded::new(QUIET, NO_SWAP);
        host.write("srv/slot0.img", "");
        host.device("nvme2n1", "259:7");
        host.device("loop7", "7:7");
        host.write("sys/class/block/loop7/loop/backing_file", path);
        let expected: &[Blocker] = match is_use {
            true => &[Blocker::Untraced("loop7".into())],
            false => &[],
        };
        let blockers = host.wipe().err().unwrap_or_default();
        assert_eq!(blockers, expected, "{path}");
    }
}

#[test]
fn p9_a_member_that_nobody_has_assembled_is_use_unless_a_tenant_of_ours_wrote_it() {
    for kind in [
        "LVM2_member",
        "linux_raid_member",
        "zfs_member",
        "crypto_LUKS",
        "swap",
        "ambivalent",
    ] {
        let mut facts = raw();
        facts.partitions = vec!["nvme1n1p2".into()];
        facts.partition_signatures = vec![("nvme1n1p2".into(), kind.into())];
        let on_partition = Blocker::Member {
            device: "nvme1n1p2".into(),
            kind: kind.into(),
        };
        let mut whole = raw();
        whole.signatures = vec![kind.into()];
        let on_disk = Blocker::Member {
            device: "nvme1n1".into(),
            kind: kind.into(),
        };
        for (facts, blocker) in [(facts, on_partition), (whole, on_disk)] {
            for touched in [false, true] {
                let wipe = decide(&identity(), BYTES, &facts, Intent::Wipe { touched });
                let clone = decide(&identity(), BYTES, &facts, Intent::Clone { touched });
                assert_eq!(wipe.is_ok(), touched, "{kind}");
                assert_eq!(clone.is_ok(), touched, "{kind}");
                let refused = wipe.err().unwrap_or_else(|| vec![blocker.clone()]);
                assert_eq!(refused, std::slice::from_ref(&blocker));
            }
        }
    }
}

#[test]
fn inc_12_a_recorded_host_with_a_mounted_child_is_refused() {
    let quiet = recorded(
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
        "Filename Type\n",
        None,
    );
    assert!(decide(&identity(), BYTES, &quiet, WIPE).is_ok());
    for mount in [
        "36 35 259:3 / /share2 rw - ext4 /dev/nvme1n1p2 rw\n",
        "36 35 0:44 / /share2 rw - btrfs /dev/nvme1n1p2 rw\n",
        "36 35 259:3 / /share2 rw - ext4 /dev/mapper/renamed rw\n",
    ] {
        let facts = recorded(mount, NO_SWAP, None);
        let blockers = decide(&identity(), BYTES, &facts, WIPE).unwrap_err();
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
        decide(&identity(), BYTES, &swap, WIPE).unwrap_err(),
        [Blocker::Swap("/dev/nvme1n1p1".into())]
    );
    let open = recorded("", "", Some("/dev/nvme1n1p2"));
    assert_eq!(
        decide(&identity(), BYTES, &open, WIPE).unwrap_err(),
        [Blocker::OpenBy {
            pid: 4242,
            program: "mysqld".into()
        }]
    );
    let other = recorded("", "", Some("/dev/nvme2n1"));
    assert!(decide(&identity(), BYTES, &other, WIPE).is_ok());
}

proptest! {
    /// Whatever else is true: no proof for a disk in use.
    #[test]
    fn d_29_no_use_is_ever_proven_safe(
        used in 0..5u8,
        partitions in prop::collection::vec("[a-z]{3}", 0..2),
        signatures in prop::collection::vec("[a-z]{3}", 0..2),
        intent in 0..5usize,
    ) {
        let mut facts = raw();
        facts.partitions = partitions;
        facts.signatures = signatures;
        match used {
            0 => facts.mounts = vec![("nvme1n1".into(), "/".into())],
            1 => facts.swaps = vec!["/dev/nvme1n1".into()],
            2 => facts.domains = vec![DomainUse { name: "d".into(), state: "shut off".into() }],
            3 => facts.descriptor_holders = vec![DescriptorHolder { pid: 1, program: "p".into() }],
            _ => facts.busy = true,
        }
        prop_assert!(decide(&identity(), BYTES, &facts, INTENTS[intent]).is_err());
    }
}

#[test]
fn d_33_a_disk_that_became_another_one_before_it_was_opened_is_not_written_to() {
    let facts = DiskFacts {
        diskseq: Some(7),
        ..raw()
    };
    let disk = decide(&identity(), BYTES, &facts, WIPE).unwrap();
    let same = AfterOpen {
        resolution: Resolution::Device("nvme1n1".into()),
        diskseq: Some(7),
        number: Some("259:3".into()),
        opened: "259:3".into(),
    };
    assert_eq!(disk.check_opened(&same), Ok(()));
    type Change = fn(&mut AfterOpen);
    let changes: [Change; 5] = [
        |after| after.resolution = Resolution::Device("nvme2n1".into()),
        |after| after.resolution = Resolution::Missing,
        |after| after.diskseq = Some(8),
        |after| after.number = None,
        |after| after.opened = "259:9".into(),
    ];
    for change in changes {
        let mut after = same.clone();
        change(&mut after);
        assert!(
            matches!(disk.check_opened(&after), Err(Blocker::Changed(_))),
            "{after:?}"
        );
    }
}
