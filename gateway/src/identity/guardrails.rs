//! What the owners of an organisation forbid in all of its projects. What forbids it is [`crate::policy`].
use std::collections::BTreeSet;

use gpuaas_common::audit::with_digests;
use gpuaas_common::value::DnsLabel;
use gpuaas_common::{Error, Result, etag};
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use uuid::Uuid;

use super::call::{Begun, Call, Of, known_id, organisation_unknown};
use super::{catalogue, wire};
use crate::store::{self, Guardrails, GuardrailsRow};

/// Most days that keys can be limited to.
const MAX_DAYS: u32 = 3650;
/// Most names in a list.
const MAX_NAMES: usize = 100;

pub(super) async fn get(
    call: &Call<'_>,
    request: pb::GetOrganisationGuardrailsRequest,
) -> Result<pb::OrganisationGuardrails> {
    let mut conn = call.conn().await?;
    let row = call
        .organisation(&mut conn, &request.organisation_id)
        .await?;
    let found = store::organisation_guardrails(&mut conn, row.id).await?;
    Ok(message(found))
}

pub(super) async fn update(
    call: &Call<'_>,
    request: pb::UpdateOrganisationGuardrailsRequest,
) -> Result<pb::OrganisationGuardrails> {
    let id = known_id(&request.organisation_id, organisation_unknown)?;
    if call.made(&request).await?.is_none() {
        check_names(call, &request, id).await?;
    }
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let owned = call
            .owned(&mut tx, Of::Organisation(&request.organisation_id))
            .await?;
        let row = store::organisation_guardrails(&mut tx, id).await?;
        etag::check(&request.etag, &row.version.to_string())?;
        let wanted = changed(&request, &row.guardrails)?;
        if wanted.webhooks_disabled && !row.guardrails.webhooks_disabled {
            // who makes or enables one in a project ends first, or waits and finds the guardrail
            store::hold_projects_of(&mut tx, id).await?;
            let reason = "The guardrail webhooks_disabled of the organisation was set.";
            store::disable_webhooks_in(&mut tx, id, reason).await?;
        }
        store::put_organisation_guardrails(&mut tx, &wanted).await?;
        let before = message(row);
        let after = message(store::organisation_guardrails(&mut tx, id).await?);
        let detail = json!({ "organisation": owned.name, "before": of_record(&before), "after": of_record(&after) });
        let detail = with_digests(detail, Some(&before), Some(&after));
        call.commit(tx, id, detail).await?;
        return Ok(after);
    }
    let organisation_id = request.organisation_id;
    get(
        call,
        pb::GetOrganisationGuardrailsRequest { organisation_id },
    )
    .await
}

/// Refuses a region or a SKU that there is not. One that is in the guardrails already stays: it was there, and what is deleted
/// takes nothing out of them.
async fn check_names(
    call: &Call<'_>,
    request: &pb::UpdateOrganisationGuardrailsRequest,
    id: Uuid,
) -> Result<()> {
    if request.allowed_regions.is_none() && request.allowed_skus.is_none() {
        return Ok(());
    }
    let now = {
        let mut conn = call.conn().await?;
        let of = Of::Organisation(&request.organisation_id);
        call.owned(&mut conn, of).await?;
        store::organisation_guardrails(&mut conn, id)
            .await?
            .guardrails
    };
    // what is no list of names is refused without asking anybody
    changed(request, &now)?;
    let new = new_names(request.allowed_regions.as_ref(), &now.allowed_regions);
    if !new.is_empty() {
        known(
            "allowed_regions",
            "region",
            &new,
            &catalogue::regions(call).await?,
        )?;
    }
    let new = new_names(request.allowed_skus.as_ref(), &now.allowed_skus);
    if !new.is_empty() {
        known("allowed_skus", "SKU", &new, &catalogue::skus(call).await?)?;
    }
    Ok(())
}

/// The names of a list that are not in it yet, each with its place.
fn new_names<'a>(given: Option<&'a pb::AllowedNames>, now: &[String]) -> Vec<(usize, &'a str)> {
    let names = given.map_or(&[][..], |given| given.names.as_slice());
    let names = names.iter().enumerate();
    let new = names.filter(|(_, name)| !now.contains(name));
    new.map(|(index, name)| (index, name.as_str())).collect()
}

fn known(field: &str, kind: &str, names: &[(usize, &str)], there: &BTreeSet<String>) -> Result<()> {
    let mut unknown = names.iter().filter(|(_, name)| !there.contains(*name));
    let Some((index, name)) = unknown.next() else {
        return Ok(());
    };
    let all: Vec<&str> = there.iter().map(String::as_str).collect();
    Err(Error::invalid(
        format!("{field}.names[{index}]"),
        format!("there is no {kind} {name}; there are: {}", all.join(", ")),
    ))
}

/// The guardrails with what a request changes of them.
fn changed(
    request: &pb::UpdateOrganisationGuardrailsRequest,
    now: &Guardrails,
) -> Result<Guardrails> {
    let days = request.max_api_key_days.unwrap_or(now.max_api_key_days);
    if days > MAX_DAYS {
        let rule = format!("must be 0 (no limit) to {MAX_DAYS}");
        return Err(Error::invalid("max_api_key_days", rule));
    }
    let or = |given: Option<bool>, now: bool| given.unwrap_or(now);
    Ok(Guardrails {
        organisation_id: now.organisation_id,
        organisation: now.organisation.clone(),
        terminals_disabled: or(request.terminals_disabled, now.terminals_disabled),
        serial_logs_disabled: or(request.serial_logs_disabled, now.serial_logs_disabled),
        ingress_mappings_disabled: or(
            request.ingress_mappings_disabled,
            now.ingress_mappings_disabled,
        ),
        webhooks_disabled: or(request.webhooks_disabled, now.webhooks_disabled),
        api_keys_disabled: or(request.api_keys_disabled, now.api_keys_disabled),
        max_api_key_days: days,
        allowed_regions: names(
            "allowed_regions",
            request.allowed_regions.as_ref(),
            &now.allowed_regions,
        )?,
        allowed_skus: names(
            "allowed_skus",
            request.allowed_skus.as_ref(),
            &now.allowed_skus,
        )?,
    })
}

/// A list of names in the order of the alphabet.
fn names(field: &str, given: Option<&pb::AllowedNames>, now: &[String]) -> Result<Vec<String>> {
    let Some(given) = given else {
        return Ok(now.to_vec());
    };
    let field = format!("{field}.names");
    if given.names.len() > MAX_NAMES {
        return Err(Error::invalid(
            field,
            format!("must be at most {MAX_NAMES}"),
        ));
    }
    let mut known = BTreeSet::new();
    for (index, name) in given.names.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if name.parse::<DnsLabel>().is_err() {
            return Err(Error::invalid(at, format!("must be {}", DnsLabel::RULE)));
        }
        if !known.insert(name.clone()) {
            return Err(Error::invalid(at, "must not repeat another name"));
        }
    }
    Ok(known.into_iter().collect())
}

fn message(row: GuardrailsRow) -> pb::OrganisationGuardrails {
    let guardrails = row.guardrails;
    pb::OrganisationGuardrails {
        organisation_id: guardrails.organisation_id.to_string(),
        terminals_disabled: guardrails.terminals_disabled,
        serial_logs_disabled: guardrails.serial_logs_disabled,
        ingress_mappings_disabled: guardrails.ingress_mappings_disabled,
        webhooks_disabled: guardrails.webhooks_disabled,
        api_keys_disabled: guardrails.api_keys_disabled,
        max_api_key_days: guardrails.max_api_key_days,
        allowed_regions: guardrails.allowed_regions,
        allowed_skus: guardrails.allowed_skus,
        update_time: row.update_time.and_then(wire::time),
        etag: row.version.to_string(),
    }
}

/// What the audit trail shows of them.
fn of_record(guardrails: &pb::OrganisationGuardrails) -> serde_json::Value {
    json!({
        "terminals_disabled": guardrails.terminals_disabled,
        "serial_logs_disabled": guardrails.serial_logs_disabled,
        "ingress_mappings_disabled": guardrails.ingress_mappings_disabled,
        "webhooks_disabled": guardrails.webhooks_disabled,
        "api_keys_disabled": guardrails.api_keys_disabled,
        "max_api_key_days": guardrails.max_api_key_days,
        "allowed_regions": guardrails.allowed_regions,
        "allowed_skus": guardrails.allowed_skus,
    })
}
