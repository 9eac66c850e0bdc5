//! `project`: the projects of the caller, and their state.
use gpuaas_proto::call::{ProjectListProjects, Unary};
use gpuaas_proto::gpuaas::identity::v1::{
    CloseProjectRequest, CreateProjectRequest, GetProjectRequest, ListOrganisationsRequest,
    ListProjectsRequest, Project, ResumeProjectRequest, SuspendProjectRequest,
    UpdateProjectRequest,
};

use super::select::{Selected, SelectedOf};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_line, print_table, time, word};
use crate::project;
use crate::session::{Session, done};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List your projects, with your role in each.
    List(SelectedOf<ListProjectsRequest>),
    /// Show a project.
    Show {
        /// Name or id.
        project: String,
    },
    /// Create a project in an organisation that you own.
    Create {
        /// Slug: lowercase letters, digits and hyphens.
        slug: String,
        /// Organisation: its slug or id.
        #[arg(long)]
        organisation: String,
        /// Display name [default: the slug].
        #[arg(long, default_value = "")]
        name: String,
    },
    /// Change the display name of a project.
    Rename {
        /// Name or id.
        project: String,
        /// New display name.
        name: String,
    },
    /// Suspend a project: nothing can be launched or started; running allocations continue.
    Suspend(StateFlags),
    /// Resume a suspended project.
    Resume {
        /// Name or id.
        project: String,
    },
    /// Close a project permanently, once nothing runs in it. Export its usage before: afterwards only administrators of the
    /// platform can read it.
    Close(StateFlags),
}

#[derive(Debug, clap::Args)]
pub struct StateFlags {
    /// Name or id.
    project: String,
    /// Reason, shown to its members.
    #[arg(long, default_value = "")]
    reason: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List(selected) => list(session, &selected).await,
        Command::Show { project } => {
            let request = GetProjectRequest {
                project_id: project::id(&session.api, &project).await?,
            };
            show(session, &session.api.call(&request).await?);
            Ok(())
        }
        Command::Create {
            slug,
            organisation,
            name,
        } => {
            let sentence =
                format!("Created {slug}. Add members: gpuaas member invite EMAIL --project {slug}");
            let request = CreateProjectRequest {
                organisation_id: organisation_id(session, &organisation).await?,
                slug,
                display_name: name,
            };
            change(session, request, &sentence).await
        }
        Command::Rename { project, name } => {
            let sentence = format!("{project} is now called {name}.");
            let request = UpdateProjectRequest {
                project_id: project::id(&session.api, &project).await?,
                display_name: name,
                ..UpdateProjectRequest::default()
            };
            change(session, request, &sentence).await
        }
        Command::Suspend(StateFlags { project, reason }) => {
            let request = SuspendProjectRequest {
                project_id: project::id(&session.api, &project).await?,
                reason,
                ..SuspendProjectRequest::default()
            };
            change(session, request, &format!("{project} is suspended.")).await
        }
        Command::Close(StateFlags { project, reason }) => {
            let request = CloseProjectRequest {
                project_id: project::id(&session.api, &project).await?,
                reason,
                ..CloseProjectRequest::default()
            };
            change(session, request, &format!("{project} is closed.")).await
        }
        Command::Resume { project } => {
            let request = ResumeProjectRequest {
                project_id: project::id(&session.api, &project).await?,
                ..ResumeProjectRequest::default()
            };
            change(session, request, &format!("{project} is active.")).await
        }
    }
}

async fn change(
    session: &Session,
    request: impl Unary<Response = Project>,
    sentence: &str,
) -> Result<(), Failure> {
    let answer = session.api.apply(&request, &session.key).await?;
    done(session, &answer.json, sentence);
    Ok(())
}

/// The id of an organisation of the caller by its slug; what is none of them is for the API to refuse.
async fn organisation_id(session: &Session, given: &str) -> Result<String, Failure> {
    let request = ListOrganisationsRequest::default();
    let found = session
        .api
        .call_all_pages(&request, "organisations")
        .await?;
    let mut found = found.message.organisations.into_iter();
    let named = found.find(|one| one.slug == given);
    Ok(named.map_or_else(|| given.to_owned(), |one| one.id))
}

async fn list(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let request = ProjectListProjects(ListProjectsRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListProjectsRequest::default()
    });
    let found = session.api.call_all_pages(&request, "projects").await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let found = found.message.projects;
    if found.is_empty() && selected.narrows() {
        say!("No project matches the filter.");
        return Ok(());
    }
    if found.is_empty() {
        say!("You belong to no project. Ask an owner of one for an invitation.");
        return Ok(());
    }
    let rows = found.into_iter().map(|one| {
        let (role, state) = (word(one.role()), word(one.state()));
        [
            one.slug,
            one.organisation,
            role,
            state,
            one.state_reason,
            one.display_name,
            one.id,
        ]
    });
    print_table(
        [
            "PROJECT",
            "ORGANISATION",
            "ROLE",
            "STATE",
            "REASON",
            "NAME",
            "ID",
        ],
        rows.collect(),
    );
    Ok(())
}

fn show(session: &Session, answer: &Answer<Project>) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let project = &answer.message;
    print_line("Project", &project.slug);
    print_line("Name", &project.display_name);
    print_line("Organisation", &project.organisation);
    print_line("State", &word(project.state()));
    print_line("Reason", &project.state_reason);
    print_line("Your role", &word(project.role()));
    print_line("Created", &time(project.create_time));
    print_line("ID", &project.id);
}
