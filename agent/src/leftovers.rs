//! Holds of which nothing ever came: a lease was granted, and before anything was done under it its owner was gone. The
//! host itself proves that nothing of the allocation is here, and ends them; nobody else would. Ingress mappings of allocations
//! without a hold go the same way.
use std::time::Duration;

use gpuaas_common::CancellationToken;

use crate::error::HostResult;
use crate::host::blocking;
use crate::node::Node;

/// Between two inspections.
pub const INTERVAL: Duration = Duration::from_secs(30);

/// Ends empty holds now, and after every `interval` until `shutdown`.
pub async fn run(node: &Node, interval: Duration, shutdown: CancellationToken) {
    loop {
        if let Err(error) = end_empty_holds(node).await {
            tracing::warn!(%error, "cannot tell which holds are empty");
        }
        match node.journal.drop_ingress_of_nobody() {
            Ok(0) => {}
            Ok(allocations) => tracing::warn!(allocations, "remove ingress mappings of nobody"),
            Err(error) => tracing::warn!(%error, "cannot remove ingress mappings of nobody"),
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Ends the holds of slots whose disk was never written to, of allocations without a VM, reservation, seed, running
/// operation or live lease here. Returns how many.
///
/// # Errors
/// Something cannot be read: nothing is proven then.
pub async fn end_empty_holds(node: &Node) -> HostResult<usize> {
    let mut ended = 0;
    for hold in node.journal.holds()? {
        let vm = hold.allocation.vm_name();
        let seed = node.seed_dir(&vm);
        if hold.touched
            || node.hypervisor.state(vm.as_str()).await?.is_some()
            || node.dhcp.reservations()?.iter().any(|one| one.vm == vm)
            || blocking::here(|| std::fs::exists(&seed)).unwrap_or(true)
        {
            continue;
        }
        let (slot, allocation) = (hold.slot, hold.allocation);
        if node
            .journal
            .end_empty_hold(slot, allocation, &node.clock.now())?
        {
            tracing::warn!(slot_id = %slot, allocation_id = %allocation,
                "end a hold that nothing was done under");
            ended += 1;
        }
    }
    Ok(ended)
}
