//! Requests into values of the ledger; each error names the field and the rule.
use std::collections::HashSet;

use gpuaas_common::launch::MAX_SSH_KEYS;
use gpuaas_common::readiness::Wrong;
use gpuaas_common::time::from_proto_time;
use gpuaas_common::user_data::UserData;
use gpuaas_common::value::DnsLabel;
use gpuaas_common::{Error, Result, digest, id};
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{Image, Shape, SlotClass};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::{Constraints, MAX_BATCH, Request, WhenFull};
use gpuaas_placement::{approval, convert};
use gpuaas_proto::gpuaas::internal::scheduler::v1 as internal;
use gpuaas_proto::gpuaas::scheduler::v1 as public;
use jiff_sqlx::ToSqlx;
use uuid::Uuid;

/// Most allocations that an anti-affinity names by id.
const MAX_ANTI_AFFINITY: usize = 64;

/// A DNS label of at most 63 characters.
pub(super) fn label(field: &str, text: &str) -> Result<()> {
    if text.is_empty() {
        return Err(Error::required(field));
    }
    match text.parse::<DnsLabel>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::invalid(field, format!("must be {}", error.rule))),
    }
}

pub(super) fn signed(field: &str, number: u32) -> Result<i32> {
    i32::try_from(number).map_err(|_| Error::invalid(field, "is too large"))
}

/// A reservation; `validate_only` needs neither key nor hash.
pub(super) fn reserve(request: internal::ReserveRequest) -> Result<Request> {
    if !request.validate_only {
        keyed(
            &request.principal,
            &request.idempotency_key,
            &request.request_hash,
        )?;
    }
    one(request)
}

/// Whether a request may be queued: until its deadline, if it has one.
pub(super) fn when_full(deadline: Option<&prost_types::Timestamp>) -> Result<WhenFull> {
    let Some(deadline) = deadline else {
        return Ok(WhenFull::Refuse);
    };
    let deadline = from_proto_time(deadline);
    deadline
        .map(WhenFull::Queue)
        .ok_or_else(|| Error::invalid("wait.deadline", "must be a time"))
}

/// Principal, key and hash of a stored request.
fn keyed(principal: &str, idempotency_key: &str, request_hash: &[u8]) -> Result<()> {
    for (field, missing) in [
        ("principal", principal.is_empty()),
        ("idempotency_key", idempotency_key.is_empty()),
    ] {
        if missing {
            return Err(Error::required(field));
        }
    }
    if request_hash.len() != 32 {
        return Err(Error::invalid("request_hash", "must be a SHA-256"));
    }
    Ok(())
}

/// The reservations of a batch, all of one project.
pub(super) fn batch(request: &internal::ReserveBatchRequest) -> Result<Vec<Request>> {
    if !request.validate_only {
        keyed(
            &request.principal,
            &request.idempotency_key,
            &request.request_hash,
        )?;
    }
    if !(1..=MAX_BATCH).contains(&request.reservations.len()) {
        return Err(Error::invalid(
            "reservations",
            format!("must be one to {MAX_BATCH}"),
        ));
    }
    let parsed: Vec<Request> = request
        .reservations
        .iter()
        .cloned()
        .map(one)
        .collect::<Result<_>>()?;
    let project_id = parsed[0].project_id;
    if parsed.iter().any(|other| other.project_id != project_id) {
        return Err(Error::invalid("reservations", "must be of one project"));
    }
    Ok(parsed)
}

/// Placement constraints.
fn constraints(placement: &public::PlacementConstraints) -> Result<Constraints> {
    let affinity = match placement.affinity.as_str() {
        "" => None,
        id => Some(id::parse("placement.affinity", id)?),
    };
    if placement.anti_affinity.len() > MAX_ANTI_AFFINITY {
        return Err(Error::invalid(
            "placement.anti_affinity",
            format!("must be at most {MAX_ANTI_AFFINITY} ids"),
        ));
    }
    let anti_affinity = placement
        .anti_affinity
        .iter()
        .map(|id| id::parse("placement.anti_affinity", id))
        .collect::<Result<_>>()?;
    Ok(Constraints {
        affinity,
        affinity_label: pair("placement.affinity_label", &placement.affinity_label)?,
        anti_affinity,
        anti_affinity_label: pair(
            "placement.anti_affinity_label",
            &placement.anti_affinity_label,
        )?,
        require_prewarmed: placement.require_prewarmed,
    })
}

/// A label as `key=value`, if there is one.
fn pair(field: &str, text: &str) -> Result<Option<(String, String)>> {
    if text.is_empty() {
        return Ok(None);
    }
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let pair = pair.map(owned);
    pair.map(Some)
        .ok_or_else(|| Error::invalid(field, "must be key=value"))
}

fn one(request: internal::ReserveRequest) -> Result<Request> {
    label("name", &request.name)?;
    if !(1..=MAX_SSH_KEYS).contains(&request.ssh_public_keys.len()) {
        return Err(Error::invalid("ssh_public_keys", "must be one to ten keys"));
    }
    if ![0, request.ssh_public_keys.len()].contains(&request.ssh_key_names.len()) {
        return Err(Error::invalid(
            "ssh_key_names",
            "must be one for each key, or none",
        ));
    }
    let auto_release_at = request
        .auto_release_time
        .as_ref()
        .map(|time| {
            from_proto_time(time)
                .ok_or_else(|| Error::invalid("auto_release_time", "must be a time"))
        })
        .transpose()?;
    let user_data = UserData::optional(&request.user_data)
        .map_err(|error| Error::invalid(error.what, format!("must be {}", error.rule)))?;
    let capacity_shape = Shape::from_proto(request.capacity_shape());
    Ok(Request {
        user_data,
        termination_protection: request.termination_protection,
        auto_release_at,
        project_id: id::parse("project_id", &request.project_id)?,
        image: request
            .image
            .ok_or_else(|| Error::required("image"))?
            .try_into()
            .map_err(|wrong: Wrong| Error::invalid(wrong.field, wrong.rule))?,
        labels: request.labels.into_iter().collect(),
        principal: request.principal,
        idempotency_key: request.idempotency_key,
        request_hash: request.request_hash,
        name: request.name,
        region_code: request.region_code,
        sku: request.sku,
        gpu_count: gpu_count(request.gpu_count)?,
        capacity_shape,
        ssh_public_keys: request.ssh_public_keys,
        ssh_key_names: request.ssh_key_names,
        request_id: request.request_id,
        traceparent: request.traceparent,
        constraints: constraints(&request.placement.unwrap_or_default())?,
        batch_id: None,
        bypasses_queue: false,
    })
}

/// The GPUs of one allocation.
pub(super) fn gpu_count(count: u32) -> Result<GpuCount> {
    GpuCount::new(count).ok_or_else(|| Error::required("gpu_count"))
}

/// The rules for a query about capacity, of a project or of none.
pub(super) fn placement(
    request: public::ExplainPlacementRequest,
    project_id: Option<Uuid>,
) -> Result<Request> {
    let public::ExplainPlacementRequest {
        region_code,
        sku,
        gpu_count,
        image_digest,
        placement,
        project_id: _,
    } = request;
    let constraints = constraints(&placement.unwrap_or_default())?;
    for (field, missing) in [
        ("region_code", region_code.is_empty()),
        ("sku", sku.is_empty()),
        // whose allocations they are, and which image is to be there
        (
            "project_id",
            project_id.is_none() && constraints.depend_on_others(),
        ),
        (
            "image_digest",
            image_digest.is_empty() && constraints.require_prewarmed,
        ),
    ] {
        if missing {
            return Err(Error::required(field));
        }
    }
    let gpu_count = self::gpu_count(gpu_count)?;
    if !image_digest.is_empty() {
        digest::check_image("image_digest", &image_digest)?;
    }
    Ok(Request {
        project_id: project_id.unwrap_or_default(),
        region_code,
        sku,
        gpu_count,
        image: Image {
            digest: image_digest,
            ..Image::default()
        },
        constraints,
        ..Request::default()
    })
}

/// A node as inventory hands it over.
pub(super) fn node(request: internal::PutNodeRequest) -> Result<NodeSpec> {
    if !matches!(request.mode.as_str(), "slice" | "baremetal") {
        return Err(Error::invalid("mode", "must be slice or baremetal"));
    }
    if request.hostname.is_empty() {
        return Err(Error::required("hostname"));
    }
    // A node that has no instance yet is known, and takes nothing.
    let instance_id = if request.instance_id.is_empty() {
        Uuid::nil()
    } else {
        id::parse("instance_id", &request.instance_id)?
    };
    if request.schedulable && (instance_id.is_nil() || request.agent_address.is_empty()) {
        return Err(Error::invalid(
            "schedulable",
            "must be false until an instance with an address has enrolled",
        ));
    }
    let host_health = convert::health(request.host_health());
    digest::check_images("image_digests", &request.image_digests)?;
    Ok(NodeSpec {
        id: id::parse("node_id", &request.node_id)?,
        hostname: request.hostname,
        region_code: request.region_code,
        mode: request.mode,
        agent_address: request.agent_address,
        instance_id,
        schedulable: request.schedulable,
        not_schedulable_reason: request.not_schedulable_reason,
        hugepages_1g_free: signed("hugepages_1g_free", request.hugepages_1g_free)?,
        max_vms: signed("max_vms_per_node", request.max_vms_per_node)?,
        legal_groups: request
            .legal_groups
            .into_iter()
            .map(|group| group.module_ids)
            .collect(),
        lab: request.lab,
        hugepages_allocated_to: id::parse_all(
            "hugepages_allocated_to",
            &request.hugepages_allocated_to,
        )?,
        image_digests: request.image_digests,
        host_health,
        new_instance: request.new_instance,
        host_lost_since: request
            .host_lost_since
            .as_ref()
            .and_then(from_proto_time)
            .map(ToSqlx::to_sqlx),
        rack: request.rack,
    })
}

/// Slots of one approval; no index twice.
pub(super) fn definitions(
    slots: Vec<internal::SlotDefinition>,
) -> Result<Vec<approval::Definition>> {
    if slots.is_empty() {
        return Err(Error::required("slots"));
    }
    let mut seen = HashSet::new();
    slots
        .into_iter()
        .map(|slot| {
            if !seen.insert(slot.slot_index) {
                return Err(Error::invalid(
                    "slots",
                    format!("slot {} is given twice", slot.slot_index),
                ));
            }
            Ok(approval::Definition {
                slot_index: signed("slots.slot_index", slot.slot_index)?,
                class: class("slots.slot_class", &slot.slot_class)?,
                bindings: slot
                    .bindings
                    .ok_or_else(|| Error::required("slots.bindings"))?
                    .into(),
                storage_transition_manifest: slot.storage_transition_manifest,
            })
        })
        .collect()
}

pub(super) fn class(field: &str, text: &str) -> Result<SlotClass> {
    SlotClass::parse(text).ok_or_else(|| Error::invalid(field, "must be h200_sxm or lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels() {
        for good in ["a", "a-1", "0", &"x".repeat(63)] {
            assert!(label("name", good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "ä", &"x".repeat(64)] {
            assert_eq!(label("name", bad).expect_err(bad).fields()[0].0, "name");
        }
    }
}
