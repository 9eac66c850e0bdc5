//! The comparison of a node: ledger, host and hypervisor, read now and side by side.
use gpuaas_common::{Error, etag, id};
use gpuaas_placement::model::Slot;
use gpuaas_placement::{claims, nodes, slots};
use gpuaas_proto::gpuaas::agent::v1::ListHoldsResponse;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use super::comparison_filter::Wish;
use super::differences::differences;
use crate::domain::comparison::{Correction, Judged, OF_REPLACED_HOST, Verdict, judge};
use crate::domain::host_holds::Ledger;
use crate::domain::names::{port_name, vm_name};
use crate::reconcile::ledger_states;
use crate::store::residue::{self, Row};
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;

/// A row with what it was judged by.
pub(super) struct Compared {
    pub row: pb::NodeComparisonRow,
    pub judged: Judged,
}

/// The comparison that was asked for.
pub(super) async fn comparison(
    deps: &Deps,
    request: &pb::CompareNodeRequest,
) -> Result<pb::NodeComparison, Error> {
    let node_id = id::parse("node_id", &request.node_id)?;
    let wish = Wish::parse(request)?;
    let (compared, ledger, held) = compare_all(deps, node_id).await?;
    let found = pb::NodeComparison {
        node_id: node_id.to_string(),
        rows: compared.into_iter().map(|one| one.row).collect(),
        differences: differences(&ledger, &held),
    };
    let mut conn = deps.pool.acquire().await?;
    wish.apply(&mut conn, found).await
}

/// Compares a node now, by allocation.
pub(super) async fn compare(deps: &Deps, node_id: Uuid) -> Result<Vec<Compared>, Error> {
    Ok(compare_all(deps, node_id).await?.0)
}

pub(super) async fn compare_all(
    deps: &Deps,
    node_id: Uuid,
) -> Result<(Vec<Compared>, Ledger, ListHoldsResponse), Error> {
    let pool = &deps.pool;
    // a node that is not there is said to be so, before its host is called
    nodes::get(&mut *pool.acquire().await?, node_id).await?;
    let host = Host::of_node(deps, node_id).await.map_err(unreachable)?;
    let (before, slots_before) = of_ledger(deps, node_id).await?;
    let held = host.holds().await.map_err(unreachable)?;
    let (after, slots_after) = of_ledger(deps, node_id).await?;
    let ledger = Ledger {
        states: [ledger_states(&before), ledger_states(&after)],
        slots: [slots_before, slots_after],
    };
    let judged = judge(&ledger.states[0], &ledger.states[1], &held);
    let mut compared = Vec::new();
    for (id, mut judged) in judged {
        if judged.verdict == Verdict::Undo {
            let mut conn = pool.acquire().await?;
            if claims::on_replaced_host(&mut conn, id).await? {
                judged = OF_REPLACED_HOST;
            }
        }
        let known = after.iter().find(|row| row.id == id);
        let row = row(id, known, &held, judged);
        compared.push(Compared { row, judged });
    }
    Ok((compared, ledger, held))
}

async fn of_ledger(deps: &Deps, node_id: Uuid) -> Result<(Vec<Row>, Vec<Slot>), Error> {
    let rows = residue::allocations_of(&deps.pool, node_id).await?;
    let mut conn = deps.pool.acquire().await?;
    Ok((rows, slots::list(&mut conn, node_id).await?))
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
    let journal_slot_ids = holds.map(|hold| hold.slot_id.clone()).collect();
    let domain = held.domains.iter().find(|domain| domain.name == vm);
    let verdict = match judged.verdict {
        Verdict::Agrees => pb::ComparisonVerdict::Agrees,
        Verdict::Adopt => pb::ComparisonVerdict::Adopt,
        Verdict::Finish => pb::ComparisonVerdict::Finish,
        Verdict::Undo => pb::ComparisonVerdict::Undo,
        Verdict::Report => pb::ComparisonVerdict::Report,
    };
    let correction = match judged.correction {
        None => pb::ComparisonCorrection::Unspecified,
        Some(Correction::Adopt) => pb::ComparisonCorrection::Adopt,
        Some(Correction::Finish) => pb::ComparisonCorrection::Finish,
        Some(Correction::CleanUp | Correction::RemoveLeftovers) => pb::ComparisonCorrection::Undo,
        Some(Correction::Report) => pb::ComparisonCorrection::Report,
    };
    let mut row = pb::NodeComparisonRow {
        ledger_state: known.map(|row| row.state.clone()).unwrap_or_default(),
        has_claims: known.is_some_and(|row| row.holds),
        journal_slot_ids,
        has_reservation: held.reservations.contains(&vm),
        has_seed: held.seeds.contains(&vm),
        has_nvram: held.nvram.contains(&vm),
        has_port: held.ports.contains(&port_name(id)),
        has_partition: held.partitions.contains(&vm),
        domain_state: domain.map(|one| one.state.clone()).unwrap_or_default(),
        missing_files: domain
            .map(|one| one.missing_files.clone())
            .unwrap_or_default(),
        verdict: verdict.into(),
        detail: judged.detail.to_owned(),
        correction: correction.into(),
        allocation_id,
        etag: String::new(),
        guest_state: 0,
    };
    row.etag = etag::of(&row);
    // measured four times a minute: what is judged by it is in the detail, and so in the etag
    row.guest_state = domain.map_or(0, |one| one.guest_state);
    row
}

pub(super) fn unreachable(error: StepError) -> Error {
    let why = match error {
        StepError::Retry { message, .. } => message,
        StepError::Fail(failure) => failure.message,
        StepError::Lost => String::new(),
    };
    let text = format!("The host of the node does not answer, so nothing can be compared: {why}");
    Error::new(Code::Unavailable, ErrorReason::HostUnreachable, text)
}
