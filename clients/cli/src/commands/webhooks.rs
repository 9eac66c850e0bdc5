//! `webhook`: HTTPS endpoints that events are delivered to. A new secret is printed once, alone on standard output.
use gpuaas_proto::gpuaas::events::v1 as contract;
use gpuaas_proto::gpuaas::events::v1::{
    CreateOrganisationWebhookRequest, CreateProjectWebhookRequest, DeleteWebhookRequest,
    GetWebhookRequest, ListOrganisationWebhooksRequest, ListProjectWebhooksRequest,
    ListWebhookDeliveriesRequest, ListWebhookDeliveriesResponse, PingWebhookRequest,
    RedeliverWebhookDeliveryRequest, RotateWebhookSecretRequest, UpdateWebhookRequest,
    WebhookDeliveryState, WebhookState,
};
use gpuaas_proto::json::Enumeration as _;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::event_types::{self, EventType};
use super::launch::parse_length;
use super::select::{Selected, SelectedOf};
use super::whose::{Whose, about};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, span_of, time, word};
use crate::session::{Session, done, shown_once};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the webhooks of a project or an organisation.
    List {
        #[command(flatten)]
        whose: Whose,
        #[command(flatten)]
        selected: SelectedOf<ListProjectWebhooksRequest>,
    },
    /// Create a webhook. The secret that signs deliveries is printed only once, alone on standard output, also with --quiet.
    Create {
        /// URL of the endpoint; begins with https://.
        url: String,
        /// Event type, repeatable; "*" for all [default: all].
        #[arg(long = "event", value_name = "TYPE", value_parser = EventType)]
        events: Vec<String>,
        /// What it is for.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        whose: Whose,
    },
    /// Show a webhook.
    Show(Webhook),
    /// Change the URL, event types or description.
    Update {
        #[command(flatten)]
        webhook: Webhook,
        /// URL of the endpoint.
        #[arg(long)]
        url: Option<String>,
        /// Event type, repeatable; "*" for all.
        #[arg(long = "event", value_name = "TYPE", value_parser = EventType)]
        events: Vec<String>,
        /// What it is for.
        #[arg(long)]
        description: Option<String>,
    },
    /// Stop deliveries; pending ones fail.
    Disable(Webhook),
    /// Resume deliveries, of events from now on.
    Enable(Webhook),
    /// Delete a webhook with its deliveries.
    Delete(Webhook),
    /// Make a new secret, which is printed only once, also with --quiet. Deliveries carry both signatures during the overlap.
    RotateSecret {
        #[command(flatten)]
        webhook: Webhook,
        /// How long deliveries also carry the old signature, such as 1h [default: 1d].
        #[arg(long, value_name = "TIME", value_parser = parse_length)]
        overlap: Option<SignedDuration>,
    },
    /// Send a test event of the type webhook.ping.
    Ping(Webhook),
    /// Deliveries of a webhook.
    #[command(subcommand)]
    Delivery(DeliveryCommand),
    /// The former name of `delivery list`.
    #[command(hide = true)]
    Deliveries(DeliveryList),
    /// Redeliver a delivery that succeeded or failed.
    Redeliver {
        #[command(flatten)]
        webhook: Webhook,
        /// Id of the delivery.
        delivery: String,
    },
}

#[derive(Debug, clap::Subcommand)]
pub enum DeliveryCommand {
    /// List the deliveries of a webhook, newest first.
    List(DeliveryList),
}

/// Whose deliveries, and which of them.
#[derive(Debug, clap::Args)]
pub struct DeliveryList {
    #[command(flatten)]
    webhook: Webhook,
    /// Only deliveries in this state.
    #[arg(long, value_parser = ["pending", "delivered", "failed"])]
    state: Option<String>,
    #[command(flatten)]
    selected: SelectedOf<ListWebhookDeliveriesRequest>,
}

/// One webhook.
#[derive(Debug, clap::Args)]
pub struct Webhook {
    /// Id of the webhook.
    webhook: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { whose, selected } => {
            about!(
                whose.find(session).await?,
                ListProjectWebhooksRequest
                    | ListOrganisationWebhooksRequest {
                        filter: selected.filter(),
                        order_by: selected.order_by(),
                        ..Default::default()
                    },
                |request| {
                    let listed = session.api.call_all_pages(&request, "webhooks").await?;
                    list(session, &listed.json, listed.message.webhooks, &selected);
                }
            );
        }
        Command::Create {
            url,
            events,
            description,
            whose,
        } => {
            let answer = about!(
                whose.find(session).await?,
                CreateProjectWebhookRequest
                    | CreateOrganisationWebhookRequest {
                        url,
                        event_types: events.clone(),
                        description,
                    },
                |request| session.api.apply(&request, &session.key).await
            );
            let answer = answer.map_err(|failure| event_types::nearest(failure, &events))?;
            secret(session, &answer)?;
        }
        Command::Show(one) => {
            let request = GetWebhookRequest {
                webhook_id: one.webhook,
            };
            let answer = session.api.call(&request).await?;
            let json = json!({ "webhooks": [answer.json] });
            list(session, &json, vec![answer.message], &Selected::default());
        }
        Command::Update {
            webhook,
            url,
            events,
            description,
        } => {
            let request = UpdateWebhookRequest {
                webhook_id: webhook.webhook,
                url,
                event_types: events.clone(),
                description,
                ..UpdateWebhookRequest::default()
            };
            let updated = update(session, request, "is changed").await;
            updated.map_err(|failure| event_types::nearest(failure, &events))?;
        }
        Command::Disable(one) => switch(session, one, true, "is disabled").await?,
        Command::Enable(one) => switch(session, one, false, "is enabled").await?,
        Command::Delete(one) => {
            let request = DeleteWebhookRequest {
                webhook_id: one.webhook.clone(),
                ..DeleteWebhookRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("Deleted {}.", one.webhook));
        }
        Command::RotateSecret { webhook, overlap } => {
            let request = RotateWebhookSecretRequest {
                webhook_id: webhook.webhook,
                overlap: overlap.map(span_of),
                ..RotateWebhookSecretRequest::default()
            };
            secret(session, &session.api.apply(&request, &session.key).await?)?;
        }
        Command::Ping(one) => {
            let sentence = format!(
                "Queued. See whether it arrives: gpuaas webhook delivery list {}",
                one.webhook
            );
            let request = PingWebhookRequest {
                webhook_id: one.webhook,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &sentence);
        }
        Command::Delivery(DeliveryCommand::List(list)) | Command::Deliveries(list) => {
            let DeliveryList {
                webhook,
                state,
                selected,
            } = list;
            let state = state.as_deref().and_then(WebhookDeliveryState::of_word);
            let request = ListWebhookDeliveriesRequest {
                webhook_id: webhook.webhook,
                state: state.unwrap_or_default().into(),
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListWebhookDeliveriesRequest::default()
            };
            let found = session.api.call_all_pages(&request, "deliveries").await?;
            deliveries(session, found, &selected);
        }
        Command::Redeliver { webhook, delivery } => {
            let sentence = format!("{delivery} is queued again.");
            let request = RedeliverWebhookDeliveryRequest {
                webhook_id: webhook.webhook,
                delivery_id: delivery,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &sentence);
        }
    }
    Ok(())
}

async fn switch(
    session: &Session,
    one: Webhook,
    disabled: bool,
    what: &str,
) -> Result<(), Failure> {
    let request = UpdateWebhookRequest {
        webhook_id: one.webhook,
        disabled: Some(disabled),
        ..UpdateWebhookRequest::default()
    };
    update(session, request, what).await
}

async fn update(
    session: &Session,
    request: UpdateWebhookRequest,
    what: &str,
) -> Result<(), Failure> {
    let answer = session.api.apply(&request, &session.key).await?;
    let sentence = format!("{} {what}.", request.webhook_id);
    done(session, &answer.json, &sentence);
    Ok(())
}

/// Prints a new secret, alone, so that it can go into a file or a secret store.
fn secret(session: &Session, answer: &Answer<contract::Webhook>) -> Result<(), Failure> {
    let contract::Webhook { id, secret, .. } = &answer.message;
    shown_once(secret, &format!("webhook {id}"), || {
        format!("gpuaas webhook rotate-secret {id}")
    })?;
    if session.whole() {
        print_json(&answer.json);
        return Ok(());
    }
    note!(
        "This secret of webhook {id} is shown once. Keep it where only the receiver can read it."
    );
    say!("{secret}");
    Ok(())
}

fn list(session: &Session, json: &Value, found: Vec<contract::Webhook>, selected: &Selected) {
    if session.json() {
        print_json(json);
        return;
    }
    if found.is_empty() && selected.narrows() {
        say!("No webhook matches the filter.");
        return;
    }
    if found.is_empty() {
        say!("No webhooks yet. Create one: gpuaas webhook create https://…");
        return;
    }
    let rows = found.into_iter().map(|one| {
        let types = match one.event_types.is_empty() {
            true => "all".to_owned(),
            false => one.event_types.join(","),
        };
        let state = match (one.state(), one.failing_time) {
            (WebhookState::Enabled, Some(_)) => "failing".to_owned(),
            (state, _) => word(state),
        };
        [one.id, one.url, types, state, one.disable_reason]
    });
    print_table(["ID", "URL", "EVENTS", "STATE", "REASON"], rows.collect());
}

fn deliveries(
    session: &Session,
    found: Answer<ListWebhookDeliveriesResponse>,
    selected: &Selected,
) {
    if session.json() {
        print_json(&found.json);
        return;
    }
    let found = found.message.deliveries;
    if found.is_empty() && selected.narrows() {
        say!("No delivery matches the filter.");
        return;
    }
    if found.is_empty() {
        say!("No deliveries.");
        return;
    }
    let rows = found.into_iter().map(|one| {
        let state = word(one.state());
        let status = match one.response_status {
            0 => "-".to_owned(),
            status => status.to_string(),
        };
        [
            one.id,
            one.event_type,
            state,
            one.attempts.to_string(),
            status,
            time(one.last_attempt_time),
            one.error,
        ]
    });
    print_table(
        [
            "ID",
            "TYPE",
            "STATE",
            "ATTEMPTS",
            "STATUS",
            "LAST ATTEMPT",
            "ERROR",
        ],
        rows.collect(),
    );
}
