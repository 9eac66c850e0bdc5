//! `api-key`: credentials of service accounts. A new key is printed once, alone on standard output.
use jiff::{SignedDuration, Timestamp};
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::launch::{parse_deadline, parse_length};
use super::service_accounts::{Account, Found};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};

/// What of its account's rights a key can have.
const SCOPES: [&str; 6] = ["read", "billing", "write", "terminal", "manage", "scim"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the API keys of a service account, with scopes, expiry and last use.
    List(Account),
    /// Create an API key. It is printed once, alone on standard output.
    Create {
        #[command(flatten)]
        account: Account,
        /// What it may do; repeatable.
        #[arg(long = "scope", required = true, value_parser = SCOPES)]
        scopes: Vec<String>,
        /// When it expires, such as 90d or 2027-01-31T12:00:00Z [default: never].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        expires: Option<Timestamp>,
        /// Name.
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Replace a key by a new one, which is printed once. The old one stays valid for an overlap.
    Rotate {
        #[command(flatten)]
        key: Key,
        /// How long the old key stays valid, such as 1h [default: 1d].
        #[arg(long, value_name = "TIME", value_parser = parse_length)]
        overlap: Option<SignedDuration>,
    },
    /// Refuse a key, and the tokens that it was exchanged for, for good.
    Disable(Key),
}

/// One key of an account.
#[derive(Debug, clap::Args)]
pub struct Key {
    #[command(flatten)]
    account: Account,
    /// Id, name or prefix of the key.
    key: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(account) => {
            let account = account.find(session).await?;
            let found = keys(session, &account).await?;
            list(session, &found, &account.slug);
            Ok(())
        }
        Command::Create {
            account,
            scopes,
            expires,
            name,
        } => {
            let Found { project, id, .. } = account.find(session).await?;
            let mut body = json!({ "display_name": name, "scopes": scopes });
            if let Some(expires) = expires {
                body["expire_time"] = json!(expires);
            }
            let path = ["projects", &project, "service-accounts", &id, "api-keys"];
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            made(session, &answer)
        }
        Command::Rotate { key, overlap } => {
            let mut body = json!({});
            if let Some(overlap) = overlap {
                body["overlap"] = format!("{}s", overlap.as_secs()).into();
            }
            let (answer, _) = change(session, key, "rotate", &body).await?;
            made(session, &answer)
        }
        Command::Disable(key) => {
            let (answer, name) = change(session, key, "disable", &json!({})).await?;
            super::done(session, &answer, &format!("{name} is disabled."));
            Ok(())
        }
    }
}

async fn keys(session: &Session, account: &Found) -> Result<Vec<Value>, Failure> {
    let Found { project, id, .. } = account;
    let path = ["projects", project, "service-accounts", id, "api-keys"];
    session.api.list(&path, &[], "api_keys").await
}

/// The answer, and what the key is called.
async fn change(
    session: &Session,
    key: Key,
    verb: &str,
    body: &Value,
) -> Result<(Value, String), Failure> {
    let account = key.account.find(session).await?;
    let given = key.key;
    let all = keys(session, &account).await?;
    let same = |one: &&Value| {
        ["id", "prefix", "display_name"]
            .iter()
            .any(|field| text(one, field) == given)
    };
    let found: Vec<&Value> = all.iter().filter(same).collect();
    let slug = &account.slug;
    let one = match found.as_slice() {
        [one] => *one,
        [] => {
            return Err(Failure::NotFound(format!(
                "{slug} has no key {given:?}; see: gpuaas api-key list {slug}"
            )));
        }
        _ => {
            return Err(Failure::Usage(format!(
                "{slug} has several keys {given:?}; use the id"
            )));
        }
    };
    let last = format!("{}:{verb}", text(one, "id"));
    let Found { project, id, .. } = &account;
    let path = [
        "projects",
        project,
        "service-accounts",
        id,
        "api-keys",
        &last,
    ];
    let answer = session
        .api
        .change(Method::POST, &path, body, &session.key)
        .await?;
    Ok((answer, given))
}

/// Prints a new key, alone, so that it can go into a file or a secret store.
fn made(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let key = text(answer, "key");
    if key.is_empty() {
        return Err(Failure::Usage(
            "this idempotency key was used before; its API key is not shown again".to_owned(),
        ));
    }
    note!("This key is shown once. Keep it where only the program can read it.");
    say!("{key}");
    Ok(())
}

fn list(session: &Session, found: &[Value], account: &str) {
    if session.json() {
        print_json(&json!({ "api_keys": found }));
        return;
    }
    if found.is_empty() {
        say!("No API keys yet. Create one: gpuaas api-key create {account} --scope read");
        return;
    }
    let when = |one: &Value, field: &str| text(one, field).parse::<Timestamp>().ok();
    let now = Timestamp::now();
    let rows = found.iter().map(|one| {
        let scopes: Vec<&str> = one["scopes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let expires = when(one, "expire_time");
        let state = if one["disable_time"].is_string() {
            "disabled"
        } else if expires.is_some_and(|at| at <= now) {
            "expired"
        } else {
            "active"
        };
        let or_never = |at: Option<Timestamp>| at.map_or("never".to_owned(), |at| time(Some(at)));
        [
            text(one, "prefix"),
            text(one, "display_name"),
            scopes.join(","),
            state.to_owned(),
            or_never(when(one, "last_used_time")),
            or_never(expires),
            text(one, "id"),
        ]
    });
    print_table(
        [
            "KEY",
            "NAME",
            "SCOPES",
            "STATE",
            "LAST USED",
            "EXPIRES",
            "ID",
        ],
        rows.collect(),
    );
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
