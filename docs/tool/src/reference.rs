//! The generated reference pages, the runbook of host checks and the page of what only hardware shows: one generator per page, each a function of sources.
use std::path::Path;

use crate::Result;
use crate::page::Page;

mod checks;
mod constants;
mod hardware;
mod settings;
mod workflows;

/// All reference pages.
///
/// # Errors
/// An unreadable source file.
pub fn pages(root: &Path) -> Result<Vec<Page>> {
    let page = |name: &str, text: String| Page {
        path: format!("docs/reference/{name}.md"),
        text,
    };
    Ok(vec![
        page("settings", settings::page(root)?),
        page(
            "workflows",
            workflows::page(&gpuaas_allocation::step_tables()),
        ),
        Page {
            path: "docs/runbooks/host-checks.md".to_owned(),
            text: checks::page(&gpuaas_agent::checks::ALL),
        },
        Page {
            path: "docs/real-hardware.md".to_owned(),
            text: hardware::page(&gpuaas_agent::validate::BY_HAND, &gpuaas_agent::checks::ALL),
        },
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

    #[test]
    fn errors_md_describes_every_reason_and_no_other() {
        let page = include_str!("../../reference/errors.md");
        let described: BTreeSet<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .map(|(name, _)| name)
            .collect();
        let reasons: BTreeSet<&str> = (1..1000)
            .filter_map(|number| ErrorReason::try_from(number).ok())
            .map(|reason| &reason.as_str_name()["ERROR_REASON_".len()..])
            .collect();
        assert_eq!(
            described, reasons,
            "describe them in docs/reference/errors.md"
        );
    }
}
