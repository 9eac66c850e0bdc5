//! What the disks say of themselves (SMART). It changes slowly, and each answer takes a program: a disk is asked again after
//! some minutes.
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::common::v1 as common;

use super::CheckResult;
use crate::checks::DISK_HEALTH;
use crate::disk::identity::{BY_ID, is_nvme_disk};
use crate::host::root::HostRoot;
use crate::host::{blocking, recording};
use crate::topology::disk_details::{ask_health, health_faults, is_out_of_temperature};

/// How old an answer may be.
const ASK_AFTER: Duration = Duration::from_secs(600);
/// Share of a disk's rated life, in percent, from which its replacement is to be planned.
const WORN: u32 = 90;

/// A disk by kernel name and stable link: another disk in the same place is another one.
type Disk = (String, Option<String>);

/// What a disk said of itself; none: it did not tell.
type Reported = Option<common::DiskHealth>;

/// What the disks answered, and when.
#[derive(Debug, Default)]
pub struct DiskHealths(Mutex<BTreeMap<Disk, (Instant, Reported)>>);

impl DiskHealths {
    /// Forgets what is gone or old, and returns who is to be asked.
    fn due(&self, disks: &[Disk]) -> Vec<Disk> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .retain(|disk, (requested, _)| disks.contains(disk) && requested.elapsed() < ASK_AFTER);
        let due = disks.iter().filter(|disk| !known.contains_key(disk));
        due.cloned().collect()
    }

    /// Takes answers in, and returns all of them.
    fn take(&self, answers: Vec<(Disk, Reported)>) -> Vec<(Disk, Reported)> {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(
            answers
                .into_iter()
                .map(|(disk, reported)| (disk, (now, reported))),
        );
        let all = known.iter();
        all.map(|(disk, (_, reported))| (disk.clone(), *reported))
            .collect()
    }
}

/// The stable links of the disks, by kernel name.
pub(super) fn stable_links(root: &HostRoot) -> BTreeMap<String, String> {
    let mut links = BTreeMap::new();
    for link in root.names(BY_ID) {
        if link.starts_with("nvme-eui.")
            && let Some(name) = root.link_name(format!("{BY_ID}/{link}"))
        {
            links.insert(name, format!("{BY_ID}/{link}"));
        }
    }
    links
}

/// Asks the disks of this host.
pub(super) async fn check(root: &HostRoot, is_lab: bool, known: &DiskHealths) -> CheckResult {
    if is_lab || !(root.is_live() || recording::is_replay()) {
        return CheckResult::skip(&DISK_HEALTH, "the disks of this host are played");
    }
    let disks = blocking::here(|| {
        let links = stable_links(root);
        let names = root.names("/sys/class/block").into_iter();
        let names = names.filter(|name| is_nvme_disk(name));
        names
            .map(|name| {
                let link = links.get(&name).cloned();
                (name, link)
            })
            .collect::<Vec<Disk>>()
    });
    let answers = known.due(&disks).into_iter();
    let answers = answers.map(|disk| async move {
        let reported = ask_health(&disk.0).await;
        (disk, reported)
    });
    let answers = futures::future::join_all(answers).await;
    judge(&known.take(answers))
}

/// What the answers mean: a pure function. Wear and media errors alone fail no disk, since it still answers for its data.
fn judge(disks: &[(Disk, Reported)]) -> CheckResult {
    if disks.is_empty() {
        return CheckResult::skip(&DISK_HEALTH, "there is no NVMe disk");
    }
    let (mut bad, mut warned) = (Vec::new(), Vec::new());
    for ((name, link), reported) in disks {
        let device = link.clone().unwrap_or(format!("/dev/{name}"));
        let Some(health) = reported else {
            warned.push(format!("{device} does not report its health"));
            continue;
        };
        let faults = health_faults(health);
        if !faults.is_empty() {
            bad.push((device, format!("says that {}", faults.join(", "))));
            continue;
        }
        if is_out_of_temperature(health) {
            warned.push(format!("{device} is too warm or too cold"));
        }
        if health.media_errors > 0 {
            warned.push(format!("{device} had {} media errors", health.media_errors));
        }
        if health.percent_used >= WORN {
            let used = health.percent_used;
            warned.push(format!("{device} has used {used} % of its rated life"));
        }
    }
    if bad.is_empty() && !warned.is_empty() {
        return CheckResult::warn(&DISK_HEALTH, warned.join("; "));
    }
    let good = format!("{} NVMe disks say that they are well", disks.len());
    CheckResult::of_devices(&DISK_HEALTH, bad, good)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip, Warn};

    use super::*;

    fn disk(number: u32) -> Disk {
        let link = format!("/dev/disk/by-id/nvme-eui.{number}");
        (format!("nvme{number}n1"), Some(link))
    }

    fn well() -> common::DiskHealth {
        common::DiskHealth {
            available_spare_percent: 100,
            spare_threshold_percent: 10,
            percent_used: 2,
            ..common::DiskHealth::default()
        }
    }

    #[test]
    fn d_80_a_disk_that_says_it_fails_is_named_and_a_worn_one_is_told() {
        assert_eq!(judge(&[]).status, Skip);
        let all = |second: Reported| judge(&[(disk(1), Some(well())), (disk(2), second)]);
        let good = all(Some(well()));
        assert_eq!((good.status, good.devices.len()), (Pass, 0), "{good:?}");
        type Change = fn(&mut common::DiskHealth);
        let table: [(Change, &str); 2] = [
            (|one| one.critical_warning = 8, "it is read-only"),
            (
                |one| one.available_spare_percent = 9,
                "its spare blocks are used up",
            ),
        ];
        for (change, said) in table {
            let mut health = well();
            change(&mut health);
            let bad = all(Some(health));
            assert_eq!(bad.status, Fail);
            assert_eq!(bad.devices, ["/dev/disk/by-id/nvme-eui.2"]);
            assert!(bad.detail.ends_with(said), "{}", bad.detail);
            assert_eq!(bad.remediation, DISK_HEALTH.remedy);
        }
        let worn = common::DiskHealth {
            percent_used: WORN,
            media_errors: 3,
            ..well()
        };
        let worn = all(Some(worn));
        assert_eq!((worn.status, worn.devices.len()), (Warn, 0));
        for said in ["had 3 media errors", "has used 90 % of its rated life"] {
            assert!(worn.detail.contains(said), "{}", worn.detail);
        }
        let silent = all(None);
        assert_eq!(silent.status, Warn);
        assert!(
            silent.detail.contains("does not report"),
            "{}",
            silent.detail
        );
        // a disk that fails is named whatever the others are
        let both = judge(&[
            (disk(1), None),
            (
                disk(2),
                Some(common::DiskHealth {
                    critical_warning: 4,
                    ..well()
                }),
            ),
        ]);
        assert_eq!(both.devices, ["/dev/disk/by-id/nvme-eui.2"]);
    }

    #[test]
    fn a_disk_is_asked_once_and_another_one_in_its_place_anew() {
        let healths = DiskHealths::default();
        let disks = [disk(1), disk(2)];
        assert_eq!(healths.due(&disks), disks);
        let reported = healths.take(
            disks
                .iter()
                .map(|one| (one.clone(), Some(well())))
                .collect(),
        );
        assert_eq!(reported.len(), 2);
        assert_eq!(healths.due(&disks), Vec::<Disk>::new());
        let other = [disk(1), ("nvme2n1".to_owned(), None)];
        assert_eq!(healths.due(&other), other[1..]);
        // what is gone is not told of any more
        assert_eq!(healths.take(Vec::new()).len(), 1);
    }
}
