//! Rules for the fields of what a host reports: sizes, forms and ranges. The first that is broken is the report's fault.
use gpuaas_common::value::{is_nvme_link, lab_disk};
use gpuaas_proto::gpuaas::common::v1::Evidence;
use uuid::Uuid;

pub(super) const MAX_CHECKS: usize = 256;
pub(super) const MAX_DEVICES: usize = 1024;
pub(super) const MAX_GUESTS: usize = 4096;
/// Of one kind: processors, devices, functions of a device, addresses.
pub(super) const MAX_PARTS: usize = 4096;
pub(super) const MAX_NAME: usize = 128;
pub(super) const MAX_TEXT: usize = 4096;
pub(super) const MAX_HUGEPAGES: u32 = 1 << 16;
pub(super) const MAX_NUMA_NODE: u32 = 1023;
pub(super) const MAX_DISK_BYTES: u64 = 1 << 60;

/// A field that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Path of the field in the report.
    pub field: String,
    /// The rule, to be read after the field's name.
    pub rule: String,
}

pub(super) type Checked = Result<(), Fault>;

pub(super) fn fault(field: &str, rule: impl Into<String>) -> Checked {
    Err(Fault {
        field: field.to_owned(),
        rule: rule.into(),
    })
}

pub(super) fn at_most<T>(field: &str, list: &[T], most: usize) -> Checked {
    if list.len() > most {
        return fault(field, format!("must have at most {most} entries"));
    }
    Ok(())
}

/// Text of one line that cannot hide anything.
pub(super) fn text(field: &str, value: &str, most: usize) -> Checked {
    if value.len() > most {
        return fault(field, format!("must have at most {most} bytes"));
    }
    if value
        .chars()
        .any(|c| c.is_control() && c != '\n' && c != '\t')
    {
        return fault(field, "must not have control characters");
    }
    Ok(())
}

/// A name: of a check, a driver, an interface, a profile.
pub(super) fn name(field: &str, value: &str) -> Checked {
    text(field, value, MAX_NAME)?;
    if value.contains(['\n', '\t', '/']) {
        return fault(field, "must be a name");
    }
    Ok(())
}

pub(super) fn ids(field: &str, list: &[String], most: usize) -> Checked {
    at_most(field, list, most)?;
    match list.iter().all(|id| Uuid::try_parse(id).is_ok()) {
        true => Ok(()),
        false => fault(field, "must be ids"),
    }
}

/// A disk's identity leads nowhere but to a disk: no path that escapes, and no kernel name.
pub(super) fn identity(field: &str, value: &str) -> Checked {
    if is_nvme_link(value) || lab_disk(value).is_some() {
        return Ok(());
    }
    fault(
        field,
        "must be /dev/disk/by-id/nvme-eui.… or lab-disk: and a UUID",
    )
}

pub(super) fn optional_id(field: &str, value: &str) -> Checked {
    if value.is_empty() || Uuid::try_parse(value).is_ok() {
        return Ok(());
    }
    fault(field, "must be an id")
}

pub(super) fn evidence(field: &str, evidence: &Evidence) -> Checked {
    let of = |part: &str| format!("{field}.{part}");
    if evidence.check.is_empty() {
        return fault(&of("check"), "is required");
    }
    name(&of("check"), &evidence.check)?;
    text(&of("detail"), &evidence.detail, MAX_TEXT)?;
    text(&of("remediation"), &evidence.remediation, MAX_TEXT)?;
    at_most(&of("devices"), &evidence.devices, MAX_DEVICES)?;
    for device in &evidence.devices {
        text(&of("devices"), device, MAX_NAME)?;
    }
    Ok(())
}
