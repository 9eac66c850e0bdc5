//! `service-account`: programs of a project that call the API by keys.
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::members::{Of, ROLES};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};
use crate::suggest;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the service accounts of a project.
    List(Of),
    /// Create a service account. It calls by its API keys.
    Create {
        /// Slug: lower-case letters, digits and hyphens.
        slug: String,
        /// Role in the project.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        /// What it is for.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        of: Of,
    },
    /// Refuse all keys and tokens of an account until it is enabled again.
    Disable(Account),
    /// Accept the keys of a disabled account again, except those that are disabled themselves.
    Enable(Account),
    /// Delete an account and its keys for good. What it launched stays.
    Delete(Account),
}

/// One service account.
#[derive(Debug, clap::Args)]
pub struct Account {
    /// Slug or id.
    account: String,
    #[command(flatten)]
    of: Of,
}

/// A service account that the API knows.
pub struct Found {
    /// Id of its project.
    pub project: String,
    /// Its own.
    pub id: String,
    /// Its name.
    pub slug: String,
}

impl Account {
    /// Finds it.
    ///
    /// # Errors
    /// Its project has none of this name.
    pub async fn find(self, session: &Session) -> Result<Found, Failure> {
        let project = self.of.id(session).await?;
        let all = accounts(session, &project).await?;
        let given = self.account;
        let found = all
            .iter()
            .find(|one| one["slug"] == *given || one["id"] == *given);
        let Some(found) = found else {
            let names = all.iter().filter_map(|one| one["slug"].as_str());
            let message =
                format!("no service account is named {given:?}; see: gpuaas service-account list");
            return Err(Failure::NotFound(suggest::with_nearest(
                message, &given, names,
            )));
        };
        Ok(Found {
            project,
            id: text(found, "id"),
            slug: text(found, "slug"),
        })
    }
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(of) => {
            let found = accounts(session, &of.id(session).await?).await?;
            list(session, &found);
        }
        Command::Create {
            slug,
            role,
            description,
            of,
        } => {
            let project = of.id(session).await?;
            let body = json!({ "slug": slug, "role": role, "description": description });
            let path = ["projects", &project, "service-accounts"];
            let answer = session
                .api
                .change(Method::POST, &path, &body, &session.key)
                .await?;
            let sentence = format!(
                "Created {slug}. Create a key: gpuaas api-key create {slug} --scope read --scope write"
            );
            super::done(session, &answer, &sentence);
        }
        Command::Disable(account) => switch(session, account, "disable", "is disabled").await?,
        Command::Enable(account) => switch(session, account, "enable", "is enabled").await?,
        Command::Delete(account) => {
            let Found { project, id, slug } = account.find(session).await?;
            let path = ["projects", &project, "service-accounts", &id];
            let answer = session.api.delete(&path, &[], &session.key).await?;
            super::done(session, &answer, &format!("Deleted {slug}."));
        }
    }
    Ok(())
}

async fn accounts(session: &Session, project: &str) -> Result<Vec<Value>, Failure> {
    let path = ["projects", project, "service-accounts"];
    session.api.list(&path, &[], "service_accounts").await
}

async fn switch(
    session: &Session,
    account: Account,
    verb: &str,
    done: &str,
) -> Result<(), Failure> {
    let Found { project, id, slug } = account.find(session).await?;
    let last = format!("{id}:{verb}");
    let path = ["projects", &project, "service-accounts", &last];
    let answer = session
        .api
        .change(Method::POST, &path, &json!({}), &session.key)
        .await?;
    super::done(session, &answer, &format!("{slug} {done}."));
    Ok(())
}

fn list(session: &Session, found: &[Value]) {
    if session.json() {
        print_json(&json!({ "service_accounts": found }));
        return;
    }
    if found.is_empty() {
        say!("No service accounts yet. Create one: gpuaas service-account create SLUG");
        return;
    }
    let rows = found.iter().map(|one| {
        let disabled = one["disable_time"].is_string();
        [
            text(one, "slug"),
            text(one, "role"),
            if disabled { "disabled" } else { "enabled" }.to_owned(),
            text(one, "description"),
            text(one, "principal"),
            time(text(one, "create_time").parse::<jiff::Timestamp>().ok()),
            text(one, "id"),
        ]
    });
    print_table(
        [
            "ACCOUNT",
            "ROLE",
            "STATE",
            "DESCRIPTION",
            "PRINCIPAL",
            "CREATED",
            "ID",
        ],
        rows.collect(),
    );
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}
