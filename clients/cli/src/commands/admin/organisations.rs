//! `admin organisation`: the organisations of the platform.
use gpuaas_proto::call::{IdentityAdminListProjects, Unary};
use gpuaas_proto::gpuaas::identity::v1::{
    CloseOrganisationRequest, CreateOrganisationRequest, GetOrganisationRequest,
    ListAllOrganisationsRequest, ListProjectsRequest, Organisation, ResumeOrganisationRequest,
    SuspendOrganisationRequest, TenantState,
};
use gpuaas_proto::json::Enumeration as _;

use super::{Session, done};
use crate::commands::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::output::{print_json, print_table, time, word};
use crate::resolve::unique_or_near;

const LIST: &str = "gpuaas admin organisation list";
/// Words of states.
pub const STATES: [&str; 3] = ["active", "suspended", "closed"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the organisations of the platform.
    List {
        /// Only those in this state.
        #[arg(long, value_parser = STATES)]
        state: Option<String>,
        #[command(flatten)]
        selected: SelectedOf<ListAllOrganisationsRequest>,
    },
    /// Show an organisation and its projects.
    #[command(visible_alias = "show")]
    Describe {
        /// Slug, id, or unique prefix of the id.
        organisation: String,
    },
    /// Create an organisation.
    Create {
        /// Slug: lowercase letters, digits and hyphens.
        slug: String,
        /// Name for people [default: the slug].
        #[arg(long)]
        name: Option<String>,
        /// Principal who becomes its owner, for example user:alice [default: nobody yet].
        #[arg(long, value_name = "PRINCIPAL")]
        owner: Option<String>,
    },
    /// Suspend an organisation: nothing can be launched or started in its projects; running allocations continue.
    Suspend(Change),
    /// Resume a suspended organisation.
    Resume {
        /// Slug, id, or unique prefix of the id.
        organisation: String,
    },
    /// Close an organisation permanently. All of its projects must be closed.
    Close(Change),
}

#[derive(Debug, clap::Args)]
pub struct Change {
    /// Slug, id, or unique prefix of the id.
    organisation: String,
    /// Reason, which its members see.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { state, selected } => list(session, state, &selected).await,
        Command::Describe { organisation } => describe(session, &organisation).await,
        Command::Create { slug, name, owner } => {
            let request = CreateOrganisationRequest {
                slug: slug.clone(),
                display_name: name.unwrap_or_default(),
                owner: owner.unwrap_or_default(),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("Created {slug}."));
            Ok(())
        }
        Command::Suspend(flags) => {
            let request = SuspendOrganisationRequest {
                organisation_id: resolve(session, &flags.organisation).await?,
                reason: flags.reason,
                ..SuspendOrganisationRequest::default()
            };
            let sentence = format!("{} is suspended.", flags.organisation);
            change(session, request, &sentence).await
        }
        Command::Close(flags) => {
            let request = CloseOrganisationRequest {
                organisation_id: resolve(session, &flags.organisation).await?,
                reason: flags.reason,
                ..CloseOrganisationRequest::default()
            };
            let sentence = format!("{} is closed.", flags.organisation);
            change(session, request, &sentence).await
        }
        Command::Resume { organisation } => {
            let request = ResumeOrganisationRequest {
                organisation_id: resolve(session, &organisation).await?,
                ..ResumeOrganisationRequest::default()
            };
            let sentence = format!("{organisation} is active.");
            change(session, request, &sentence).await
        }
    }
}

async fn change(
    session: &Session,
    request: impl Unary<Response = Organisation>,
    sentence: &str,
) -> Result<(), Failure> {
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, sentence);
    Ok(())
}

/// All organisations of the platform.
///
/// # Errors
/// See [`Failure`].
pub async fn all(session: &Session) -> Result<Vec<Organisation>, Failure> {
    let request = ListAllOrganisationsRequest::default();
    let listed = session
        .api
        .call_all_pages(&request, "organisations")
        .await?;
    Ok(listed.message.organisations)
}

async fn list(
    session: &Session,
    state: Option<String>,
    selected: &Selected,
) -> Result<(), Failure> {
    let state = state.as_deref().and_then(TenantState::of_word);
    let request = ListAllOrganisationsRequest {
        state: state.unwrap_or_default().into(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListAllOrganisationsRequest::default()
    };
    let found = session
        .api
        .call_all_pages(&request, "organisations")
        .await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let found = found.message.organisations;
    if found.is_empty() {
        say!("No organisation matches.");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        let state = word(one.state());
        [
            one.slug,
            one.display_name,
            state,
            one.state_reason,
            time(one.create_time),
            one.id,
        ]
    });
    let head = ["ORGANISATION", "NAME", "STATE", "REASON", "CREATED", "ID"];
    print_table(head, rows.collect());
    Ok(())
}

async fn describe(session: &Session, given: &str) -> Result<(), Failure> {
    let id = resolve(session, given).await?;
    let request = GetOrganisationRequest {
        organisation_id: id.clone(),
    };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let one = answer.message;
    let request = IdentityAdminListProjects(ListProjectsRequest {
        organisation_id: id.clone(),
        ..ListProjectsRequest::default()
    });
    let all = session.api.call_all_pages(&request, "projects").await?;
    let all = all.message.projects.into_iter();
    let projects: Vec<String> = all
        .map(|project| match project.state() {
            TenantState::Unspecified | TenantState::Active => project.slug,
            state => format!("{} ({})", project.slug, word(state)),
        })
        .collect();
    let state = match one.state_reason.as_str() {
        "" => word(one.state()),
        reason => format!("{}: {reason}", word(one.state())),
    };
    let rows = [
        ("Organisation", one.slug),
        ("Name", one.display_name),
        ("State", state),
        ("Projects", projects.join(", ")),
        ("Created", time(one.create_time)),
        ("Changed", time(one.update_time)),
        ("Id", id),
    ];
    for (name, value) in rows {
        say!("{:<14}{value}", format!("{name}:"));
    }
    Ok(())
}

/// The id of an organisation by its slug, its id, or a unique prefix of the id.
///
/// # Errors
/// There is none, or several begin like that.
pub async fn resolve(session: &Session, given: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let found = all(session).await?;
    if let Some(one) = found.iter().find(|one| one.slug == given) {
        return Ok(one.id.clone());
    }
    let ids = found.iter().map(|one| one.id.as_str());
    let slugs = found.iter().map(|one| one.slug.as_str());
    unique_or_near("organisation", given, ids, slugs, LIST)
}
