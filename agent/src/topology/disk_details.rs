//! What an NVMe disk is, how it can be erased, how healthy it says it is, and what uses it.
use std::path::Path;

use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::common::v1::DiskUseKind as Kind;
use serde::Deserialize;
use serde_json::Value;

use super::nvme::NvmeDisk;
use super::pci;
use crate::disk::method::NvmeFacts;
use crate::disk::nvme;
use crate::host::exec;
use crate::host::root::HostRoot;

const BLOCK: &str = "/sys/class/block";
/// Bits of OACS, FNA, ONCS and SANICAP (NVM Express base specification, figure "Identify Controller").
const FORMAT: u64 = 1 << 1;
const FORMATS_ALL: u64 = 0b11;
const SANITIZE_CRYPTO: u64 = 1 << 0;
const SANITIZE_BLOCK: u64 = 1 << 1;
const SANITIZE_OVERWRITE: u64 = 1 << 2;

/// What a disk answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Of `nvme id-ctrl`.
    pub controller: Option<ControllerReport>,
    /// Of `nvme smart-log`.
    pub health: Option<common::DiskHealth>,
    /// What decides how it can be wiped; none where it does not tell all of that.
    pub wipe: Option<NvmeFacts>,
}

/// The part of Identify Controller that matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct ControllerReport {
    #[serde(default)]
    oacs: u64,
    #[serde(default)]
    fna: u64,
    #[serde(default)]
    sanicap: u64,
    #[serde(default)]
    nn: u32,
}

/// Asks a disk, of which the kernel has a folder below `root`.
pub async fn ask(root: &HostRoot, name: &str) -> Answers {
    let reported = run("id-ctrl", name).await;
    let reported = reported.as_deref();
    let controller = reported.and_then(|text| nvme::parse_controller(text).ok());
    let namespace = root.read_value(format!("{BLOCK}/{name}/nsid"));
    let namespace = namespace.and_then(|text| text.parse().ok());
    let wipe = match controller.zip(namespace) {
        Some((controller, namespace)) => {
            let listed = nvme::namespaces(Path::new(&format!("/dev/{name}"))).await;
            Some(NvmeFacts {
                controller,
                namespace,
                namespaces: listed.ok().flatten(),
            })
        }
        None => None,
    };
    Answers {
        controller: reported.and_then(|text| serde_json::from_str(text).ok()),
        health: ask_health(name).await,
        wipe,
    }
}

/// Asks a disk for its health alone.
pub async fn ask_health(name: &str) -> Option<common::DiskHealth> {
    parse_health(&run("smart-log", name).await?)
}

async fn run(what: &str, name: &str) -> Option<String> {
    let device = format!("/dev/{name}");
    let arguments = [what, device.as_str(), "--output-format=json"];
    let output = exec::run("nvme", &arguments, exec::PROBE_LIMIT).await;
    let output = output.ok()?;
    (output.status == 0).then_some(output.stdout)
}

/// Reads `nvme smart-log`; none where a field that says whether the disk is healthy is missing.
pub fn parse_health(text: &str) -> Option<common::DiskHealth> {
    let log: Value = serde_json::from_str(text).ok()?;
    // newer versions write the bits one by one, below their sum
    let warning = match &log["critical_warning"] {
        Value::Object(bits) => bits.get("value")?.as_u64()?,
        plain => plain.as_u64()?,
    };
    let number = |what: &str| log[what].as_u64();
    // larger than any counter: nvme writes 128 bits as a float or a text
    let count = |what: &str| number(what).unwrap_or_default();
    let small = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    Some(common::DiskHealth {
        critical_warning: small(Some(warning))?,
        percent_used: small(number("percent_used").or(number("percentage_used")))?,
        available_spare_percent: small(number("avail_spare"))?,
        spare_threshold_percent: small(number("spare_thresh"))?,
        media_errors: count("media_errors"),
        error_log_entries: count("num_err_log_entries"),
        unsafe_shutdowns: count("unsafe_shutdowns"),
        power_on_hours: count("power_on_hours"),
        temperature_kelvin: small(number("temperature")).unwrap_or_default(),
    })
}

/// What stands against a disk by its own word. Media errors and wear alone do not: the disk still answers for its data.
pub fn health_faults(health: &common::DiskHealth) -> Vec<String> {
    const BITS: [&str; 6] = [
        "its spare blocks are used up",
        // passes, and is no fault of the disk: see `is_out_of_temperature`
        "",
        "its reliability is degraded",
        "it is read-only",
        "its volatile memory's backup failed",
        "its persistent memory is unreliable",
    ];
    let bits = BITS
        .iter()
        .zip(0..)
        .filter(|(what, bit)| !what.is_empty() && health.critical_warning >> bit & 1 == 1);
    let mut faults: Vec<String> = bits.map(|(what, _)| (*what).to_owned()).collect();
    if health.available_spare_percent < health.spare_threshold_percent && faults.is_empty() {
        faults.push(BITS[0].to_owned());
    }
    faults
}

/// Whether a disk is too warm or too cold.
pub fn is_out_of_temperature(health: &common::DiskHealth) -> bool {
    health.critical_warning >> 1 & 1 == 1
}

/// Describes a disk.
pub fn describe(root: &HostRoot, disk: &NvmeDisk, answers: &Answers) -> common::NvmeDisk {
    if let Some(known) = &disk.passed_through {
        let controller = disk.pci.as_ref();
        return common::NvmeDisk {
            controller: controller.map(|address| pci::describe(root, address)),
            ..known.clone()
        };
    }
    let block = format!("{BLOCK}/{}", disk.name);
    let own = |what: &str| {
        root.read_value(format!("{block}/{what}"))
            .unwrap_or_default()
    };
    let controller = |what: &str| own(&format!("device/{what}"));
    let is_positive = |what: &str| own(what).parse::<u64>().is_ok_and(|bytes| bytes > 0);
    let report = answers.controller.unwrap_or_default();
    common::NvmeDisk {
        kernel_name: disk.name.clone(),
        by_id: disk.by_id.clone().unwrap_or_default(),
        wwid: own("wwid"),
        model: controller("model"),
        serial: controller("serial"),
        firmware_version: controller("firmware_rev"),
        bytes: disk.facts.bytes,
        controller: disk
            .pci
            .as_ref()
            .map(|address| pci::describe(root, address)),
        namespace_id: own("nsid").parse().unwrap_or(0),
        namespaces: report.nn,
        erase: Some(common::DiskErase {
            discard: is_positive("queue/discard_max_bytes"),
            write_zeroes: is_positive("queue/write_zeroes_max_bytes"),
            format: report.oacs & FORMAT != 0,
            format_reaches_all: report.fna & FORMATS_ALL != 0,
            sanitize_crypto: report.sanicap & SANITIZE_CRYPTO != 0,
            sanitize_block: report.sanicap & SANITIZE_BLOCK != 0,
            sanitize_overwrite: report.sanicap & SANITIZE_OVERWRITE != 0,
        }),
        health: answers.health,
        uses: uses(root, disk),
        fault: disk.unreadable.clone().unwrap_or_default(),
    }
}

fn uses(root: &HostRoot, disk: &NvmeDisk) -> Vec<common::DiskUse> {
    let one = |kind: Kind, device: &str, detail: String| common::DiskUse {
        kind: kind.into(),
        device: device.to_owned(),
        detail,
    };
    let facts = &disk.facts;
    let mut found = Vec::new();
    for name in &facts.partitions {
        found.push(one(Kind::Partition, name, String::new()));
    }
    for name in &facts.holders {
        let (kind, detail) = stacked(root, name);
        found.push(one(kind, name, detail));
    }
    for (device, at) in &facts.mounts {
        found.push(one(Kind::Mount, device, at.clone()));
    }
    for device in &facts.swaps {
        found.push(one(Kind::Swap, device, String::new()));
    }
    for holder in &facts.descriptor_holders {
        found.push(one(Kind::Process, &holder.program, holder.pid.to_string()));
    }
    found
}

/// What a device is that stands on another, by its own word in sysfs.
fn stacked(root: &HostRoot, name: &str) -> (Kind, String) {
    let own = |what: &str| root.read_value(format!("{BLOCK}/{name}/{what}"));
    if let Some(uuid) = own("dm/uuid") {
        let kind = match uuid.split('-').next().unwrap_or_default() {
            "LVM" => Kind::Lvm,
            "CRYPT" => Kind::Crypt,
            "mpath" => Kind::Multipath,
            _ => Kind::Other,
        };
        return (kind, own("dm/name").unwrap_or_default());
    }
    let there = |what: &str| root.exists(format!("{BLOCK}/{name}/{what}"));
    match name.trim_end_matches(|last: char| last.is_ascii_digit()) {
        _ if there("md") => (Kind::Raid, own("md/level").unwrap_or_default()),
        _ if there("bcache") => (Kind::Cache, String::new()),
        "bcache" => (Kind::Cache, String::new()),
        "loop" => (Kind::Loop, own("loop/backing_file").unwrap_or_default()),
        "zd" => (Kind::Zfs, String::new()),
        _ => (Kind::Other, String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_says_it_is_ill_is_not_offered() {
        let log = |warning: &str, spare: u32| {
            format!(
                r#"{{"critical_warning":{warning},"temperature":311,"avail_spare":{spare},"spare_thresh":10,
                "percent_used":3,"media_errors":0,"num_err_log_entries":4,"power_on_hours":9000}}"#
            )
        };
        let good = parse_health(&log("0", 100)).unwrap();
        assert_eq!((good.percent_used, good.power_on_hours), (3, 9000));
        assert!(health_faults(&good).is_empty());
        let faults = |text: &str| health_faults(&parse_health(text).unwrap());
        assert_eq!(faults(&log("8", 100)), ["it is read-only"]);
        assert_eq!(
            faults(&log(r#"{"value":4,"media":1}"#, 100)),
            ["its reliability is degraded"]
        );
        assert_eq!(faults(&log("0", 9)), ["its spare blocks are used up"]);
        let warm = parse_health(&log("2", 100)).unwrap();
        assert!(is_out_of_temperature(&warm) && health_faults(&warm).is_empty());
        assert!(!is_out_of_temperature(&good));
        for unknown in [
            "",
            "{}",
            "[]",
            r#"{"critical_warning":"0"}"#,
            r#"{"critical_warning":0}"#,
        ] {
            assert_eq!(parse_health(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn what_stands_on_a_disk_is_told_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join("sys/class/block").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("dm-0/dm/uuid", "LVM-abc\n");
        write("dm-0/dm/name", "vg0-root\n");
        write("dm-1/dm/uuid", "CRYPT-LUKS2-abc-data\n");
        write("dm-2/dm/uuid", "mpath-3600\n");
        write("md127/md/level", "raid1\n");
        write("bcache0/dev", "252:0\n");
        write("loop3/loop/backing_file", "/srv/x\n");
        write("zd16/dev", "230:16\n");
        let root = HostRoot::new(dir.path());
        for (name, kind, detail) in [
            ("dm-0", Kind::Lvm, "vg0-root"),
            ("dm-1", Kind::Crypt, ""),
            ("dm-2", Kind::Multipath, ""),
            ("md127", Kind::Raid, "raid1"),
            ("bcache0", Kind::Cache, ""),
            ("loop3", Kind::Loop, "/srv/x"),
            ("zd16", Kind::Zfs, ""),
            ("drbd0", Kind::Other, ""),
        ] {
            assert_eq!(stacked(&root, name), (kind, detail.to_owned()), "{name}");
        }
    }
}
