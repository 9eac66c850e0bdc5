//! `webhook`: HTTPS endpoints that events are delivered to. A new secret is printed once, alone on standard output.
use jiff::SignedDuration;
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::launch::parse_length;
use super::members::Of;
use super::organisations;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the webhooks of a project or an organisation.
    List(Whose),
    /// Create a webhook. The secret that signs its deliveries is printed once, alone on standard output.
    Create {
        /// Where events go; begins with https://.
        url: String,
        /// Event type, such as allocation.active; repeatable [default: all].
        #[arg(long = "event", value_name = "TYPE")]
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
        /// Where events go.
        #[arg(long)]
        url: Option<String>,
        /// Event type, repeatable; "*" for all.
        #[arg(long = "event", value_name = "TYPE")]
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
    /// Make a new secret, which is printed once. Both secrets sign during the overlap.
    RotateSecret {
        #[command(flatten)]
        webhook: Webhook,
        /// How long the old secret signs as well, such as 1h [default: 1d].
        #[arg(long, value_name = "TIME", value_parser = parse_length)]
        overlap: Option<SignedDuration>,
    },
    /// Queue a delivery of the type webhook.ping.
    Ping(Webhook),
    /// List the deliveries of a webhook, newest first.
    Deliveries {
        #[command(flatten)]
        webhook: Webhook,
        /// Only deliveries in this state.
        #[arg(long, value_parser = ["pending", "delivered", "failed"])]
        state: Option<String>,
    },
    /// Redeliver a delivery that succeeded or failed.
    Redeliver {
        #[command(flatten)]
        webhook: Webhook,
        /// Id of the delivery.
        delivery: String,
    },
}

/// Whose webhooks.
#[derive(Debug, clap::Args)]
pub struct Whose {
    #[command(flatten)]
    of: Of,
    /// Organisation: events of all of its projects.
    #[arg(long, value_name = "ORGANISATION", conflicts_with = "project")]
    organisation: Option<String>,
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
        Command::List(whose) => {
            let (kind, id) = whose.find(session).await?;
            let path = [kind, id.as_str(), "webhooks"];
            list(session, &session.api.list(&path, &[], "webhooks").await?);
        }
        Command::Create {
            url,
            events,
            description,
            whose,
        } => {
            let (kind, id) = whose.find(session).await?;
            let body = json!({ "url": url, "event_types": events, "description": description });
            let path = [kind, id.as_str(), "webhooks"];
            let answer = session.api.change(Method::POST, &path, &body, &session.key);
            secret(session, &answer.await?)?;
        }
        Command::Show(one) => {
            let answer = session.api.get(&["webhooks", &one.webhook], &[]).await?;
            list(session, &[answer]);
        }
        Command::Update {
            webhook,
            url,
            events,
            description,
        } => {
            let mut body = json!({ "event_types": events });
            for (field, value) in [("url", url), ("description", description)] {
                if let Some(value) = value {
                    body[field] = value.into();
                }
            }
            update(session, &webhook, &body, "is changed").await?;
        }
        Command::Disable(one) => {
            update(session, &one, &json!({ "disabled": true }), "is disabled").await?;
        }
        Command::Enable(one) => {
            update(session, &one, &json!({ "disabled": false }), "is enabled").await?;
        }
        Command::Delete(one) => {
            let path = ["webhooks", one.webhook.as_str()];
            let answer = session.api.delete(&path, &[], &session.key).await?;
            super::done(session, &answer, &format!("Deleted {}.", one.webhook));
        }
        Command::RotateSecret { webhook, overlap } => {
            let mut body = json!({});
            if let Some(overlap) = overlap {
                body["overlap"] = format!("{}s", overlap.as_secs()).into();
            }
            let last = format!("{}:rotateSecret", webhook.webhook);
            let path = ["webhooks", last.as_str()];
            let answer = session.api.change(Method::POST, &path, &body, &session.key);
            secret(session, &answer.await?)?;
        }
        Command::Ping(one) => {
            let last = format!("{}:ping", one.webhook);
            let sentence = format!(
                "Queued. See whether it arrives: gpuaas webhook deliveries {}",
                one.webhook
            );
            post(session, &["webhooks", &last], &sentence).await?;
        }
        Command::Deliveries { webhook, state } => {
            let query: Vec<_> = state.into_iter().map(|state| ("state", state)).collect();
            let path = ["webhooks", webhook.webhook.as_str(), "deliveries"];
            let found = session.api.list(&path, &query, "deliveries").await?;
            deliveries(session, &found);
        }
        Command::Redeliver { webhook, delivery } => {
            let last = format!("{delivery}:redeliver");
            let path = ["webhooks", webhook.webhook.as_str(), "deliveries", &last];
            post(session, &path, &format!("{delivery} is queued again.")).await?;
        }
    }
    Ok(())
}

impl Whose {
    /// The kind of owner in paths, and its id.
    async fn find(self, session: &Session) -> Result<(&'static str, String), Failure> {
        match self.organisation {
            Some(given) => {
                let id = organisations::find(session, &given).await?;
                Ok(("organisations", id))
            }
            None => Ok(("projects", self.of.id(session).await?)),
        }
    }
}

async fn post(session: &Session, path: &[&str], sentence: &str) -> Result<(), Failure> {
    let body = json!({});
    let answer = session.api.change(Method::POST, path, &body, &session.key);
    super::done(session, &answer.await?, sentence);
    Ok(())
}

async fn update(session: &Session, one: &Webhook, body: &Value, what: &str) -> Result<(), Failure> {
    let path = ["webhooks", one.webhook.as_str()];
    let answer = session.api.change(Method::PATCH, &path, body, &session.key);
    super::done(session, &answer.await?, &format!("{} {what}.", one.webhook));
    Ok(())
}

/// Prints a new secret, alone, so that it can go into a file or a secret store.
fn secret(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let secret = text(answer, "secret");
    if secret.is_empty() {
        return Err(Failure::Usage(
            "this idempotency key was used before; its secret is not shown again".to_owned(),
        ));
    }
    let id = text(answer, "id");
    note!(
        "This secret of webhook {id} is shown once. Keep it where only the receiver can read it."
    );
    say!("{secret}");
    Ok(())
}

fn list(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "webhooks": found }));
        return;
    }
    if found.is_empty() {
        say!("No webhooks yet. Create one: gpuaas webhook create https://…");
        return;
    }
    let rows = found.iter().map(|one| {
        let types: Vec<&str> = one["event_types"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let state = match (text(one, "state"), one["failing_time"].is_string()) {
            (state, true) if state == "enabled" => "failing".to_owned(),
            (state, _) => state,
        };
        [
            text(one, "id"),
            text(one, "url"),
            if types.is_empty() {
                "all".to_owned()
            } else {
                types.join(",")
            },
            state,
            text(one, "disable_reason"),
        ]
    });
    print_table(["ID", "URL", "EVENTS", "STATE", "REASON"], rows.collect());
}

fn deliveries(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "deliveries": found }));
        return;
    }
    if found.is_empty() {
        say!("No deliveries.");
        return;
    }
    let rows = found.iter().map(|one| {
        let status = match one["response_status"].as_u64() {
            None | Some(0) => "-".to_owned(),
            Some(status) => status.to_string(),
        };
        [
            text(one, "id"),
            text(one, "event_type"),
            text(one, "state"),
            one["attempts"].as_u64().unwrap_or_default().to_string(),
            status,
            time(
                text(one, "last_attempt_time")
                    .parse::<jiff::Timestamp>()
                    .ok(),
            ),
            text(one, "error"),
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

fn text(one: &Value, field: &str) -> String {
    one[field].as_str().unwrap_or_default().to_owned()
}
