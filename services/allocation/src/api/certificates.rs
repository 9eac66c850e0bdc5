//! Wipe certificates: to the tenant those of its allocations, to operators those of a slot.

use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, page};
use gpuaas_placement::slots;
use gpuaas_placement::wipes::{self, Wipe};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use uuid::Uuid;

use crate::convert;
use crate::store::owned::owned;
use crate::workflow::Deps;

/// Those of an allocation of the caller's projects that the request selects.
///
/// # Errors
/// `ALLOCATION_NOT_FOUND`; a bad filter, order or page token; those of the database.
pub async fn of_allocation(
    deps: &Deps,
    caller: &Caller,
    allocation_id: Uuid,
    request: &pb::ListWipeCertificatesRequest,
) -> Result<pb::ListWipeCertificatesResponse, Error> {
    let selection = Selection::parse(&wipes::OF_ALLOCATION, &request.filter, &request.order_by)?;
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &["wipes", request.allocation_id.as_str()],
    };
    let mut conn = deps.pool.acquire().await?;
    owned(&mut conn, caller, allocation_id).await?;
    let (wiped, next_page_token) =
        wipes::of_allocation(&mut conn, allocation_id, &selection, wanted).await?;
    Ok(pb::ListWipeCertificatesResponse {
        certificates: wiped.into_iter().map(certificate).collect(),
        next_page_token,
    })
}

/// Those of a slot that the request selects.
///
/// # Errors
/// `SLOT_NOT_FOUND`; a bad filter, order or page token; those of the database.
pub async fn of_slot(
    deps: &Deps,
    node_id: Uuid,
    slot_id: Uuid,
    request: &pb::ListSlotWipeCertificatesRequest,
) -> Result<pb::ListSlotWipeCertificatesResponse, Error> {
    let selection = Selection::parse(&wipes::CATALOG, &request.filter, &request.order_by)?;
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &[request.slot_id.as_str()],
    };
    let mut conn = deps.pool.acquire().await?;
    slots::get(&mut conn, node_id, slot_id).await?;
    let (wiped, next_page_token) = wipes::of_slot(&mut conn, slot_id, &selection, wanted).await?;
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
