//! The checks of this host: the agent's readiness evidence, and its service.
use gpuaas_common::config::Settings as CommonSettings;

use super::line::{Line, Status};
use crate::checks::{HISTORICAL_NETWORK_SERVICE, NODE_AGENT};
use crate::host::{exec, units};
use crate::node::Node;
use crate::settings::Settings;
use crate::topology::readiness;

/// The name the network baseline had before (A-87, INC-05).
const FORMER_BASELINE: &str = "gpuaas-slice-host-net-baseline.service";
const AGENT: &str = "gpuaas-node-agent.service";

/// Runs them.
///
/// # Errors
/// The agent's settings cannot be used on this host.
pub async fn lines(common: &CommonSettings, own: Settings) -> anyhow::Result<Vec<Line>> {
    let node = Node::configured(common, own)?;
    let mut lines = vec![agent(common).await];
    for one in readiness::report(&node).await.evidence {
        if let Some(status) = Status::of(one.status()) {
            lines.push(Line::new(status, &one.check, one.detail, &one.remediation));
        }
    }
    lines.push(former_baseline(
        units::state(FORMER_BASELINE).await.ok().flatten(),
    ));
    Ok(lines)
}

/// Whether the agent serves: by its unit where systemd has it, else by a connection to it.
async fn agent(common: &CommonSettings) -> Line {
    let remediation = NODE_AGENT.remedy;
    if let Ok(Some(state)) = units::state(AGENT).await {
        let status = if state == "active/running" {
            Status::Pass
        } else {
            Status::Fail
        };
        return Line::new(status, NODE_AGENT.id, state, remediation);
    }
    let addresses = &common.server.listen;
    for address in addresses {
        let connection = tokio::net::TcpStream::connect(address);
        if let Ok(Ok(_)) = tokio::time::timeout(exec::PROBE_LIMIT, connection).await {
            return Line::new(
                Status::Pass,
                NODE_AGENT.id,
                format!("serves on {address}"),
                "",
            );
        }
    }
    let detail = "neither a unit nor an answer at its addresses";
    Line::new(Status::Fail, NODE_AGENT.id, detail, remediation)
}

/// A service of the former name is history, and never more than a warning (I-17, INC-05).
fn former_baseline(state: Option<String>) -> Line {
    let check = HISTORICAL_NETWORK_SERVICE.id;
    match state {
        None => Line::new(Status::Pass, check, "not installed", ""),
        Some(state) => Line::new(
            Status::Warn,
            check,
            format!("{FORMER_BASELINE} is {state}"),
            HISTORICAL_NETWORK_SERVICE.remedy,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inc_05_a_service_of_the_former_name_is_no_failure() {
        assert_eq!(former_baseline(None).status, Status::Pass);
        for state in ["active/exited", "failed/failed", "inactive/dead"] {
            assert_eq!(former_baseline(Some(state.into())).status, Status::Warn);
        }
    }
}
