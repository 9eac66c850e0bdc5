//! One measurement of every VM that runs, as libvirt counts it. A VM whose last measurement has not come back is not measured
//! again: each would keep another of libvirt's threads for as long as the VM hangs.
use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::Telemetry;
use super::rates::Sample;
use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::journal::HoldRow;
use crate::node::Node;
use crate::settings::NvmeAttachment;
use crate::vm::{Hypervisor, without_waiting};
use crate::wall_clock::now_ms;

/// Counts what each VM used. Returns those whose guests can be queried, and the first failure; it keeps no other VM from being
/// counted.
pub async fn measure(node: &Node) -> (BTreeSet<AllocationId>, HostResult<()>) {
    let (mut answering, booted) = (BTreeSet::new(), booted(node));
    let (holds, booted) = match node.journal.holds().and_then(|holds| Ok((holds, booted?))) {
        Ok(read) => read,
        Err(error) => return (answering, Err(error)),
    };
    let held: BTreeSet<AllocationId> = holds.iter().map(|hold| hold.allocation).collect();
    node.telemetry.retain(&held);
    // one that is just being started or ended keeps libvirt waiting, and so a worker
    for allocation in held.difference(&booted) {
        node.telemetry.counted(*allocation, None, now_ms());
    }
    let running: Vec<AllocationId> = held.intersection(&booted).copied().collect();
    let counting = running.iter().map(|one| {
        let disks = disks(node, &holds, *one);
        let at = || Duration::from_nanos(node.clock.now().nanos);
        count(&node.hypervisor, &node.telemetry, *one, disks, at)
    });
    let counted = futures::future::join_all(counting).await;
    let mut outcome = Ok(());
    for (allocation, counted) in running.into_iter().zip(counted) {
        match counted {
            Ok(runs) if runs && node.telemetry.queries_guests => {
                answering.insert(allocation);
            }
            Ok(_) => {}
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    (answering, outcome)
}

/// How many disks of a VM the hypervisor counts: one of each slot, unless it has their controllers, and before them that of its rescue.
fn disks(node: &Node, holds: &[HoldRow], of: AllocationId) -> usize {
    let own = match node.settings.profile.nvme {
        NvmeAttachment::Virtio => holds.iter().filter(|hold| hold.allocation == of).count(),
        NvmeAttachment::Passthrough => 0,
    };
    own + usize::from(node.is_rescued(&of.vm_name()))
}

/// VMs that the last operation left running, with a guest that has let us in.
fn booted(node: &Node) -> HostResult<BTreeSet<AllocationId>> {
    let rows = node.journal.power()?.into_iter();
    let booted = rows.filter(|row| row.running && row.boot_id == node.clock.boot_id());
    Ok(booted.map(|row| row.allocation).collect())
}

/// Counts what one VM used, and returns whether it runs. One whose hypervisor hangs keeps no other waiting, and is not measured
/// a second time meanwhile. `at` is the time of the host's clock.
async fn count(
    hypervisor: &Hypervisor,
    telemetry: &Telemetry,
    allocation: AllocationId,
    disks: usize,
    at: impl Fn() -> Duration,
) -> HostResult<bool> {
    let (name, port) = (allocation.vm_name(), allocation.port_name());
    let Some(turn) = telemetry.guest_locks.take(allocation) else {
        return Err(HostError::host(
            ErrorReason::HypervisorFailed,
            format!("the last measurement of {name} has not come back"),
        ));
    };
    let usage = without_waiting(hypervisor.usage(name.as_str(), &port, disks, turn)).await?;
    let at = at();
    let sample = usage.map(|usage| Sample { at, usage });
    telemetry.counted(allocation, sample, now_ms());
    Ok(sample.is_some())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::{SlotId, Token};
    use crate::vm::calls::Limits;
    use crate::vm::calls::busy::Busy;

    /// A VM that hangs takes one thread of libvirt's, and not one more at each tick.
    #[tokio::test]
    async fn d_90_a_vm_whose_measurement_has_not_come_back_is_not_measured_again() {
        let limits = Limits {
            report: Duration::from_millis(20),
            ..Limits::default()
        };
        let hypervisor = Hypervisor::with_limits("test:///default", limits);
        let telemetry = Telemetry::new(&crate::settings::Telemetry::default());
        let [hung, other] = [(); 2].map(|()| AllocationId(Uuid::now_v7()));
        let measured = async |of| {
            let counted = count(&hypervisor, &telemetry, of, 1, || Duration::ZERO).await;
            counted.map_err(|error| error.message)
        };
        let busy = Busy::all(&hypervisor).await;
        let late = measured(hung).await.unwrap_err();
        assert!(late.contains("did not answer within"), "{late}");
        for _ in 0..3 {
            let refused = measured(hung).await.unwrap_err();
            assert!(refused.contains("has not come back"), "{refused}");
        }
        assert_eq!(hypervisor.waiting(), 1, "one call waits, and not four");
        // a neighbour is measured all the same
        let late = measured(other).await.unwrap_err();
        assert!(late.contains("did not answer within"), "{late}");
        busy.end().await;
        // its turn comes back with the thread that had it
        let back = async {
            loop {
                match measured(hung).await {
                    Ok(is_there) => return is_there,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        let back = tokio::time::timeout(Duration::from_secs(30), back).await;
        assert!(
            !back.expect("it is measured again"),
            "there is no such domain"
        );
    }

    /// What a rescued VM writes it writes to the disk of its rescue, too.
    #[test]
    fn d_90_the_disk_of_a_rescue_is_counted_with_the_vms_own() {
        let dir = tempfile::tempdir().unwrap();
        let settings = format!(
            "state_dir = {folder:?}\nlibvirt_uri = \"test:///default\"\n\
             [profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\ncpu_model = \"qemu64\"\n\
             [images]\ncache_dir = {folder:?}\n[relay]\nkey_file = {key:?}\n",
            folder = dir.path(),
            key = dir.path().join("id"),
        );
        let node = Node::open(toml::from_str(&settings).unwrap(), b"").unwrap();
        let [one, other] = [(); 2].map(|()| AllocationId(Uuid::now_v7()));
        let holds = [one, one, other].map(|allocation| HoldRow {
            slot: SlotId(Uuid::now_v7()),
            allocation,
            token: Token::default(),
            touched: true,
        });
        assert_eq!([one, other].map(|of| disks(&node, &holds, of)), [2, 1]);
        std::fs::create_dir(node.rescue_dir(&one.vm_name())).unwrap();
        assert_eq!([one, other].map(|of| disks(&node, &holds, of)), [3, 1]);
    }
}
