//! Summaries of what was done: a verb in the past, the same as a command, and what it was done to.

/// Actions of records that are of a project.
const SUMMARIES: [(&str, &str, &str, &str); 61] = [
    ("allocation.create", "Launched", "launch", "the allocation"),
    ("allocation.update", "Changed", "change", "the allocation"),
    ("allocation.start", "Started", "start", "the allocation"),
    ("allocation.stop", "Stopped", "stop", "the allocation"),
    ("allocation.reboot", "Rebooted", "reboot", "the allocation"),
    (
        "allocation.rescue",
        "Started",
        "start",
        "the rescue of the allocation",
    ),
    (
        "allocation.unrescue",
        "Ended",
        "end",
        "the rescue of the allocation",
    ),
    (
        "allocation.release",
        "Released",
        "release",
        "the allocation",
    ),
    (
        "allocation.auto_release",
        "Released",
        "release",
        "the allocation at its time",
    ),
    (
        "allocation.operator_stop",
        "Stopped",
        "stop",
        "the allocation",
    ),
    (
        "allocation.operator_release",
        "Released",
        "release",
        "the allocation",
    ),
    (
        "allocation.force_release",
        "Released",
        "release",
        "the allocation of a lost host",
    ),
    ("terminal.create", "Requested", "request", "a terminal"),
    ("terminal.open", "Opened", "open", "a terminal"),
    ("terminal.close", "Closed", "close", "a terminal"),
    ("terminal.end", "Ended", "end", "a terminal"),
    ("terminal.operator_end", "Ended", "end", "a terminal"),
    ("terminal.list_own", "Listed", "list", "terminals"),
    (
        "terminal.replay",
        "Replayed",
        "replay",
        "the recording of a terminal",
    ),
    ("serial_log.read", "Read", "read", "the serial log"),
    (
        "network.put",
        "Changed",
        "change",
        "the network of the project",
    ),
    (
        "ingress_mapping.create",
        "Opened",
        "open",
        "a port of the allocation",
    ),
    (
        "ingress_mapping.delete",
        "Closed",
        "close",
        "a port of the allocation",
    ),
    (
        "ingress_mapping.expire",
        "Closed",
        "close",
        "a port of the allocation at its time",
    ),
    ("reservation.create", "Created", "create", "the reservation"),
    (
        "reservation.cancel",
        "Canceled",
        "cancel",
        "the reservation",
    ),
    ("reservation.end", "Ended", "end", "the reservation"),
    (
        "reservation.release",
        "Released",
        "release",
        "unused GPUs of the reservation",
    ),
    (
        "reservation.limit",
        "Set",
        "set",
        "the reservation limit of the project",
    ),
    ("quota.put", "Set", "set", "a quota of the project"),
    (
        "queue.prioritise",
        "Set",
        "set",
        "the queue priority of the project",
    ),
    ("project.create", "Created", "create", "the project"),
    ("project.update", "Renamed", "rename", "the project"),
    ("project.suspend", "Suspended", "suspend", "the project"),
    ("project.resume", "Resumed", "resume", "the project"),
    ("project.close", "Closed", "close", "the project"),
    ("project_member.add", "Added", "add", "the member"),
    (
        "project_member.update",
        "Changed",
        "change",
        "the role of the member",
    ),
    ("project_member.remove", "Removed", "remove", "the member"),
    ("invitation.create", "Created", "create", "the invitation"),
    ("invitation.accept", "Accepted", "accept", "the invitation"),
    ("invitation.revoke", "Revoked", "revoke", "the invitation"),
    (
        "allocation_grant.create",
        "Granted",
        "grant",
        "access to one allocation",
    ),
    (
        "allocation_grant.delete",
        "Revoked",
        "revoke",
        "access to one allocation",
    ),
    (
        "service_account.create",
        "Created",
        "create",
        "the service account",
    ),
    (
        "service_account.disable",
        "Disabled",
        "disable",
        "the service account",
    ),
    (
        "service_account.enable",
        "Enabled",
        "enable",
        "the service account",
    ),
    (
        "service_account.delete",
        "Deleted",
        "delete",
        "the service account",
    ),
    ("api_key.create", "Created", "create", "an API key"),
    ("api_key.rotate", "Rotated", "rotate", "an API key"),
    ("api_key.disable", "Disabled", "disable", "an API key"),
    ("project_ssh_key.create", "Added", "add", "the SSH key"),
    ("project_ssh_key.delete", "Deleted", "delete", "the SSH key"),
    ("webhook.create", "Created", "create", "the webhook"),
    ("webhook.update", "Changed", "change", "the webhook"),
    ("webhook.delete", "Deleted", "delete", "the webhook"),
    (
        "webhook.rotate_secret",
        "Rotated",
        "rotate",
        "the secret of the webhook",
    ),
    ("webhook.disable", "Disabled", "disable", "the webhook"),
    ("webhook.ping", "Tested", "test", "the webhook"),
    (
        "webhook_delivery.redeliver",
        "Repeated",
        "repeat",
        "a webhook delivery",
    ),
    ("activity.list", "Read", "read", "the activity"),
];

/// What was done, or denied.
pub fn summary(action: &str, denied: bool) -> String {
    let found = SUMMARIES.iter().find(|(known, ..)| *known == action);
    match found {
        Some((_, past, _, what)) if !denied => format!("{past} {what}"),
        Some((_, _, command, what)) => format!("Denied: {command} {what}"),
        // of a release that is newer than this one, or a read that was denied
        None if denied => format!("Denied: {action}"),
        None => action.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn every_change_in_a_project_has_a_summary() {
        let routes = crate::routes().expect("served");
        let changes = routes.routes().iter().filter(|route| {
            let access = &route.access;
            let changes = route.http_method != Method::GET && !access.no_effect;
            changes && route.group.is_of_a_project()
        });
        let missing: Vec<_> = changes
            .map(|route| route.access.action.as_str())
            .filter(|action| summary(action, false) == *action)
            .collect();
        assert!(missing.is_empty(), "no summary for {missing:?}");
        for (action, ..) in SUMMARIES {
            let same = SUMMARIES.iter().filter(|(other, ..)| *other == action);
            assert_eq!(same.count(), 1, "{action} twice");
        }
    }

    #[test]
    fn a_denial_reads_as_one() {
        assert_eq!(summary("allocation.stop", false), "Stopped the allocation");
        assert_eq!(
            summary("allocation.stop", true),
            "Denied: stop the allocation"
        );
        assert_eq!(summary("x.y", true), "Denied: x.y");
    }
}
