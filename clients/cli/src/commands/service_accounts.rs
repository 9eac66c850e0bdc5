//! `service-account`: programs of a project that call the API by keys.
use gpuaas_proto::gpuaas::identity::v1::{
    CreateServiceAccountRequest, DeleteServiceAccountRequest, DisableServiceAccountRequest,
    EnableServiceAccountRequest, ListServiceAccountsRequest, ListServiceAccountsResponse,
};

use super::members::{self, ROLES};
use super::select::{Selected, SelectedOf};
use super::whose::Of;
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::session::{Session, done};
use crate::suggest;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the service accounts of a project.
    List {
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        selected: SelectedOf<ListServiceAccountsRequest>,
    },
    /// Create a service account: a program that calls the API with its keys.
    Create {
        /// Slug: lowercase letters, digits and hyphens.
        slug: String,
        /// Role in the project.
        #[arg(long, default_value = "member", value_parser = ROLES)]
        role: String,
        /// Description.
        #[arg(long, default_value = "")]
        description: String,
        #[command(flatten)]
        of: Of,
    },
    /// Disable an account: all of its keys and tokens are refused until you enable it again.
    Disable(Account),
    /// Enable a disabled account. Keys that are disabled individually stay disabled.
    Enable(Account),
    /// Delete an account and its keys permanently. Its allocations continue.
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
    /// The flag by which its project was given; see [`Of::flag`].
    pub flag: String,
}

impl Account {
    /// Finds it.
    ///
    /// # Errors
    /// Its project has none of this name.
    pub async fn find(self, session: &Session) -> Result<Found, Failure> {
        let flag = self.of.flag();
        let project = self.of.id(session).await?;
        let all = accounts(session, &project, &Selected::default()).await?;
        let all = all.message.service_accounts;
        let given = self.account;
        let found = all.iter().find(|one| one.slug == given || one.id == given);
        let Some(found) = found else {
            let names = all.iter().map(|one| one.slug.as_str());
            let message = format!(
                "no service account is named {given:?}; see: gpuaas service-account list{flag}"
            );
            return Err(Failure::NotFound(suggest::with_nearest(
                message, &given, names,
            )));
        };
        Ok(Found {
            project,
            id: found.id.clone(),
            slug: found.slug.clone(),
            flag,
        })
    }
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { of, selected } => {
            let flag = of.flag();
            let found = accounts(session, &of.id(session).await?, &selected).await?;
            list(session, found, &flag, &selected);
        }
        Command::Create {
            slug,
            role,
            description,
            of,
        } => {
            let flag = of.flag();
            let sentence = format!(
                "Created {slug}. Create a key: gpuaas api-key create {slug} --scope read --scope write{flag}"
            );
            let request = CreateServiceAccountRequest {
                project_id: of.id(session).await?,
                slug,
                role: members::role(&role),
                description,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &sentence);
        }
        Command::Disable(account) => {
            let Found {
                project, id, slug, ..
            } = account.find(session).await?;
            let request = DisableServiceAccountRequest {
                project_id: project,
                service_account_id: id,
                ..DisableServiceAccountRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("{slug} is disabled."));
        }
        Command::Enable(account) => {
            let Found {
                project, id, slug, ..
            } = account.find(session).await?;
            let request = EnableServiceAccountRequest {
                project_id: project,
                service_account_id: id,
                ..EnableServiceAccountRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("{slug} is enabled."));
        }
        Command::Delete(account) => {
            let Found {
                project, id, slug, ..
            } = account.find(session).await?;
            let request = DeleteServiceAccountRequest {
                project_id: project,
                service_account_id: id,
                ..DeleteServiceAccountRequest::default()
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("Deleted {slug}."));
        }
    }
    Ok(())
}

async fn accounts(
    session: &Session,
    project: &str,
    selected: &Selected,
) -> Result<Answer<ListServiceAccountsResponse>, Failure> {
    let request = ListServiceAccountsRequest {
        project_id: project.to_owned(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListServiceAccountsRequest::default()
    };
    let listed = session.api.call_all_pages(&request, "service_accounts");
    listed.await
}

fn list(
    session: &Session,
    listed: Answer<ListServiceAccountsResponse>,
    flag: &str,
    selected: &Selected,
) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let found = listed.message.service_accounts;
    if found.is_empty() && selected.narrows() {
        say!("No service account matches the filter.");
        return;
    }
    if found.is_empty() {
        say!("No service accounts yet. Create one: gpuaas service-account create SLUG{flag}");
        return;
    }
    let rows = found.into_iter().map(|one| {
        let role = word(one.role());
        let state = match one.disable_time {
            Some(_) => "disabled",
            None => "enabled",
        };
        [
            one.slug,
            role,
            state.to_owned(),
            one.description,
            one.principal,
            time(one.create_time),
            one.id,
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
