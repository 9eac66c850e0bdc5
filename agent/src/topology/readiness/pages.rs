//! Free hugepages, and which VMs have taken theirs: placement owes all others what they need.
use std::collections::BTreeSet;

use crate::error::HostResult;
use crate::ids::AllocationId;
use crate::node::Node;

use super::free_hugepages;

/// A VM's name, and the number of its run.
type Run = (String, u32);

/// Free 1 GiB hugepages, and the allocations whose VM had its own when they were counted, in order (B-11). None are free
/// where the host's profile offers none.
pub(super) async fn free(node: &Node) -> (u32, Vec<String>) {
    if !node.settings.profile.hugepages {
        // what the kernel has is not for VMs here
        return (0, Vec::new());
    }
    let (free, held_by) = count(|| free_hugepages(&node.root), || node.hypervisor.running()).await;
    (free, held_by.iter().map(ToString::to_string).collect())
}

/// Counts what is free between two listings of what runs.
async fn count<F: Future<Output = HostResult<Vec<Run>>>>(
    free: impl FnOnce() -> u32,
    running: impl Fn() -> F,
) -> (u32, BTreeSet<AllocationId>) {
    let before = list_or_empty(running()).await;
    let free = free();
    // new VMs make no difference, and a libvirt that does not answer is called once: a second wait for it
    // could delay the report
    let after = if before.is_empty() {
        Vec::new()
    } else {
        list_or_empty(running()).await
    };
    (free, all_the_while(&before, &after))
}

/// VMs are unknown while libvirt does not answer.
async fn list_or_empty(running: impl Future<Output = HostResult<Vec<Run>>>) -> Vec<Run> {
    running.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list the VMs with hugepages");
        Vec::new()
    })
}

/// A VM takes its pages before it runs and holds them until it ends. So one that was in the same run before and after they
/// were counted had them throughout; for one that began or ended meanwhile that is unknown. A pure function.
fn all_the_while(before: &[Run], after: &[Run]) -> BTreeSet<AllocationId> {
    let both = after.iter().filter(|run| before.contains(run));
    both.filter_map(|(name, _)| AllocationId::of_vm(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
    use uuid::Uuid;

    use super::*;
    use crate::error::HostError;

    #[test]
    fn b_11_only_a_vm_that_ran_all_the_while_has_its_pages_for_certain() {
        let [stays, starts, ends, restarts] = [(); 4].map(|()| AllocationId(Uuid::now_v7()));
        let run = |id: AllocationId, run| (id.vm_name().to_string(), run);
        // VMs of others are unknown to placement
        let theirs = ("their-vm".to_owned(), 9);
        let before = [
            theirs.clone(),
            run(stays, 1),
            run(ends, 2),
            run(restarts, 3),
        ];
        let after = [theirs, run(stays, 1), run(starts, 4), run(restarts, 5)];
        assert_eq!(all_the_while(&before, &after), BTreeSet::from([stays]));
        assert_eq!(all_the_while(&before, &[]), BTreeSet::new());
        assert_eq!(all_the_while(&[], &after), BTreeSet::new());
    }

    #[tokio::test]
    async fn b_11_a_hypervisor_that_does_not_answer_is_asked_once() {
        let calls = Cell::new(0);
        let silent = || async {
            calls.set(calls.get() + 1);
            Err(HostError::host(ErrorReason::HypervisorFailed, "no answer"))
        };
        assert_eq!(count(|| 7, silent).await, (7, BTreeSet::new()));
        assert_eq!(calls.get(), 1);
        let id = AllocationId(Uuid::now_v7());
        let runs = || async { Ok(vec![(id.vm_name().to_string(), 1)]) };
        assert_eq!(count(|| 7, runs).await, (7, BTreeSet::from([id])));
    }
}
