//! Whether a request may be placed at all: catalog, region, count, price, quota; and how a refusal reads.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;

use crate::catalog::{self, Sku};
use crate::error::{Error, Exceeded, Reason, Result, sentence};
use crate::model::{Policy, Request, Shape};
use crate::quota;
use crate::reserved_slots::Unused;

/// What only the ledger's catalog knows about a request.
pub(crate) async fn check(
    conn: &mut PgConnection,
    policy: Policy,
    request: &Request,
) -> Result<Sku> {
    let invalid = |reason, field, rule: String| Error::Invalid {
        reason,
        field,
        rule,
    };
    let (sku, region) = catalog::offer(conn, &request.region_code, &request.sku).await?;
    if let Some(shape) = request
        .capacity_shape
        .filter(|shape| *shape != sku.capacity_shape)
    {
        let rule = format!(
            "must be {} for {}, not {shape}",
            sku.capacity_shape, sku.code
        );
        return Err(invalid(ErrorReason::FieldInvalid, "capacity_shape", rule));
    }
    if sku.capacity_shape == Shape::Baremetal && !policy.baremetal {
        return Err(invalid(
            ErrorReason::FieldInvalid,
            "sku",
            "is a bare-metal SKU, and this platform does not offer bare metal".to_owned(),
        ));
    }
    if sku.capacity_shape == Shape::Baremetal && request.constraints.require_prewarmed {
        return Err(invalid(
            ErrorReason::FieldInvalid,
            "placement.require_prewarmed",
            "applies to slices only: bare metal does not boot from the image cache".to_owned(),
        ));
    }
    if sku.disabled {
        let region = Some(request.region_code.as_str());
        let unused = Unused::of(conn, request.project_id, region, &sku.code).await?;
        if unused.gpus() < request.gpu_count.get() as usize {
            return Err(disabled("is not offered any more; choose another SKU"));
        }
    }
    sku.check_gpu_count(request.gpu_count)?;
    if sku.price.is_none() {
        // Allocated without a price it could not be billed (P3).
        return Err(invalid(
            ErrorReason::StateConflict,
            "sku",
            "has no price yet and is not offered".to_owned(),
        ));
    }
    if let Some(closed) = region.closed() {
        return Err(refused(ErrorReason::RegionDisabled, closed, None));
    }
    Ok(sku)
}

/// The refusal of what is not offered any more.
fn disabled(rule: &str) -> Error {
    Error::Invalid {
        reason: ErrorReason::StateConflict,
        field: "sku",
        rule: rule.to_owned(),
    }
}

pub(super) fn check_quota(request: &Request, quota: quota::Quota) -> Result<()> {
    let Some(over) = quota.exceeded_by(request.gpu_count) else {
        return Ok(());
    };
    let what = match over.quota {
        quota::GPUS => format!("GPU of {}", request.sku),
        _ => "allocations".to_owned(),
    };
    let message = format!(
        "The quota of the project is {} {what} and {} are in use.",
        over.limit, over.used
    );
    Err(over_quota(message, Some(over)))
}

/// The refusal of what a quota does not allow.
pub(crate) fn over_quota(message: String, exceeded: Option<Exceeded>) -> Error {
    refused(ErrorReason::Quota, message, exceeded)
}

/// The refusal of a request that fits nowhere: a single reason gives it its code, several are `NO_CAPACITY` with all
/// of them as details; fragmentation always leads, since it shows that waiting for one node helps.
pub(crate) fn refusal(causes: impl IntoIterator<Item = impl Into<Reason>>) -> Error {
    let causes: Vec<Reason> = causes.into_iter().map(Into::into).collect();
    let fragmented = causes
        .iter()
        .find(|cause| cause.reason == ErrorReason::Fragmented);
    let leading = fragmented.or(if causes.len() == 1 {
        causes.first()
    } else {
        None
    });
    let reason = leading.map_or(ErrorReason::NoCapacity, |cause| cause.reason);
    let message = leading.map_or(sentence(ErrorReason::NoCapacity).to_owned(), |cause| {
        cause.message.clone()
    });
    Error::Refused {
        reason,
        message,
        causes,
        exceeded: None,
    }
}

fn refused(reason: ErrorReason, message: String, exceeded: Option<Exceeded>) -> Error {
    Error::Refused {
        reason,
        message,
        causes: Vec::new(),
        exceeded,
    }
}
