//! A webhook as a message of the contract.
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::events::v1 as pb;
use jiff_sqlx::Timestamp;

use crate::store::{Group, WebhookRow};

/// What the digests of audit rows are of: without the URL, in which there may be a secret that the digest would give away to who
/// guesses it, and without the end of the secret before, which shows until it has come.
pub fn digested(row: WebhookRow) -> pb::Webhook {
    pb::Webhook {
        url: String::new(),
        previous_secret_expire_time: None,
        ..message(row)
    }
}

/// As the API shows it, without its secret.
pub fn message(row: WebhookRow) -> pb::Webhook {
    let (project_id, organisation_id) = match row.group {
        Group::Project(id) => (id.to_string(), String::new()),
        Group::Organisation(id) => (String::new(), id.to_string()),
    };
    let state = if row.enabled {
        pb::WebhookState::Enabled
    } else {
        pb::WebhookState::Disabled
    };
    let now = jiff::Timestamp::now();
    pb::Webhook {
        id: row.id.to_string(),
        project_id,
        organisation_id,
        url: row.url,
        event_types: row.event_types,
        description: row.description,
        state: state.into(),
        disable_reason: row.disable_reason,
        disable_time: row.disable_time.map(time),
        failing_time: row.failing_time.map(time),
        secret: String::new(),
        previous_secret_expire_time: row
            .previous_expire_time
            .filter(|end| end.to_jiff() > now)
            .map(time),
        creator: row.creator,
        create_time: Some(time(row.create_time)),
        update_time: Some(time(row.update_time)),
        etag: row.version.to_string(),
    }
}

fn time(at: Timestamp) -> prost_types::Timestamp {
    proto_time(at.to_jiff())
}
