//! Wipe certificates: to the tenant those of its allocations, to operators those of a slot.

use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, page};
use gpuaas_placement::slots;
use gpuaas_placement::wipes::{self, Wipe};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use uuid::Uuid;

use super::convert;
use super::owned::owned;
use crate::workflow::Deps;

/// Those of an allocation of the caller's projects.
///
/// # Errors
/// `ALLOCATION_NOT_FOUND`; those of the database.
pub async fn of_allocation(
    deps: &Deps,
    caller: &Caller,
    allocation_id: Uuid,
) -> Result<pb::ListWipeCertificatesResponse, Error> {
    let mut conn = deps.pool.acquire().await?;
    owned(&mut conn, caller, allocation_id).await?;
    let wiped = wipes::of_allocation(&mut conn, allocation_id).await?;
    Ok(pb::ListWipeCertificatesResponse {
        certificates: wiped.into_iter().map(certificate).collect(),
    })
}

/// Those of a slot, newest first.
///
/// # Errors
/// `SLOT_NOT_FOUND`; a page token of another list; those of the database.
pub async fn of_slot(
    deps: &Deps,
    node_id: Uuid,
    slot_id: Uuid,
    request: &pb::ListSlotWipeCertificatesRequest,
) -> Result<pb::ListSlotWipeCertificatesResponse, Error> {
    let size = page::page_size(request.page_size)?;
    let query = [request.slot_id.as_str()];
    let before: i64 = page::decode(&request.page_token, &query)?.unwrap_or(i64::MAX);
    let mut conn = deps.pool.acquire().await?;
    slots::get(&mut conn, node_id, slot_id).await?;
    // one more than requested shows whether there is a next page
    let mut wiped = wipes::of_slot(&mut conn, slot_id, before, size + 1).await?;
    let more = wiped.len() as i64 > size;
    wiped.truncate(usize::try_from(size).unwrap_or(usize::MAX));
    let next_page_token = wiped
        .last()
        .filter(|_| more)
        .map_or_else(String::new, |last| page::encode(&last.generation, &query));
    Ok(pb::ListSlotWipeCertificatesResponse {
        certificates: wiped.into_iter().map(certificate).collect(),
        next_page_token,
    })
}

fn certificate(wipe: Wipe) -> pb::WipeCertificate {
    pb::WipeCertificate {
        slot_id: wipe.slot_id.to_string(),
        slot_generation: wipe.generation,
        policy: wipe.policy,
        erase_method: wipe.erase_method,
        accept_time: Some(convert::time(wipe.at)),
        document: wipe.certificate,
    }
}
