//! The comparison of a node: ledger, host and hypervisor, read now and side by side.
use std::collections::BTreeMap;

use gpuaas_common::Error;
use gpuaas_placement::{claims, nodes};
use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use super::AdminApi;
use crate::domain::comparison::{Judged, OF_REPLACED_HOST, Verdict, judge};
use crate::domain::names::vm_name;
use crate::reconcile::standing;
use crate::store::residue::{self, Row};
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;

impl AdminApi {
    pub(super) async fn comparison(&self, node_id: Uuid) -> Result<pb::NodeComparison, Error> {
        let pool = &self.deps.pool;
        // a node that is not there is said to be so, before its host is called
        nodes::get(&mut *pool.acquire().await?, node_id).await?;
        let host = Host::of_node(&self.deps, node_id)
            .await
            .map_err(unreachable)?;
        let before = residue::allocations_of(pool, node_id).await?;
        let held = host.holds().await.map_err(unreachable)?;
        let after = residue::allocations_of(pool, node_id).await?;
        let standings = |rows: &[Row]| -> BTreeMap<_, _> {
            rows.iter().map(|row| (row.id, standing(row))).collect()
        };
        let judged = judge(&standings(&before), &standings(&after), &held);
        let mut rows = Vec::new();
        for (id, mut judged) in judged {
            if judged.verdict == Verdict::Undo {
                let mut conn = pool.acquire().await?;
                if claims::on_replaced_host(&mut conn, id).await? {
                    judged = OF_REPLACED_HOST;
                }
            }
            let known = after.iter().find(|row| row.id == id);
            rows.push(row(id, known, &held, judged));
        }
        Ok(pb::NodeComparison {
            node_id: node_id.to_string(),
            rows,
        })
    }
}

fn row(
    id: Uuid,
    known: Option<&Row>,
    held: &ListHoldsResponse,
    judged: Judged,
) -> pb::NodeComparisonRow {
    let (allocation_id, vm) = (id.to_string(), vm_name(id));
    let holds = held.holds.iter();
    let holds = holds.filter(|hold| hold.allocation_id == allocation_id);
    let held_slot_ids = holds.map(|hold| hold.slot_id.clone()).collect();
    let domain = held.domains.iter().find(|domain| domain.name == vm);
    let verdict = match judged.verdict {
        Verdict::Agrees => pb::ComparisonVerdict::Agrees,
        Verdict::Adopt => pb::ComparisonVerdict::Adopt,
        Verdict::Finish => pb::ComparisonVerdict::Finish,
        Verdict::Undo => pb::ComparisonVerdict::Undo,
        Verdict::Report => pb::ComparisonVerdict::Report,
    };
    pb::NodeComparisonRow {
        ledger_state: known.map(|row| row.state.clone()).unwrap_or_default(),
        has_claims: known.is_some_and(|row| row.holds),
        held_slot_ids,
        has_reservation: held.reservations.contains(&vm),
        domain_state: domain.map(|one| one.state.clone()).unwrap_or_default(),
        verdict: verdict.into(),
        detail: judged.detail.to_owned(),
        allocation_id,
    }
}

fn unreachable(error: StepError) -> Error {
    let why = match error {
        StepError::Retry { message, .. } => message,
        StepError::Fail(failure) => failure.message,
        StepError::Lost => String::new(),
    };
    let text = format!("The host of the node does not answer, so nothing can be compared: {why}");
    Error::new(Code::Unavailable, ErrorReason::HostUnreachable, text)
}
