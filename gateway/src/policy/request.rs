//! What a request says that it is about, and what it asks for: the fields that decisions read.
use prost_reflect::{DynamicMessage, MessageDescriptor};
use uuid::Uuid;

use crate::contract::route::Route;

const PROJECT: &str = "project_id";
const ORGANISATION: &str = "organisation_id";
/// The fields by which a request says what it is about.
pub(super) const NAMED_BY: [&str; 2] = [PROJECT, ORGANISATION];
/// Where a resource that is created may say it.
const CONFIG: &str = "config";
/// The fields of what is launched or reserved that guardrails may limit.
pub(super) const REGION: &str = "region_code";
pub(super) const SKU: &str = "sku";
/// Several of them.
const ALLOCATIONS: &str = "allocations";

/// Each region and SKU that a request launches or reserves, with the part of the request that says it.
pub(super) fn asked_for(message: &DynamicMessage) -> Vec<(String, Option<String>, Option<String>)> {
    let text = |of: &DynamicMessage, field: &str| {
        let value = of.get_field_by_name(field)?;
        let text = value.as_str().filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let of = |part: String, of: &DynamicMessage| (part, text(of, REGION), text(of, SKU));
    let mut found = vec![of(String::new(), message)];
    if let Some(config) = message.get_field_by_name(CONFIG) {
        found.extend(config.as_message().map(|it| of(format!("{CONFIG}."), it)));
    }
    if let Some(several) = message.get_field_by_name(ALLOCATIONS) {
        let several = several.as_list().unwrap_or_default().iter().enumerate();
        found.extend(several.filter_map(|(index, one)| {
            let one = one.as_message()?;
            Some(of(format!("{ALLOCATIONS}[{index}]."), one))
        }));
    }
    found.retain(|(_, region, sku)| region.is_some() || sku.is_some());
    found
}

/// Whether requests of the route may say which project or organisation they are about.
pub(super) fn named_by(route: &Route) -> bool {
    has(route, &NAMED_BY)
}

fn has(route: &Route, fields: &[&str]) -> bool {
    let input = route.method.input();
    let config = input
        .get_field_by_name(CONFIG)
        .and_then(|field| field.kind().as_message().cloned());
    let names = |message: &MessageDescriptor| {
        fields
            .iter()
            .any(|field| message.get_field_by_name(field).is_some())
    };
    names(&input) || config.is_some_and(|config| names(&config))
}

/// Whether requests of the route may say which project they are about.
pub fn names_a_project(route: &Route) -> bool {
    has(route, &[PROJECT])
}

/// The project that a request says that it is about; an error for what is no id.
pub fn named_project(message: &DynamicMessage) -> Option<Result<Uuid, uuid::Error>> {
    named(message, &[PROJECT])
}

/// The organisation that a request says that it is about; an error for what is no id.
pub fn named_organisation(message: &DynamicMessage) -> Option<Result<Uuid, uuid::Error>> {
    named(message, &[ORGANISATION])
}

/// What a message says that it is about.
pub(super) fn named(message: &DynamicMessage, by: &[&str]) -> Option<Result<Uuid, uuid::Error>> {
    let of_config = || {
        let config = message.get_field_by_name(CONFIG)?;
        named_in(config.as_message()?, by)
    };
    named_in(message, by).or_else(of_config)
}

fn named_in(message: &DynamicMessage, by: &[&str]) -> Option<Result<Uuid, uuid::Error>> {
    by.iter().find_map(|field| {
        let value = message.get_field_by_name(field)?;
        let text = value.as_str()?;
        (!text.is_empty()).then(|| text.parse())
    })
}
