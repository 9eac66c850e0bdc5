//! Quotas of a project: GPUs of each SKU, and allocations over all SKUs.
use gpuaas_proto::gpuaas::scheduler::v1::{
    GetProjectQuotasRequest, PutProjectAllocationLimitRequest, PutProjectQuotaRequest,
};
use serde_json::json;

use crate::commands::quotas;
use crate::commands::select::Read;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;
use crate::project::PROJECT_HELP;
use crate::session::{Session, done};

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the quotas of all projects and their use.
    List,
    /// Show the quotas of a project and their use.
    Show {
        #[arg(help = PROJECT_HELP)]
        project: String,
    },
    /// Set the GPU quota of a project for a SKU.
    Set {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// The SKU.
        sku: String,
        /// Maximum GPUs; 0 allows none.
        #[arg(long, value_name = "COUNT")]
        max_gpus: u32,
        #[command(flatten)]
        read: Read,
    },
    /// Set the allocation quota of a project, over all SKUs.
    SetAllocations {
        #[arg(help = PROJECT_HELP)]
        project: String,
        /// Maximum allocations; 0 allows none.
        #[arg(long, value_name = "COUNT")]
        max: u32,
        #[command(flatten)]
        read: Read,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List => list(session).await,
        Command::Show { project } => {
            let request = GetProjectQuotasRequest {
                project_id: project::id(&session.api, &project).await?,
            };
            quotas::show(session, session.api.call(&request).await?);
            Ok(())
        }
        Command::Set {
            project,
            sku,
            max_gpus,
            read,
        } => {
            let request = PutProjectQuotaRequest {
                project_id: project::id(&session.api, &project).await?,
                sku: sku.clone(),
                max_gpus,
                etag: read.etag,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let used = answer.message.used_gpus;
            let sentence = format!(
                "The quota of project {project} is {max_gpus} GPUs of {sku}; {used} in use."
            );
            done(session, &answer.json, &sentence);
            Ok(())
        }
        Command::SetAllocations { project, max, read } => {
            let request = PutProjectAllocationLimitRequest {
                project_id: project::id(&session.api, &project).await?,
                max_allocations: max,
                etag: read.etag,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            let used = answer.message.used_allocations;
            let sentence =
                format!("The quota of project {project} is {max} allocations; {used} in use.");
            done(session, &answer.json, &sentence);
            Ok(())
        }
    }
}

/// Most projects of one list; each is a request.
const MOST_PROJECTS: usize = 200;

async fn list(session: &Session) -> Result<(), Failure> {
    let (projects, sent) = project::listed(&session.api).await?;
    let mut found = Vec::new();
    for (project, sent) in projects.iter().zip(sent).take(MOST_PROJECTS) {
        let request = GetProjectQuotasRequest {
            project_id: project.id.clone(),
        };
        let mut quotas = session.api.call(&request).await?;
        quotas.json["project"] = sent;
        found.push((project, quotas));
    }
    if projects.len() > MOST_PROJECTS {
        note!(
            "Only the first {MOST_PROJECTS} of {} projects are listed. One of the others: gpuaas admin quota show PROJECT",
            projects.len()
        );
    }
    if session.json() {
        let found: Vec<_> = found.into_iter().map(|(_, quotas)| quotas.json).collect();
        print_json(&json!({ "quotas": found }));
        return Ok(());
    }
    let mut rows = Vec::new();
    for (project, quotas) in &found {
        let mut row = |resource: String, limit: u32, used: u32| {
            rows.push([
                project.slug.clone(),
                resource,
                limit.to_string(),
                used.to_string(),
                limit.saturating_sub(used).to_string(),
            ]);
        };
        let quotas = &quotas.message;
        let (limit, used) = (quotas.max_allocations, quotas.used_allocations);
        row("allocations".to_owned(), limit, used);
        for quota in &quotas.quotas {
            let resource = format!("GPUs of {}", quota.sku);
            row(resource, quota.max_gpus, quota.used_gpus);
        }
    }
    print_table(["PROJECT", "RESOURCE", "LIMIT", "USED", "AVAILABLE"], rows);
    Ok(())
}
