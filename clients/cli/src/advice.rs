//! What to do about a refusal, as commands of this program.
use crate::api_failure::ApiFailure;

/// Where the project comes from that the API does not know, for a command that names none.
pub const PROJECT_OF_CONTEXT: &str = "The project is that of the context. Choose another one: --project PROJECT, or gpuaas context set --project PROJECT; or none: gpuaas context set --no-project";
/// How a refusal begins that a release ends, and one that it does not.
const OF_PROJECT: &str = "The quota ";
const OF_RESERVATIONS: &str = "The project may hold ";

/// Advice for whoever reads a refusal; none where its message says all. `admin`: an administrator reads it.
pub fn of(error: &ApiFailure, admin: bool) -> Option<String> {
    if error.advice.is_some() {
        return error.advice.clone();
    }
    if let Some(name) = &error.nearest {
        return Some(format!("Did you mean {name}?"));
    }
    let text = match error.reason.as_str() {
        "CREDENTIAL_MISSING" => {
            "Sign in: gpuaas login; or give a token: --token-file FILE, GPUAAS_TOKEN_FILE, GPUAAS_TOKEN, or token_file in the profile."
        }
        "CREDENTIAL_EXPIRED" => {
            "Get a new token and write it to the token file, or sign in: gpuaas login"
        }
        "CREDENTIAL_INVALID" => {
            "Sign in again: gpuaas login; or check that the token is for this API."
        }
        "SECOND_FACTOR_REQUIRED" => {
            "Sign out and in again, with your second factor: gpuaas logout, gpuaas login"
        }
        "PERMISSION_DENIED" if of_platform(&error.roles) => {
            "Sign in as somebody with that role, or use such a token: admin_token_file in the profile, or --token-file FILE."
        }
        "PERMISSION_DENIED" if error.roles.is_empty() => return None,
        "PERMISSION_DENIED" if admin => {
            "This needs a member's token: see --token-file, and token_file in the profile."
        }
        "PERMISSION_DENIED" => {
            "Ask an owner for that role, or use the token of somebody with that role: --token-file FILE"
        }
        "SKU_UNKNOWN" | "GPU_COUNT_NOT_ALLOWED" => "List the SKUs: gpuaas sku list",
        "IMAGE_UNKNOWN" | "IMAGE_NOT_ACTIVE" | "IMAGE_NOT_COMPATIBLE" => {
            "List the images: gpuaas image list"
        }
        "REGION_UNKNOWN" | "REGION_DISABLED" => "List the regions: gpuaas region list",
        "DISKS_BEING_WIPED" | "SLOTS_IN_USE" | "NODE_VM_LIMIT" | "FRAGMENTED" | "FABRIC_HELD"
        | "INCOMPLETE_SLOT" | "NODE_DRAINING" | "SLOT_UNHEALTHY" | "HUGEPAGES_MISSING" => {
            "Queue the launch: gpuaas launch … --wait-for-capacity 2h; or see what fits: gpuaas availability"
        }
        "NO_CAPACITY" => {
            "See the reasons by node count: gpuaas explain with the same flags. If the GPUs are in use, queue the launch: gpuaas launch … --wait-for-capacity 2h"
        }
        "AFFINITY" => {
            "Remove a placement constraint, or see the reasons by node count: gpuaas explain with the same flags."
        }
        // operators get this reason too
        "HOST_NOT_READY" => {
            "Try again in a few minutes. If the error persists, contact the operator."
        }
        "CLEANUP_BLOCKED" => {
            "Only an operator can repair these GPUs. Contact the operator, or choose others: gpuaas availability"
        }
        "CAPACITY_RESERVED" => {
            "Queue the launch: gpuaas launch … --wait-for-capacity 2h; or, if your project may reserve (gpuaas quota), reserve capacity: gpuaas reservation create"
        }
        "IMAGE_NOT_CACHED" => {
            "Launch without --require-prewarmed. The image is pulled first and then stays cached."
        }
        "QUEUED_AHEAD" => "Queue the launch: gpuaas launch … --wait-for-capacity 2h",
        "RESERVATION_LIMIT" if admin && error.limit == Some(0) => {
            "Raise the reservation limit: gpuaas admin reservation limit PROJECT COUNT; or reserve for the project: gpuaas admin reservation create"
        }
        "RESERVATION_LIMIT" if admin => {
            "End a reservation, or raise the reservation limit: gpuaas admin reservation limit PROJECT COUNT"
        }
        "RESERVATION_LIMIT" if error.limit == Some(0) => {
            "Ask an administrator to raise the reservation limit of the project, or launch without a reservation: gpuaas launch"
        }
        "RESERVATION_LIMIT" => {
            "End a reservation, or ask an administrator to raise the reservation limit."
        }
        "QUOTA" if error.message.starts_with(OF_PROJECT) => match admin {
            true => "Release an allocation, or raise the quota: gpuaas admin quota --help",
            false => "Release an allocation, or ask an administrator to raise the quota.",
        },
        "QUOTA" if error.message.starts_with(OF_RESERVATIONS) => match admin {
            true => "Raise the quota: gpuaas admin quota --help",
            false => "Ask an administrator to raise the quota.",
        },
        // of terminals, of projects: the message says what to do
        "QUOTA" => return None,
        "ALLOCATION_NOT_FOUND" => "List your allocations: gpuaas list --all",
        "NODE_NOT_FOUND" => "List the nodes: gpuaas admin node list",
        "IDEMPOTENCY_KEY_REUSED" => {
            "Nothing was changed now; the earlier change under this key stands. To see it, repeat the command with exactly the same flags: a --name, and times such as 2026-01-31T12:00:00Z instead of durations such as 2h. Otherwise check what exists (gpuaas list --all, gpuaas reservation list --all) before you use another key, which creates another one."
        }
        _ if error
            .fields
            .iter()
            .any(|(field, rule)| field == "project_id" && rule.contains("UUID")) =>
        {
            "Use the project's name or its id: project_id in gpuaas list --output json."
        }
        _ if error.is_transient() => {
            return Some(match error.retry_after.filter(|wait| !wait.is_zero()) {
                Some(wait) => format!("Try again in {} s.", wait.as_secs()),
                None => "Try again in a moment.".to_owned(),
            });
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// Whether the roles that would allow it, in commas, are those of the platform and not of a project or an organisation.
fn of_platform(roles: &str) -> bool {
    roles
        .split(',')
        .any(|role| matches!(role, "admin" | "operator" | "auditor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(reason: &str, message: &str, roles: &str, admin: bool) -> Option<String> {
        let error = ApiFailure {
            reason: reason.to_owned(),
            message: message.to_owned(),
            roles: roles.to_owned(),
            ..ApiFailure::default()
        };
        of(&error, admin)
    }

    #[test]
    fn a_missing_role_is_asked_for_where_it_is_given() {
        for (roles, admin, says) in [
            ("owner,member", false, Some("Ask an owner for that role")),
            ("owner,member", true, Some("a member's token")),
            ("admin,operator", false, Some("admin_token_file")),
            ("admin", true, Some("admin_token_file")),
            // a scope, a guardrail, another rule: the message says all
            ("", false, None),
            ("", true, None),
        ] {
            let given = advice("PERMISSION_DENIED", "This needs it.", roles, admin);
            assert_eq!(given.is_some(), says.is_some(), "{roles} {given:?}");
            let given = given.unwrap_or_default();
            assert!(given.contains(says.unwrap_or_default()), "{roles} {given}");
        }
    }

    #[test]
    fn a_release_is_advised_where_it_helps() {
        let project = "The quota of the project is 2 allocations and 2 are in use.";
        let reserved = "The project may hold 4 GPU of s and has reserved 4 for that time, so it could not use 1 more.";
        let terminals =
            "You have 8 terminals open or about to be opened, the most allowed. Close one.";
        for (message, admin, says) in [
            (
                project,
                false,
                Some("Release an allocation, or ask an administrator to raise the quota."),
            ),
            (
                project,
                true,
                Some("Release an allocation, or raise the quota: gpuaas admin quota --help"),
            ),
            (
                reserved,
                false,
                Some("Ask an administrator to raise the quota."),
            ),
            (
                reserved,
                true,
                Some("Raise the quota: gpuaas admin quota --help"),
            ),
            (terminals, false, None),
            (terminals, true, None),
        ] {
            assert_eq!(advice("QUOTA", message, "", admin).as_deref(), says);
        }
    }
}
