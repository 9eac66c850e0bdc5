//! `WebhookService`: endpoints that events are delivered to. What delivers is [`crate::webhooks`].
use std::time::Duration;

use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::{from_proto_duration, proto_time};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::events::v1 as pb;
use jiff::Timestamp;
use serde_json::{Value, json};
use sqlx::{PgConnection, Postgres, Transaction};
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, OPERATOR, Of, hidden, known_id, unknown};
use super::{parse, wire};
use crate::store::{self, DeliveryRow, Group, NewWebhook, Role, WebhookRow};
use crate::webhooks::message::{digested, message};
use crate::webhooks::secret::Secret;
use crate::webhooks::{address, event_types, events};

/// Most characters of a description.
const MAX_DESCRIPTION: usize = 500;
/// How long the secret before signs as well, when nothing else is asked for.
const OVERLAP: Duration = Duration::from_secs(24 * 3600);
/// The longest overlap.
const MAX_OVERLAP: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) async fn create_for_project(
    call: &Call<'_>,
    request: pb::CreateProjectWebhookRequest,
) -> Result<pb::Webhook> {
    let given = Given {
        url: &request.url,
        event_types: &request.event_types,
        description: &request.description,
    };
    create(call, &request, Of::Project(&request.project_id), given).await
}

pub(super) async fn create_for_organisation(
    call: &Call<'_>,
    request: pb::CreateOrganisationWebhookRequest,
) -> Result<pb::Webhook> {
    let given = Given {
        url: &request.url,
        event_types: &request.event_types,
        description: &request.description,
    };
    let of = Of::Organisation(&request.organisation_id);
    create(call, &request, of, given).await
}

struct Given<'a> {
    url: &'a str,
    event_types: &'a [String],
    description: &'a str,
}

async fn create(
    call: &Call<'_>,
    request: &impl prost::Message,
    of: Of<'_>,
    given: Given<'_>,
) -> Result<pb::Webhook> {
    let webhooks = &call.app.webhooks;
    let id = call.new_id();
    let (id, secret) = match call.begin(request, id).await? {
        // shown once: who has lost it rotates it
        Begun::Replay(made) => (made, None),
        Begun::Fresh(mut tx) => {
            let owned = call.owned(&mut tx, of).await?;
            let url = address::parse(given.url, webhooks.allow_insecure)?;
            let event_types = event_types::parse_types(given.event_types, owned.group)?;
            let description = parse::text("description", given.description, MAX_DESCRIPTION)?;
            let count = store::count_webhooks(&mut tx, owned.group).await?;
            let most = webhooks.max_per_owner;
            if most > 0 && usize::try_from(count).unwrap_or(usize::MAX) >= most {
                return Err(conflict(&format!(
                    "There are {most} webhooks already: delete one that nobody needs."
                )));
            }
            let (secret, sealed) = new_secret(call, id)?;
            let new = NewWebhook {
                id,
                group: owned.group,
                url: url.as_str(),
                event_types: &event_types,
                description: &description,
                secret: &sealed,
                creator: call.name_for_members(owned.role),
            };
            store::insert_webhook(&mut tx, &new).await?;
            // of the URL its host alone: what follows may be a secret
            let detail = json!({
                "of": owned.name, "host": url.host_str(), "event_types": event_types,
            });
            let made = store::find_webhook(&mut tx, id).await?;
            let detail = with_digests(detail, None, made.map(digested).as_ref());
            call.commit_in(tx, owned.group, id, detail).await?;
            (id, Some(secret))
        }
    };
    let mut shown = shown(call, id).await?;
    shown.secret = secret.map(|secret| secret.reveal()).unwrap_or_default();
    Ok(shown)
}

fn new_secret(call: &Call<'_>, id: Uuid) -> Result<(Secret, Vec<u8>)> {
    let secret = Secret::random().ok_or_else(|| Error::internal("no random bytes"))?;
    let sealed = call.app.webhooks.sealer.seal(id, &secret);
    Ok((secret, sealed.map_err(Error::internal)?))
}

fn conflict(message: &str) -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::StateConflict,
        message.to_owned(),
    )
}

pub(super) async fn list_of_project(
    call: &Call<'_>,
    request: pb::ListProjectWebhooksRequest,
) -> Result<pb::ListProjectWebhooksResponse> {
    let selection = Selection::parse(&store::WEBHOOKS, &request.filter, &request.order_by)?;
    let mut conn = call.conn().await?;
    let group = call
        .seen(&mut conn, Of::Project(&request.project_id))
        .await?;
    let requested = (request.page_size, request.page_token.as_str());
    let (webhooks, next_page_token) = listed(&mut conn, group, &selection, requested).await?;
    Ok(pb::ListProjectWebhooksResponse {
        webhooks,
        next_page_token,
    })
}

pub(super) async fn list_of_organisation(
    call: &Call<'_>,
    request: pb::ListOrganisationWebhooksRequest,
) -> Result<pb::ListOrganisationWebhooksResponse> {
    let selection = Selection::parse(&store::WEBHOOKS, &request.filter, &request.order_by)?;
    let mut conn = call.conn().await?;
    let row = call
        .organisation(&mut conn, &request.organisation_id)
        .await?;
    call.needs(row.role, Role::Owner)?;
    let requested = (request.page_size, request.page_token.as_str());
    let group = Group::Organisation(row.id);
    let (webhooks, next_page_token) = listed(&mut conn, group, &selection, requested).await?;
    Ok(pb::ListOrganisationWebhooksResponse {
        webhooks,
        next_page_token,
    })
}

async fn listed(
    conn: &mut PgConnection,
    group: Group,
    selection: &Selection,
    (size, token): (i32, &str),
) -> Result<(Vec<pb::Webhook>, String)> {
    let id = group.id().to_string();
    let wanted = Wanted {
        page_token: token,
        size: page::page_size(size)?,
        query: &["webhooks", &id],
    };
    let (rows, next) = store::list_webhooks(conn, group, selection, wanted).await?;
    Ok((rows.into_iter().map(message).collect(), next))
}

pub(super) async fn get(call: &Call<'_>, request: pb::GetWebhookRequest) -> Result<pb::Webhook> {
    shown(call, known_id(&request.webhook_id, webhook_unknown)?).await
}

pub(super) async fn update(
    call: &Call<'_>,
    request: pb::UpdateWebhookRequest,
) -> Result<pb::Webhook> {
    let id = known_id(&request.webhook_id, webhook_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let (row, role) = writable(call, &mut tx, id).await?;
        etag::check(&request.etag, &row.version.to_string())?;
        let url = match &request.url {
            Some(url) => address::parse(url, call.app.webhooks.allow_insecure)?.to_string(),
            None => row.url.clone(),
        };
        let event_types = match request.event_types.as_slice() {
            [] => row.event_types.clone(),
            given => event_types::parse_types(given, row.group)?,
        };
        let description = match &request.description {
            Some(text) => parse::text("description", text, MAX_DESCRIPTION)?,
            None => row.description.clone(),
        };
        let changed = (url.as_str(), event_types.as_slice(), description.as_str());
        store::update_webhook(&mut tx, id, changed).await?;
        match request.disabled {
            Some(true) => {
                let reason = match call.name_for_members(role) {
                    OPERATOR => "An operator disabled it.".to_owned(),
                    name => format!("{name} disabled it."),
                };
                store::disable_webhook(&mut tx, id, &reason).await?;
            }
            Some(false) => store::enable_webhook(&mut tx, id).await?,
            None => {}
        }
        let detail = json!({
            "url_changed": url != row.url, "event_types": event_types, "disabled": request.disabled,
        });
        let group = row.group;
        let detail = changes(&mut tx, detail, row).await?;
        call.commit_in(tx, group, id, detail).await?;
    }
    shown(call, id).await
}

pub(super) async fn delete(
    call: &Call<'_>,
    request: pb::DeleteWebhookRequest,
) -> Result<pb::DeleteWebhookResponse> {
    let id = known_id(&request.webhook_id, webhook_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let (row, _) = writable(call, &mut tx, id).await?;
        etag::check(&request.etag, &row.version.to_string())?;
        store::delete_webhook(&mut tx, id).await?;
        let detail = json!({ "of": row.group.id() });
        let group = row.group;
        let detail = with_digests(detail, Some(&digested(row)), None);
        call.commit_in(tx, group, id, detail).await?;
    }
    Ok(pb::DeleteWebhookResponse {})
}

pub(super) async fn rotate_secret(
    call: &Call<'_>,
    request: pb::RotateWebhookSecretRequest,
) -> Result<pb::Webhook> {
    let id = known_id(&request.webhook_id, webhook_unknown)?;
    let overlap = request
        .overlap
        .as_ref()
        .map_or(OVERLAP, from_proto_duration);
    let negative = request
        .overlap
        .as_ref()
        .is_some_and(|given| given.seconds < 0 || given.nanos < 0);
    if overlap > MAX_OVERLAP || negative {
        return Err(Error::invalid("overlap", "must be between 0 and 7 days"));
    }
    let mut secret = None;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let (row, _) = writable(call, &mut tx, id).await?;
        etag::check(&request.etag, &row.version.to_string())?;
        let (new, sealed) = new_secret(call, id)?;
        store::rotate_webhook_secret(&mut tx, id, &sealed, overlap.as_secs_f64()).await?;
        let detail = json!({ "overlap_seconds": overlap.as_secs() });
        let group = row.group;
        let detail = changes(&mut tx, detail, row).await?;
        call.commit_in(tx, group, id, detail).await?;
        secret = Some(new);
    }
    let mut shown = shown(call, id).await?;
    shown.secret = secret.map(|secret| secret.reveal()).unwrap_or_default();
    Ok(shown)
}

pub(super) async fn ping(
    call: &Call<'_>,
    request: pb::PingWebhookRequest,
) -> Result<pb::WebhookDelivery> {
    let webhook = known_id(&request.webhook_id, webhook_unknown)?;
    let id = call.new_id();
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            let (row, _) = writable(call, &mut tx, webhook).await?;
            enabled(&row)?;
            let body = events::ping(&webhook.to_string(), proto_time(Timestamp::now()));
            store::insert_ping(&mut tx, id, webhook, events::PING, &body).await?;
            let made = store::find_delivery(&mut tx, webhook, id).await?;
            let detail = json!({ "delivery": id });
            let detail = with_digests(detail, None, made.map(delivery).as_ref());
            call.commit_in(tx, row.group, webhook, detail).await?;
            call.app.webhooks.due.notify_one();
            id
        }
    };
    delivery_shown(call, webhook, id).await
}

pub(super) async fn list_deliveries(
    call: &Call<'_>,
    request: pb::ListWebhookDeliveriesRequest,
) -> Result<pb::ListWebhookDeliveriesResponse> {
    let selection = Selection::parse(&store::DELIVERIES, &request.filter, &request.order_by)?;
    let size = page::page_size(request.page_size)?;
    let state = match pb::WebhookDeliveryState::try_from(request.state) {
        Ok(pb::WebhookDeliveryState::Unspecified) => None,
        Ok(pb::WebhookDeliveryState::Pending) => Some("pending"),
        Ok(pb::WebhookDeliveryState::Delivered) => Some("delivered"),
        Ok(pb::WebhookDeliveryState::Failed) => Some("failed"),
        Err(_) => {
            let rule = "must be pending, delivered or failed";
            return Err(Error::invalid("state", rule));
        }
    };
    let webhook = known_id(&request.webhook_id, webhook_unknown)?;
    let mut conn = call.conn().await?;
    let row = readable(call, &mut conn, webhook).await?;
    let id = row.id.to_string();
    let wanted = Wanted {
        page_token: &request.page_token,
        size,
        query: &["webhook deliveries", &id, state.unwrap_or_default()],
    };
    let (rows, next_page_token) =
        store::list_deliveries(&mut conn, row.id, state, &selection, wanted).await?;
    Ok(pb::ListWebhookDeliveriesResponse {
        deliveries: rows.into_iter().map(delivery).collect(),
        next_page_token,
    })
}

pub(super) async fn redeliver(
    call: &Call<'_>,
    request: pb::RedeliverWebhookDeliveryRequest,
) -> Result<pb::WebhookDelivery> {
    let webhook = known_id(&request.webhook_id, webhook_unknown)?;
    let id = known_id(&request.delivery_id, delivery_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let (row, _) = writable(call, &mut tx, webhook).await?;
        enabled(&row)?;
        let found = store::find_delivery(&mut tx, webhook, id).await?;
        let before = delivery(found.ok_or_else(delivery_unknown)?);
        if !store::requeue_delivery(&mut tx, id).await? {
            return Err(conflict("The delivery is pending still."));
        }
        let after = store::find_delivery(&mut tx, webhook, id).await?;
        let detail = json!({ "delivery": id });
        let detail = with_digests(detail, Some(&before), after.map(delivery).as_ref());
        call.commit_in(tx, row.group, webhook, detail).await?;
        call.app.webhooks.due.notify_one();
    }
    delivery_shown(call, webhook, id).await
}

fn enabled(row: &WebhookRow) -> Result<()> {
    if row.enabled {
        return Ok(());
    }
    Err(conflict("The webhook is disabled: enable it first."))
}

/// A webhook whose events the caller may read. To others there is none.
async fn readable(call: &Call<'_>, conn: &mut PgConnection, id: Uuid) -> Result<WebhookRow> {
    let row = store::find_webhook(conn, id).await?;
    let row = row.ok_or_else(webhook_unknown)?;
    let target = row.group.id().to_string();
    let seen = match row.group {
        Group::Project(_) => call.seen(conn, Of::Project(&target)).await.map(|_| ()),
        Group::Organisation(_) => match call.organisation(conn, &target).await {
            Ok(found) => call.needs(found.role, Role::Owner),
            Err(error) => Err(error),
        },
    };
    seen.map_err(hidden(webhook_unknown))?;
    Ok(row)
}

/// A webhook whose owner calls, locked as it is then, and the caller's role in what it is of.
async fn writable(
    call: &Call<'_>,
    tx: &mut Transaction<'static, Postgres>,
    id: Uuid,
) -> Result<(WebhookRow, Option<Role>)> {
    let row = store::find_webhook(tx, id).await?;
    let row = row.ok_or_else(webhook_unknown)?;
    let target = row.group.id().to_string();
    let owned = call.owned(tx, Of::group(row.group, &target)).await;
    let role = owned.map_err(hidden(webhook_unknown))?.role;
    let row = store::lock_webhook(tx, id).await?;
    Ok((row.ok_or_else(webhook_unknown)?, role))
}

fn webhook_unknown() -> Error {
    unknown("webhook_id", "webhook")
}

fn delivery_unknown() -> Error {
    unknown("delivery_id", "delivery of the webhook")
}

/// The detail of a change with the digests of what the webhook was and is.
async fn changes(conn: &mut PgConnection, detail: Value, before: WebhookRow) -> Result<Value> {
    let after = store::find_webhook(conn, before.id).await?;
    let (before, after) = (digested(before), after.map(digested));
    Ok(with_digests(detail, Some(&before), after.as_ref()))
}

async fn shown(call: &Call<'_>, id: Uuid) -> Result<pb::Webhook> {
    let mut conn = call.conn().await?;
    readable(call, &mut conn, id).await.map(message)
}

async fn delivery_shown(call: &Call<'_>, webhook: Uuid, id: Uuid) -> Result<pb::WebhookDelivery> {
    let mut conn = call.conn().await?;
    readable(call, &mut conn, webhook).await?;
    let row = store::find_delivery(&mut conn, webhook, id).await?;
    row.map(delivery).ok_or_else(delivery_unknown)
}

fn delivery(row: DeliveryRow) -> pb::WebhookDelivery {
    let state = match row.state.as_str() {
        "pending" => pb::WebhookDeliveryState::Pending,
        "delivered" => pb::WebhookDeliveryState::Delivered,
        _ => pb::WebhookDeliveryState::Failed,
    };
    let pending = state == pb::WebhookDeliveryState::Pending;
    pb::WebhookDelivery {
        id: row.id.to_string(),
        webhook_id: row.webhook.to_string(),
        event_type: row.event_type,
        object_id: row.object.to_string(),
        state: state.into(),
        attempts: u32::try_from(row.attempts).unwrap_or_default(),
        response_status: u32::try_from(row.response_status).unwrap_or_default(),
        error: row.error,
        create_time: wire::time(row.create_time),
        last_attempt_time: row.last_attempt_time.and_then(wire::time),
        next_attempt_time: wire::time(row.next_attempt_time).filter(|_| pending),
        deliver_time: row.deliver_time.and_then(wire::time),
    }
}
