//! Types of events that a webhook names. The platform says which there are: a newer one has more than this program knows.
use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

use crate::failure::Failure;
use crate::suggest;

/// Those that are known here, for completion, help and suggestions, and all of them.
const KNOWN: [&str; 50] = [
    "*",
    "allocation.requested",
    "allocation.reserved",
    "allocation.provisioning",
    "allocation.active",
    "allocation.releasing",
    "allocation.released",
    "allocation.failed",
    "allocation.stopping",
    "allocation.stopped",
    "allocation.starting",
    "allocation.running",
    "allocation.rebooting",
    "allocation.rescuing",
    "allocation.rescued",
    "allocation.unrescuing",
    "allocation.updated",
    "allocation.host_lost",
    "allocation.host_found",
    "allocation.device_drift",
    "allocation.device_drift_ended",
    "allocation.stopped_by_operator",
    "allocation.released_by_operator",
    "quota.updated",
    "usage.closed",
    "usage.credited",
    "organisation.updated",
    "organisation.suspended",
    "organisation.resumed",
    "project.created",
    "project.updated",
    "project.suspended",
    "project.resumed",
    "project.closed",
    "project_member.added",
    "project_member.updated",
    "project_member.removed",
    "organisation_member.added",
    "organisation_member.updated",
    "organisation_member.removed",
    "invitation.created",
    "invitation.accepted",
    "invitation.revoked",
    "service_account.created",
    "service_account.disabled",
    "service_account.enabled",
    "service_account.deleted",
    "api_key.created",
    "api_key.rotated",
    "api_key.disabled",
];
/// The field of requests, up to the index.
const FIELD: &str = "event_types[";

/// Takes any type, and shows those that are known.
#[derive(Clone, Copy, Debug)]
pub struct EventType;

impl TypedValueParser for EventType {
    type Value = String;

    fn parse_ref(
        &self,
        _: &Command,
        _: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        // bytes that are no text are the name of no event, which the platform says
        Ok(value.to_string_lossy().into_owned())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(KNOWN.into_iter().map(PossibleValue::new)))
    }
}

/// The refusal of a webhook with these types, with the known one that is most like the refused one. What the platform refuses as
/// well, as of a webhook of a project, is no help: its rule names the types that it takes.
pub fn nearest(failure: Failure, given: &[String]) -> Failure {
    let Failure::Api(mut error) = failure else {
        return failure;
    };
    let refused = error.fields.iter().find_map(|(field, rule)| {
        let index = field.strip_prefix(FIELD)?.strip_suffix(']')?;
        let typed = given.get(index.parse::<usize>().ok()?)?;
        Some((typed, rule))
    });
    if let Some((typed, rule)) = refused {
        let taken: Vec<&str> = rule.split([' ', ',']).collect();
        let known = KNOWN.into_iter().filter(|known| taken.contains(known));
        error.nearest = suggest::nearest(typed, known).map(str::to_owned);
    }
    Failure::Api(error)
}
