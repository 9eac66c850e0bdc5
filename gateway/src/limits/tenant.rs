//! Whom a request counts for beside its principal.
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use crate::policy::named_organisation;
use crate::store::Principal;

/// Whom a request counts for beside its principal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tenant {
    /// The project.
    pub(super) project: Option<Uuid>,
    /// The organisation.
    pub(super) organisation: Option<Uuid>,
}

impl Tenant {
    /// Those of a request in this project. What is not the caller's costs its owners nothing.
    pub fn of(principal: &Principal, project: Option<Uuid>, message: &DynamicMessage) -> Self {
        let of_project = project.and_then(|project| {
            let index = principal.roles.iter().position(|(id, _)| *id == project)?;
            Some((project, principal.owners.get(index).copied()))
        });
        let organisation = of_project.and_then(|(_, organisation)| organisation);
        Self {
            project: of_project.map(|(project, _)| project),
            organisation: organisation
                .or_else(|| {
                    named_organisation(message)
                        .and_then(Result::ok)
                        .filter(|id| principal.role_in_organisation(*id).is_some())
                })
                .or_else(|| only(principal)),
        }
    }
}

impl From<Uuid> for Tenant {
    /// An organisation that is not of one project.
    fn from(organisation: Uuid) -> Self {
        Self {
            project: None,
            organisation: Some(organisation),
        }
    }
}

/// The organisation of who belongs to no other. Who has a role on the platform and names none may be at work for any.
fn only(principal: &Principal) -> Option<Uuid> {
    if principal.platform_role.is_some() {
        return None;
    }
    let of_itself = principal.organisations.iter().map(|(id, _)| id);
    let mut all = principal.owners.iter().chain(of_itself);
    let first = *all.next()?;
    all.all(|other| *other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use prost_reflect::{ReflectMessage as _, Value};

    use super::*;
    use crate::store::{PlatformRole, Role};

    fn naming(field: &str, id: Uuid) -> DynamicMessage {
        let name = match field {
            "project_id" => "gpuaas.events.v1.ListProjectWebhooksRequest",
            _ => "gpuaas.events.v1.ListOrganisationWebhooksRequest",
        };
        let described = gpuaas_proto::pool().get_message_by_name(name);
        let mut message = DynamicMessage::new(described.expect("in the contract"));
        message.set_field_by_name(field, Value::String(id.to_string()));
        message
    }

    #[test]
    fn a_request_counts_for_what_is_its_callers_own() {
        let [project, other, foreign, one, two] = [1, 2, 3, 4, 5].map(Uuid::from_u128);
        let of_both = Principal {
            roles: vec![(project, Role::Member), (other, Role::Viewer)],
            owners: vec![one, two],
            organisations: vec![(two, Role::Owner)],
            ..Principal::default()
        };
        let of_one = Principal {
            roles: vec![(project, Role::Member)],
            owners: vec![one],
            ..Principal::default()
        };
        let operator = Principal {
            platform_role: Some(PlatformRole::Operator),
            ..of_one.clone()
        };
        let tenant = |project, organisation| Tenant {
            project,
            organisation,
        };
        for (principal, field, id, wanted) in [
            (
                &of_both,
                "project_id",
                project,
                tenant(Some(project), Some(one)),
            ),
            (
                &of_both,
                "project_id",
                other,
                tenant(Some(other), Some(two)),
            ),
            (&of_both, "project_id", foreign, tenant(None, None)),
            (&of_both, "organisation_id", two, tenant(None, Some(two))),
            // it is in a project of it only
            (&of_both, "organisation_id", one, tenant(None, None)),
            (
                &of_one,
                "project_id",
                project,
                tenant(Some(project), Some(one)),
            ),
            (&of_one, "project_id", foreign, tenant(None, Some(one))),
            (&of_one, "organisation_id", foreign, tenant(None, Some(one))),
            (
                &operator,
                "project_id",
                project,
                tenant(Some(project), Some(one)),
            ),
            (&operator, "project_id", foreign, tenant(None, None)),
            (&operator, "organisation_id", foreign, tenant(None, None)),
        ] {
            let project = (field == "project_id").then_some(id);
            assert_eq!(
                Tenant::of(principal, project, &naming(field, id)),
                wanted,
                "{field} {id}"
            );
        }
        // neither names anything
        let unnamed = naming("project_id", project).descriptor();
        let unnamed = DynamicMessage::new(unnamed);
        for (principal, wanted) in [(&of_one, Some(one)), (&operator, None)] {
            let counted = Tenant::of(principal, None, &unnamed);
            assert_eq!(counted, tenant(None, wanted));
        }
        let nobody = Principal::default();
        let requested = naming("project_id", project);
        assert_eq!(
            Tenant::of(&nobody, Some(project), &requested),
            Tenant::default()
        );
    }
}
