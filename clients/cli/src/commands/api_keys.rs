//! `api-key`: credentials of service accounts. A new key is printed once, alone on standard output.
use gpuaas_proto::gpuaas::identity::v1::{
    ApiKey, ApiKeyScope, CreateApiKeyRequest, DisableApiKeyRequest, ListApiKeysRequest,
    ListApiKeysResponse, RotateApiKeyRequest,
};
use gpuaas_proto::json::Enumeration as _;
use jiff::{SignedDuration, Timestamp};

use super::launch::{parse_deadline, parse_length};
use super::select::{Selected, SelectedOf};
use super::service_accounts::{Account, Found};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{Moment, print_json, print_table, span_of, stamp, time, word};
use crate::session::{Session, each, shown_once};
use crate::suggest;

/// What of its account's rights a key can have.
const SCOPES: [&str; 6] = ["read", "billing", "write", "terminal", "manage", "scim"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the API keys of a service account, with scopes, expiry and last use.
    List {
        #[command(flatten)]
        account: Account,
        #[command(flatten)]
        selected: SelectedOf<ListApiKeysRequest>,
    },
    /// Create an API key. The key is printed only once, alone on standard output, also with --quiet.
    Create {
        #[command(flatten)]
        account: Account,
        /// Scope of the key; repeatable.
        #[arg(long = "scope", required = true, value_parser = SCOPES)]
        scopes: Vec<String>,
        /// Expiry, such as 90d or 2027-01-31T12:00:00Z [default: never].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        expires: Option<Timestamp>,
        /// Name.
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Replace a key by a new one, which is printed only once, also with --quiet. The old key stays valid for the overlap.
    Rotate {
        #[command(flatten)]
        key: Key,
        /// How long the old key stays valid, such as 1h [default: 1d].
        #[arg(long, value_name = "TIME", value_parser = parse_length)]
        overlap: Option<SignedDuration>,
        /// Expiry of the new key, such as 90d or 2027-01-31T12:00:00Z [default: the same lifetime as the old key].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        expires: Option<Timestamp>,
    },
    /// Disable keys permanently, with their tokens.
    Disable {
        #[command(flatten)]
        account: Account,
        /// Ids, names or prefixes of the keys.
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
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
        Command::List { account, selected } => {
            let account = account.find(session).await?;
            let found = keys(session, &account, &selected).await?;
            list(session, found, &account, &selected);
            Ok(())
        }
        Command::Create {
            account,
            scopes,
            expires,
            name,
        } => {
            let account = account.find(session).await?;
            let scope = |word: &String| ApiKeyScope::of_word(word).unwrap_or_default().into();
            let request = CreateApiKeyRequest {
                project_id: account.project.clone(),
                service_account_id: account.id.clone(),
                display_name: name,
                scopes: scopes.iter().map(scope).collect(),
                expire_time: expires.map(stamp),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            made(session, &answer, &account)
        }
        Command::Rotate {
            key,
            overlap,
            expires,
        } => {
            let account = key.account.find(session).await?;
            let all = keys(session, &account, &Selected::default()).await?;
            let found = find(&all.message.api_keys, &account, &key.key)?;
            let request = RotateApiKeyRequest {
                project_id: account.project.clone(),
                service_account_id: account.id.clone(),
                api_key_id: found.id,
                overlap: overlap.map(span_of),
                expire_time: expires.map(stamp),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            made(session, &answer, &account)
        }
        Command::Disable {
            account,
            keys: given,
        } => {
            let account = account.find(session).await?;
            let all = keys(session, &account, &Selected::default()).await?;
            // nothing is disabled where one of them is misspelled
            let mut found = Vec::new();
            for key in given {
                found.push((find(&all.message.api_keys, &account, &key)?, key));
            }
            each(session, "api_keys", found, async |found, name, key| {
                let request = DisableApiKeyRequest {
                    project_id: account.project.clone(),
                    service_account_id: account.id.clone(),
                    api_key_id: found.id,
                };
                let answer = session.api.apply(&request, key).await?;
                Ok((answer.json, format!("{name} is disabled.")))
            })
            .await
        }
    }
}

async fn keys(
    session: &Session,
    account: &Found,
    selected: &Selected,
) -> Result<Answer<ListApiKeysResponse>, Failure> {
    let request = ListApiKeysRequest {
        project_id: account.project.clone(),
        service_account_id: account.id.clone(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListApiKeysRequest::default()
    };
    session.api.call_all_pages(&request, "api_keys").await
}

/// The key of an account by its id, name or prefix.
fn find(all: &[ApiKey], account: &Found, given: &str) -> Result<ApiKey, Failure> {
    let same = |one: &ApiKey| {
        [&one.id, &one.prefix, &one.display_name]
            .iter()
            .any(|name| *name == given)
    };
    let mut found: Vec<ApiKey> = all.iter().filter(|one| same(one)).cloned().collect();
    let Found { slug, flag, .. } = account;
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => {
            let names = all.iter().flat_map(|one| [&one.display_name, &one.prefix]);
            let message =
                format!("{slug} has no key {given:?}; see: gpuaas api-key list {slug}{flag}");
            let names = names.map(String::as_str);
            Err(Failure::NotFound(suggest::with_nearest(
                message, given, names,
            )))
        }
        (Some(_), false) => Err(Failure::Usage(format!(
            "{slug} has several keys {given:?}; use the id"
        ))),
    }
}

/// Prints a new key, alone, so that it can go into a file or a secret store.
fn made(session: &Session, answer: &Answer<ApiKey>, account: &Found) -> Result<(), Failure> {
    let ApiKey { id, key, .. } = &answer.message;
    shown_once(key, &format!("API key {id}"), || {
        let Found { slug, flag, .. } = account;
        format!("gpuaas api-key rotate {slug} {id}{flag}")
    })?;
    if session.whole() {
        print_json(&answer.json);
        return Ok(());
    }
    note!("This key is shown once. Keep it where only the program can read it.");
    say!("{key}");
    Ok(())
}

/// Whether a key is good, or why it is not.
pub fn state(key: &ApiKey) -> &'static str {
    let expires = key.expire_time.moment();
    if key.disable_time.is_some() {
        "disabled"
    } else if expires.is_some_and(|at| at <= Timestamp::now()) {
        "expired"
    } else {
        "active"
    }
}

fn list(
    session: &Session,
    listed: Answer<ListApiKeysResponse>,
    account: &Found,
    selected: &Selected,
) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let found = listed.message.api_keys;
    if found.is_empty() && selected.narrows() {
        say!("No API key matches the filter.");
        return;
    }
    if found.is_empty() {
        let Found { slug, flag, .. } = account;
        say!("No API keys yet. Create one: gpuaas api-key create {slug} --scope read{flag}");
        return;
    }
    let or_never = |at: Option<prost_types::Timestamp>| match at {
        None => "never".to_owned(),
        at => time(at),
    };
    let rows = found.into_iter().map(|one| {
        let scopes: Vec<String> = one.scopes().map(word).collect();
        let state = state(&one);
        [
            one.prefix,
            one.display_name,
            scopes.join(","),
            state.to_owned(),
            or_never(one.last_used_time),
            or_never(one.expire_time),
            one.id,
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
