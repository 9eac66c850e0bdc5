//! Every fact that the good host is offered on: without it, nothing is offered on it.
use std::path::{Path, PathBuf};

use gpuaas_agent::host::recording::{Answer, Entry};
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::agent::v1::TopologyReport;
use proptest::prelude::*;
use tokio::runtime::Runtime;

use super::reference_host::{CORNERS, Host, good};

/// What is shown, and nothing is offered on: who made a device, how large it is, where it is, what else can be done with it;
/// and what else runs on the host. Each is the beginning or the end of a path, or of a command line.
const SHOWN: [&str; 53] = [
    "/usr/bin/rdma",
    "/sys/class/dmi/",
    "/sys/class/infiniband/",
    "/sys/devices/system/node/",
    "/sys/module/mlx5_core",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/cmdline",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/1/",
    "/proc/912/",
    "/proc/1203/",
    "/proc/self/net/",
    "/etc/os-release",
    "/stat",
    "/fd/0",
    "/proc/977/mountinfo",
    "/free_hugepages",
    "/ns/mnt",
    "/config",
    "/vpd",
    "/resource",
    "/driver",
    "/numa_node",
    "_link_speed",
    "_link_width",
    "/physfn",
    "/sriov_totalvfs",
    "/node_guid",
    "/fw_ver",
    "/board_id",
    "/phys_state",
    "/rate",
    "/gids/0",
    "/link_layer",
    "/policy",
    "/model",
    "/serial",
    "/firmware_rev",
    "/nsid",
    "/wwid",
    "/queue/discard_max_bytes",
    "/queue/write_zeroes_max_bytes",
    "/ro",
    "nvme id-ctrl",
    "nvme smart-log",
    "/sys/class/net/",
    "/dev/ipmi0",
    "ipmitool",
    "dmidecode",
    "lldpcli",
    "iptables-save",
];

/// Whether a fact is none that anything is offered on.
fn is_shown(fact: &str) -> bool {
    let ends = |ends: &[String]| ends.iter().any(|end| fact.ends_with(end.as_str()));
    let corner = &CORNERS[0];
    let (disk, device) = (corner.disk_address(), corner.nic_address());
    // only what goes to a guest has to be alone in its group; a disk is known by its link and not by its maker
    let of_host = ends(&[
        format!("{disk}/iommu_group"),
        format!("{device}/iommu_group"),
        format!("{disk}/vendor"),
        format!("{disk}/device"),
        format!("{disk}/class"),
        format!("/sys/bus/pci/devices/{disk}"),
        format!("{device}/device"),
        format!("{}/device", corner.function_address()),
        format!("{}/class", corner.function_address()),
    ]);
    let listed = fact.starts_with("/sys/kernel/iommu_groups/") && ends(&[disk, device]);
    SHOWN
        .iter()
        .any(|shown| fact.starts_with(shown) || fact.ends_with(shown))
        || of_host
        || listed
        || fact.contains("nvme-Micron")
        || fact == "probe libvirt-running"
}

/// Whether a fact is of a device of another corner of the host: what holds for the first one holds for it.
fn is_elsewhere(fact: &str) -> bool {
    let corner = &CORNERS[0];
    let own = [
        corner.gpu_address(),
        corner.nic_address(),
        corner.function_address(),
        corner.disk_address(),
        corner.disk_name(),
        "103331".to_owned(),
    ];
    let device = fact.contains("0000:") || fact.contains("/nvme");
    device && !own.iter().any(|name| fact.contains(name.as_str()))
}

/// One that can be taken away and put back.
#[derive(Debug, Clone)]
enum Fact {
    File(PathBuf),
    Answer(String),
}

impl Fact {
    fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Answer(line) => line.clone(),
        }
    }
}

/// The facts of the host and of its first corner.
fn facts(host: &Host) -> Vec<Fact> {
    let files = host.recording.entries.keys().cloned().map(Fact::File);
    let answers = host.recording.answers.keys().cloned().map(Fact::Answer);
    let all = files.chain(answers);
    all.filter(|fact| !is_elsewhere(&fact.name())).collect()
}

/// A recorded host from which facts are taken away.
struct Bench {
    host: Recorded,
    runtime: Runtime,
    whole: TopologyReport,
}

impl Bench {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let host = Recorded::open(good().recording).expect("the recording is laid out");
        let whole = runtime.block_on(host.discover());
        let bench = Self {
            host,
            runtime,
            whole,
        };
        assert!(bench.is_offered(&bench.whole), "{:?}", bench.whole.blockers);
        bench
    }

    /// Everything that the good host offers is offered, as the good host offers it.
    fn is_offered(&self, report: &TopologyReport) -> bool {
        let free = report
            .candidates
            .iter()
            .filter(|slot| slot.blockers.is_empty());
        report.blockers.is_empty()
            && report.legal_groups.len() == 7
            && report.candidates.len() == 8
            && free.count() == 8
            && report.candidates == self.whole.candidates
    }

    /// What the host reports without some facts.
    fn without(&mut self, facts: &[Fact]) -> TopologyReport {
        let mut back: Vec<(PathBuf, PathBuf)> = Vec::new();
        let mut answers: Vec<(String, Answer)> = Vec::new();
        let tree = self.host.tree();
        for (number, fact) in facts.iter().enumerate() {
            match fact {
                Fact::File(path) => {
                    let from = tree.join(path.strip_prefix("/").expect("an absolute path"));
                    let to = tree
                        .parent()
                        .expect("a folder")
                        .join(format!("away-{number}"));
                    if std::fs::rename(&from, &to).is_ok() {
                        back.push((to, from));
                    }
                }
                Fact::Answer(line) => self.host.set_answers(|recording| {
                    answers.extend(recording.answers.remove_entry(line));
                }),
            }
        }
        let report = self.runtime.block_on(self.host.discover());
        for (from, to) in back {
            std::fs::rename(from, to).expect("the fact comes back");
        }
        self.host
            .set_answers(|recording| recording.answers.extend(answers));
        report
    }

    /// A program that prints something else, and back.
    fn with_answer(&mut self, line: &str, text: String) -> TopologyReport {
        let put = |host: &mut Recorded, answer: Answer| {
            host.set_answers(|recording| {
                recording.answers.insert(line.to_owned(), answer);
            });
        };
        let before = good().recording.answers[line].clone();
        put(&mut self.host, Answer::text(text));
        let report = self.runtime.block_on(self.host.discover());
        put(&mut self.host, before);
        report
    }

    /// A file with other bytes, and back.
    fn with(&mut self, path: &Path, bytes: &[u8]) -> TopologyReport {
        let at = self
            .host
            .tree()
            .join(path.strip_prefix("/").expect("an absolute path"));
        let before = std::fs::read(&at).expect("a file");
        std::fs::write(&at, bytes).expect("the file is written");
        let report = self.runtime.block_on(self.host.discover());
        std::fs::write(&at, before).expect("the file is written");
        report
    }
}

#[test]
fn a_128_no_fact_that_a_host_is_offered_on_can_be_missing() {
    let mut bench = Bench::new();
    let mut offered = Vec::new();
    for fact in facts(&good()) {
        let name = fact.name();
        let report = bench.without(&[fact]);
        if bench.is_offered(&report) && !is_shown(&name) {
            offered.push(name);
        }
    }
    assert_eq!(offered, Vec::<String>::new(), "offered without them");
    assert!(
        bench.is_offered(&bench.runtime.block_on(bench.host.discover())),
        "everything came back"
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("GPUAAS_BAD_INPUTS").ok().and_then(|text| text.parse::<u32>().ok()).map_or(60, |many| many / 100),
        ..ProptestConfig::default()
    })]

    /// Any facts at once, with one among them that the host is offered on.
    #[test]
    fn a_128_no_set_of_missing_facts_is_offered_and_none_breaks_the_agent(
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..12),
    ) {
        thread_local! {
            static BENCH: std::cell::RefCell<Bench> = std::cell::RefCell::new(Bench::new());
        }
        let all = facts(&good());
        let chosen: Vec<Fact> = picks.iter().map(|pick| pick.get(&all).clone()).collect();
        BENCH.with_borrow_mut(|bench| {
            let report = bench.without(&chosen);
            let needed: Vec<String> = chosen.iter().map(Fact::name).filter(|name| !is_shown(name)).collect();
            prop_assert!(needed.is_empty() || !bench.is_offered(&report), "offered without {needed:?}");
            Ok(())
        })?;
    }

    /// A program of the host prints nearly what it should, or anything: whatever reads it, nothing breaks.
    #[test]
    fn a_program_that_prints_nearly_what_it_should_breaks_nothing(
        pick in any::<prop::sample::Index>(),
        (from, to) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        odd in prop_oneof![
            Just(String::new()),
            Just("\u{0}".to_owned()),
            Just("-1".to_owned()),
            Just("1e999".to_owned()),
            Just("18446744073709551616".to_owned()),
            Just("[".repeat(1000)),
            Just("<a>".repeat(1000)),
            Just("null".to_owned()),
            ".{0,40}",
        ],
    ) {
        thread_local! {
            static BENCH: std::cell::RefCell<Bench> = std::cell::RefCell::new(Bench::new());
        }
        let host = good();
        let texts: Vec<(&String, &String)> = host
            .recording
            .answers
            .iter()
            .filter_map(|(line, answer)| match answer {
                Answer::Ended { stdout, .. } => Some((line, stdout)),
                Answer::Failed(_) => None,
            })
            .collect();
        let (line, text) = pick.get(&texts);
        // a piece of the text gives way to the odd one
        let letters: Vec<char> = text.chars().collect();
        let (one, other) = (from.index(letters.len() + 1), to.index(letters.len() + 1));
        let kept = |part: &[char]| part.iter().collect::<String>();
        let altered = kept(&letters[..one.min(other)]) + &odd + &kept(&letters[one.max(other)..]);
        BENCH.with_borrow_mut(|bench| bench.with_answer(line, altered));
    }

    /// A file of the host says something else: nothing breaks.
    #[test]
    fn a_file_with_any_other_bytes_breaks_nothing(
        pick in any::<prop::sample::Index>(),
        bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..64),
            Just(b"18446744073709551616\n".to_vec()),
            Just(b"-1\n".to_vec()),
            Just(b"0x\n".to_vec()),
            Just(vec![b'9'; 4096]),
            Just(vec![0xff; 256]),
        ],
    ) {
        thread_local! {
            static BENCH: std::cell::RefCell<Bench> = std::cell::RefCell::new(Bench::new());
        }
        let host = good();
        let texts: Vec<&PathBuf> = host
            .recording
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Text(_) | Entry::Bytes(_)))
            .map(|(path, _)| path)
            .collect();
        let path = pick.get(&texts);
        BENCH.with_borrow_mut(|bench| bench.with(path, &bytes));
    }
}
