//! VMs that ran when the host went down and do not run since: their owners did not shut them off.
use super::CheckResult;
use crate::checks::VMS_AFTER_RESTART;
use crate::journal::PowerRow;
use crate::node::Node;
use crate::vm::{Domain, PowerState};

/// Tells of VMs that the host's restart ended. It warns and blocks nothing: the host is fit for other VMs.
pub(super) async fn ended_with_host(node: &Node) -> CheckResult {
    let left = match node.journal.power() {
        Ok(left) => left,
        Err(error) => return CheckResult::warn(&VMS_AFTER_RESTART, error.to_string()),
    };
    let domains = match node.hypervisor.domains().await {
        Ok(domains) => domains,
        // the libvirt check reports that it does not answer
        Err(error) => return CheckResult::skip(&VMS_AFTER_RESTART, error.to_string()),
    };
    let ended = ended(&left, &domains, node.clock.boot_id());
    if ended.is_empty() {
        CheckResult::pass(
            &VMS_AFTER_RESTART,
            "no VM was shut down unexpectedly by a restart of the host",
        )
    } else {
        let detail = format!(
            "shut down unexpectedly by a restart of the host: {}",
            ended.join(", ")
        );
        CheckResult::warn(&VMS_AFTER_RESTART, detail)
    }
}

/// Names of the VMs that were left running in an earlier boot and do not run now. A pure function.
fn ended(left: &[PowerRow], domains: &[Domain], boot_id: &str) -> Vec<String> {
    let runs = |name: &str| {
        domains
            .iter()
            .any(|domain| domain.name == name && domain.state == PowerState::Running)
    };
    left.iter()
        .filter(|row| row.running && row.boot_id != boot_id)
        .map(|row| row.allocation.vm_name().to_string())
        .filter(|name| !runs(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::AllocationId;

    #[test]
    fn a_vm_that_ran_before_the_restart_and_not_after_it_is_told() {
        let allocation = AllocationId(Uuid::now_v7());
        let name = allocation.vm_name().to_string();
        let row = |running, boot: &str| PowerRow {
            allocation,
            running,
            boot_id: boot.into(),
        };
        let domain = |state| Domain {
            name: name.clone(),
            state,
            disk_sources: Vec::new(),
            untraced_sources: Vec::new(),
        };
        let off = [domain(PowerState::ShutOff)];
        for domains in [&off[..], &[]] {
            let reported = ended(&[row(true, "before")], domains, "now");
            assert_eq!(reported.as_slice(), std::slice::from_ref(&name));
        }
        let none = Vec::<String>::new();
        assert_eq!(ended(&[row(true, "now")], &off, "now"), none);
        assert_eq!(ended(&[row(false, "before")], &off, "now"), none);
        let runs = [domain(PowerState::Running)];
        assert_eq!(ended(&[row(true, "before")], &runs, "now"), none);
    }
}
