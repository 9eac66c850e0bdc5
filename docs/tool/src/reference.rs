//! The generated reference pages, the runbook of host checks and the page of what only hardware shows: one generator per page, each a function of the contract or of sources.
use std::path::Path;

use crate::Result;
use crate::page::Page;

mod api;
mod checks;
mod constants;
mod contract;
mod data;
mod errors;
mod hardware;
mod messages;
mod reasons;
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
    let pool = gpuaas_proto::pool();
    Ok(vec![
        page("http-api", api::http(pool)),
        page("internal-api", api::internal(pool)),
        page("messages", messages::page(pool)),
        page("errors", errors::page(pool)),
        page("settings", settings::page(root)?),
        page("data-model", data::page(root)?),
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
