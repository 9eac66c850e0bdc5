//! The schema that policies are checked against: the kinds of `deploy/policies/gpuaas.cedarschema`, and the actions of the
//! contract. No list of actions is kept by hand, so none is forgotten.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use cedar_policy::Schema;
use gpuaas_common::access::Group;

use super::error::PolicyError;
use crate::contract::route::RouteTable;

/// The kinds.
const KINDS: &str = include_str!("../../../deploy/policies/gpuaas.cedarschema");

/// The action of reads by SCIM, for policies and records.
pub const SCIM_READ: &str = "scim.read";
/// The action of changes by SCIM.
pub const SCIM_WRITE: &str = "scim.write";

/// Actions with their groups, by the names that policies have for them.
pub type Actions = BTreeMap<String, Group>;

/// The actions of all routes, and those of SCIM, which has no routes in the contract.
pub fn actions(routes: &RouteTable) -> Actions {
    let scim = [SCIM_READ, SCIM_WRITE].map(|action| (action.to_owned(), Group::Scim));
    routes
        .routes()
        .iter()
        .map(|route| (route.action.clone(), route.group))
        .chain(scim)
        .collect()
}

/// The schema with these actions.
///
/// # Errors
/// An action whose name no schema can hold.
pub fn schema(actions: &Actions) -> Result<Schema, PolicyError> {
    let mut text = KINDS.to_owned();
    for (action, group) in actions {
        let resource = match group {
            group if group.is_of_a_project() => "Project",
            Group::OrganisationRead | Group::OrganisationManage | Group::Scim => "Organisation",
            _ => "Platform",
        };
        let context = match resource {
            "Platform" => "{}",
            _ => "Membership",
        };
        // writing to a string does not fail
        let _ = writeln!(
            text,
            "action {action:?} in [{:?}] appliesTo {{ principal: [User, ServiceAccount], resource: {resource}, context: {context} }};",
            group.name()
        );
    }
    let (schema, _) = Schema::from_cedarschema_str(&text)
        .map_err(|error| PolicyError::Schema(Box::new(error)))?;
    Ok(schema)
}
