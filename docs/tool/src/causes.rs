//! The causes for which a slot is `cleanup_blocked`, as the sources have them, and the rows of their runbook.
use std::collections::BTreeSet;
use std::path::Path;

use crate::{Error, Result};

/// The runbook.
pub const PAGE: &str = "docs/runbooks/slot-cleanup-blocked.md";
/// Where a step of a launch, release or repair gets its reasons: on the host, and in the workflow that calls it.
const SOURCES: [&str; 2] = ["agent/src", "services/allocation/src/workflow"];
/// Where the ledger blocks slots, without a step.
const LEDGER: &str = "services/placement/src";
/// Reasons that the sources name and no step ends with for good, and why.
pub const NO_CAUSE: [(&str, &str); 5] = [
    ("INGRESS_OFF", "of opening a port"),
    ("METRICS_UNAVAILABLE", "of reading what was measured"),
    (
        "OPERATION_NOT_FOUND",
        "the workflow begins the operation again",
    ),
    ("OVERLOADED", "the call is repeated"),
    ("SERIAL_LOG_UNAVAILABLE", "of reading a serial log"),
];
/// Each file in which the ledger blocks slots, how often, and what its row in the page says.
pub const BLOCKED_BY: [(&str, usize, &str); 7] = [
    ("drift.rs", 2, "slot-drift.md#a-disk-in-doubt"),
    (
        "force_release.rs",
        1,
        "Its allocation was released by force: the disk is not wiped",
    ),
    ("host_holds.rs", 1, "*The host holds the slot for …*"),
    (
        "nodes.rs",
        1,
        "the host was installed anew while the slot was held",
    ),
    ("provision.rs", 1, "`provision failed at "),
    ("release.rs", 2, "in step `wipe` or `verify_wipe`"),
    ("repair.rs", 2, "first wipe failed"),
];

/// Reasons that a step can end with, as the runbook has to have them.
///
/// # Errors
/// A source that cannot be read.
pub fn reasons(root: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for folder in SOURCES {
        for (_, code) in sources(root, folder)? {
            let named = code.split("ErrorReason::").skip(1);
            found.extend(
                named
                    .filter_map(variant)
                    .map(|name| crate::snake_case(name).to_uppercase()),
            );
        }
    }
    // what of_host makes of a call without an answer
    found.insert("HOST_UNREACHABLE".to_owned());
    Ok(found)
}

/// How often each file of the ledger blocks slots.
///
/// # Errors
/// A source that cannot be read.
pub fn blocking(root: &Path) -> Result<Vec<(String, usize)>> {
    let mut found = Vec::new();
    for (file, code) in sources(root, LEDGER)? {
        let calls = code.matches("slots::block(").count();
        if calls > 0 {
            found.push((file, calls));
        }
    }
    found.sort();
    Ok(found)
}

/// The reasons in the first column of the page's table.
///
/// # Errors
/// [`Error::Unexpected`] for a page without the table.
pub fn rows(page: &str) -> Result<BTreeSet<String>> {
    let unexpected = |what: &str| Error::Unexpected {
        path: PAGE.to_owned(),
        what: what.to_owned(),
    };
    let (_, section) = page
        .split_once("\n## Why it happened\n")
        .ok_or_else(|| unexpected("has no section of causes"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    let first = rows.filter_map(|row| row.split(" | ").next());
    let words = first.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let is_reason = |word: &&str| {
        let mut letters = word.chars();
        word.len() > 3 && letters.all(|c| c.is_ascii_uppercase() || c == '_')
    };
    let found: BTreeSet<String> = words.filter(is_reason).map(str::to_owned).collect();
    if found.is_empty() {
        return Err(unexpected("has no table of causes"));
    }
    Ok(found)
}

/// Sources below a folder without their tests, by their path in it.
fn sources(root: &Path, folder: &str) -> Result<Vec<(String, String)>> {
    let is_own = |path: &Path| {
        let path = path.to_string_lossy();
        path.ends_with(".rs") && !path.ends_with("tests.rs")
    };
    let mut found = Vec::new();
    for path in crate::files(root, folder, &[], is_own)? {
        let code = crate::read(&root.join(&path))?;
        let own = code.split("\n#[cfg(test)]\nmod ").next();
        let file = path[folder.len()..].trim_start_matches('/');
        found.push((file.to_owned(), own.unwrap_or_default().to_owned()));
    }
    Ok(found)
}

/// The name of a variant at the beginning of a text; functions of the type are none.
fn variant(text: &str) -> Option<&str> {
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    let name = &text[..end];
    name.starts_with(|c: char| c.is_ascii_uppercase())
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

    use super::*;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn inc_14_every_cause_of_a_blocked_slot_has_its_row_in_the_runbook() {
        let page = crate::read(&root().join(PAGE)).expect("the page");
        let rows = rows(&page).expect("a table");
        let reasons = reasons(root()).expect("the sources");
        assert!(reasons.len() > 20, "{reasons:?}");
        for reason in &reasons {
            let is_none = NO_CAUSE.iter().any(|(none, _)| none == reason);
            assert!(
                is_none != rows.contains(reason),
                "{reason}: it needs a row in {PAGE}, or a reason in NO_CAUSE, and not both"
            );
        }
        for (reason, why) in NO_CAUSE {
            assert!(
                reasons.contains(reason),
                "{reason} ({why}) is named nowhere"
            );
        }
        for row in &rows {
            let name = format!("ERROR_REASON_{row}");
            assert!(
                ErrorReason::from_str_name(&name).is_some(),
                "{row} is no reason"
            );
        }
    }

    #[test]
    fn inc_14_every_place_that_blocks_a_slot_without_a_step_has_its_row() {
        let page = crate::read(&root().join(PAGE)).expect("the page");
        let found = blocking(root()).expect("the sources");
        let known: Vec<(String, usize)> = BLOCKED_BY
            .iter()
            .map(|(file, calls, _)| ((*file).to_owned(), *calls))
            .collect();
        assert_eq!(
            found, known,
            "add the row to {PAGE} and the file to BLOCKED_BY"
        );
        for (file, _, row) in BLOCKED_BY {
            assert!(page.contains(row), "{file}: {row}");
        }
    }

    #[test]
    fn a_row_that_is_missing_is_noticed() {
        let page = "x\n## Why it happened\n\n| reason | cause |\n|---|---|\n| `DISK_UNSAFE` with *x* | `FENCED` |\n\n## Next\n| `INTERNAL` | y |\n";
        let rows = rows(page).expect("a table");
        assert_eq!(rows.into_iter().collect::<Vec<_>>(), ["DISK_UNSAFE"]);
        assert!(super::rows("# none").is_err());
        assert_eq!(
            crate::snake_case("GpuPartitionUnavailable"),
            "gpu_partition_unavailable"
        );
        assert_eq!(variant("DiskUnsafe,"), Some("DiskUnsafe"));
        assert_eq!(variant("try_from(x)"), None);
    }
}
