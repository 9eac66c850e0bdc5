//! The types of events that webhooks take, and which of them a webhook may name.
use gpuaas_common::{Error, Result};

use crate::store::Group;

/// A type with what it means.
#[derive(Clone, Copy, Debug)]
pub struct EventType {
    /// For example "allocation.active".
    pub name: &'static str,
    /// A sentence.
    pub meaning: &'static str,
    /// Name of the message of the contract that its bodies are.
    pub message: &'static str,
}

macro_rules! event_types {
    ($($message:ident { $($name:literal: $meaning:literal,)* })*) => {
        &[$($(EventType {
            name: $name,
            meaning: $meaning,
            message: concat!("gpuaas.events.v1.", stringify!($message)),
        },)*)*]
    };
}

/// The types that a webhook may name: all that the ledger emits of allocations and quotas, what billing puts on record, and what
/// the gateway itself changes.
///
/// Neither that an organisation is made nor that it is closed is among them: before the one it has no webhook, and after the
/// other none any more.
pub const EVENT_TYPES: &[EventType] = event_types! {
    AllocationEvent {
        "allocation.requested": "It is queued.",
        "allocation.reserved": "Its slots are reserved.",
        "allocation.provisioning": "Its VM is being made.",
        "allocation.active": "It is ready, and billing begins.",
        "allocation.releasing": "Its release was accepted, and billing ends.",
        "allocation.released": "Its disks are proven empty.",
        "allocation.failed": "It has failed.",
        "allocation.stopping": "Its VM is being shut down.",
        "allocation.stopped": "Its VM is off.",
        "allocation.starting": "Its VM is being started.",
        "allocation.running": "Its VM runs again.",
        "allocation.rebooting": "Its VM is being rebooted.",
        "allocation.rescuing": "Its VM is being started from a rescue image.",
        "allocation.rescued": "Its VM runs from a rescue image.",
        "allocation.unrescuing": "Its VM is being started from its own disk again.",
        "allocation.updated": "Its name, protection or time of release was changed, or its readiness checks have results.",
        "allocation.host_lost": "Its host does not answer, or was installed anew.",
        "allocation.host_found": "Its host answers again.",
        "allocation.device_drift": "The devices of its host are not as they were approved.",
        "allocation.device_drift_ended": "The devices of its host are as they were approved again.",
        "allocation.stopped_by_operator": "An operator stops it, with a reason.",
        "allocation.released_by_operator": "An operator releases it, with a reason.",
    }
    QuotaEvent {
        "quota.updated": "A limit of the project was changed.",
    }
    UsageEvent {
        "usage.closed": "The record of an allocation's usage is complete.",
        "usage.credited": "The host of an allocation was lost, and that time is not charged.",
    }
    OrganisationEvent {
        "organisation.updated": "Its name was changed.",
        "organisation.suspended": "Nothing new begins in its projects.",
        "organisation.resumed": "It is active again.",
    }
    ProjectEvent {
        "project.created": "It was created in the organisation. Only webhooks of the organisation get this event.",
        "project.updated": "Its name was changed.",
        "project.suspended": "Nothing new begins in it.",
        "project.resumed": "It is active again.",
        "project.closed": "It has ended for good. Only webhooks of the organisation get this event.",
    }
    MemberEvent {
        "project_member.added": "Somebody is a member of the project.",
        "project_member.updated": "A member of the project has another role.",
        "project_member.removed": "Somebody is no member of the project any more.",
        "organisation_member.added": "Somebody is a member of the organisation itself.",
        "organisation_member.updated": "A member of the organisation itself has another role.",
        "organisation_member.removed": "Somebody is no member of the organisation itself any more.",
    }
    InvitationEvent {
        "invitation.created": "Somebody is invited.",
        "invitation.accepted": "Who was invited is a member.",
        "invitation.revoked": "It is of no use any more.",
    }
    ServiceAccountEvent {
        "service_account.created": "The project has one more.",
        "service_account.disabled": "Its API keys are refused.",
        "service_account.enabled": "Its API keys are good again.",
        "service_account.deleted": "It has ended for good, with its API keys.",
    }
    ApiKeyEvent {
        "api_key.created": "A service account has one more.",
        "api_key.rotated": "A new key is in the place of another one, which ends.",
        "api_key.disabled": "It is refused from now on.",
    }
};

/// Those that no webhook of a project gets: what an organisation keeps to itself, and what happens to a project while it has no
/// webhook.
const OF_ORGANISATIONS_ALONE: [&str; 5] = [
    "project.created",
    "project.closed",
    "organisation_member.added",
    "organisation_member.updated",
    "organisation_member.removed",
];

/// The type of this name.
pub fn find(name: &str) -> Option<&'static EventType> {
    EVENT_TYPES.iter().find(|known| known.name == name)
}

/// Types that a caller names for a webhook of this owner, sorted; empty for all.
///
/// # Errors
/// `FIELD_INVALID` naming the type that there is not, or that the owner's webhooks never get.
pub fn parse_types(given: &[String], owner: Group) -> Result<Vec<String>> {
    if given.iter().any(|one| one == "*") {
        return if given.len() == 1 {
            Ok(Vec::new())
        } else {
            Err(Error::invalid(
                "event_types",
                "must be \"*\" alone, or types",
            ))
        };
    }
    let names = EVENT_TYPES.iter().map(|known| known.name);
    let taken: Vec<&str> = match owner {
        Group::Organisation(_) => names.collect(),
        Group::Project(_) => names
            .filter(|name| !OF_ORGANISATIONS_ALONE.contains(name))
            .collect(),
    };
    for (index, one) in given.iter().enumerate() {
        if taken.contains(&one.as_str()) {
            continue;
        }
        let why = match find(one) {
            Some(_) => "is only for webhooks of organisations; ",
            None => "",
        };
        return Err(Error::invalid(
            format!("event_types[{index}]"),
            format!("{why}must be one of {}", taken.join(", ")),
        ));
    }
    let mut types = given.to_vec();
    types.sort();
    types.dedup();
    Ok(types)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::allocation::v1::{AllocationState, PowerState};
    use uuid::Uuid;

    use super::super::events::PING;
    use super::*;

    fn parse_for(given: &[&str], owner: Group) -> Result<Vec<String>> {
        let given: Vec<String> = given.iter().map(|one| (*one).to_owned()).collect();
        parse_types(&given, owner)
    }

    fn word(name: &str, prefix: &str) -> String {
        let word = name.trim_start_matches(prefix).to_ascii_lowercase();
        format!("allocation.{word}")
    }

    /// The ledger names events by the states that they lead to.
    #[test]
    fn every_state_of_an_allocation_has_its_event_type() {
        let states = (1..).map_while(|number| AllocationState::try_from(number).ok());
        let states = states.map(|one| word(one.as_str_name(), "ALLOCATION_STATE_"));
        let powers = (1..).map_while(|number| PowerState::try_from(number).ok());
        let powers = powers.map(|one| word(one.as_str_name(), "POWER_STATE_"));
        let mut seen = 0;
        for name in states.chain(powers) {
            assert!(find(&name).is_some(), "{name}");
            seen += 1;
        }
        assert_eq!(seen, 15);
    }

    #[test]
    fn types_are_known_ones_or_all() {
        let parse = |given: &[&str]| parse_for(given, Group::Organisation(Uuid::nil()));
        assert_eq!(parse(&[]).expect("all"), Vec::<String>::new());
        assert_eq!(parse(&["*"]).expect("all"), Vec::<String>::new());
        let two = parse(&[
            "allocation.failed",
            "allocation.active",
            "allocation.failed",
        ]);
        assert_eq!(
            two.expect("two"),
            ["allocation.active", "allocation.failed"]
        );
        for bad in [
            &["*", "allocation.active"][..],
            &["allocation.x"],
            &["slot.available"],
            &[PING],
            &[""],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let refused = parse(&["allocation.x"]).expect_err("no type");
        let rule = &refused.fields()[0].1;
        for known in EVENT_TYPES {
            assert!(rule.contains(known.name), "{rule}");
        }
    }

    #[test]
    fn a_project_names_no_type_that_only_organisations_get() {
        let (project, organisation) = (
            Group::Project(Uuid::nil()),
            Group::Organisation(Uuid::nil()),
        );
        assert!(parse_for(&["*"], project).expect("all").is_empty());
        let taken = |owner: Group| {
            let names = EVENT_TYPES.iter().map(|known| known.name);
            names
                .filter(|name| parse_for(&[*name], owner).is_ok())
                .collect::<Vec<_>>()
        };
        assert_eq!(taken(organisation).len(), EVENT_TYPES.len());
        let of_project = taken(project);
        let refused = EVENT_TYPES.len() - of_project.len();
        assert_eq!(refused, OF_ORGANISATIONS_ALONE.len());
        for (given, why) in [
            ("project.created", "is only for webhooks of organisations; "),
            ("project.x", ""),
        ] {
            let error = parse_for(&["project.updated", given], project).expect_err("refused");
            let rule = format!("{why}must be one of {}", of_project.join(", "));
            let field = ("event_types[1]".to_owned(), rule);
            assert_eq!(error.fields(), [field]);
        }
    }

    #[test]
    fn every_type_has_its_message_in_the_contract_and_no_other_has_its_name() {
        for (index, one) in EVENT_TYPES.iter().enumerate() {
            let message = gpuaas_proto::pool().get_message_by_name(one.message);
            let message = message.unwrap_or_else(|| panic!("{}", one.message));
            for field in ["type", "timestamp", "data"] {
                assert!(message.get_field_by_name(field).is_some(), "{}", one.name);
            }
            assert!(
                !EVENT_TYPES[..index]
                    .iter()
                    .any(|other| other.name == one.name)
            );
        }
    }
}
