//! `grant`: members of a project who have a grant for one allocation, whatever their role.
use gpuaas_proto::gpuaas::identity::v1::{
    AllocationPermission, CreateAllocationGrantRequest, DeleteAllocationGrantRequest,
    ListAllocationGrantsRequest, ListAllocationGrantsResponse,
};
use gpuaas_proto::json::Enumeration as _;
use jiff::Timestamp;

use super::Session;
use super::launch::parse_deadline;
use super::select::{Selected, SelectedOf};
use super::whose::Of;
use crate::allocation::{Among, resolve};
use crate::api::Answer;
use crate::failure::Failure;
use crate::output::{print_json, print_table, stamp, time, word};

/// What a grant is for, as people write it.
const PERMISSIONS: [&str; 2] = ["terminal", "serial-log"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List the grants of a project.
    List {
        /// Only grants for this allocation.
        #[arg(long, value_name = "ALLOCATION")]
        allocation: Option<String>,
        #[command(flatten)]
        of: Of,
        #[command(flatten)]
        selected: SelectedOf<ListAllocationGrantsRequest>,
    },
    /// Grant a member of the project access to one allocation.
    #[command(visible_alias = "create")]
    Add {
        /// Id, unique prefix of it, or name.
        allocation: String,
        /// Principal, for example user:bob.
        principal: String,
        /// Permission.
        #[arg(long, default_value = "terminal", value_parser = PERMISSIONS)]
        permission: String,
        /// End the grant after a duration, or at a time: 8h, 3d, 2027-01-31T12:00:00Z [default: 7d].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        until: Option<Timestamp>,
        #[command(flatten)]
        of: Of,
    },
    /// Delete a grant. Terminals and serial logs opened with the grant end.
    Delete {
        /// Id of the grant.
        grant: String,
        #[command(flatten)]
        of: Of,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let api = &session.api;
    match command {
        Command::List {
            allocation,
            of,
            selected,
        } => {
            let mut request = ListAllocationGrantsRequest {
                project_id: of.id(session).await?,
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListAllocationGrantsRequest::default()
            };
            if let Some(given) = allocation {
                let among = Among::Project(Some(&request.project_id));
                request.allocation_id = resolve(api, among, &given).await?;
            }
            let found = api.call_all_pages(&request, "grants").await?;
            print(session, found, &selected);
        }
        Command::Add {
            allocation,
            principal,
            permission,
            until,
            of,
        } => {
            let project = of.id(session).await?;
            let id = resolve(api, Among::Project(Some(&project)), &allocation).await?;
            let wanted = AllocationPermission::of_word(&permission.replace('-', "_"));
            let request = CreateAllocationGrantRequest {
                project_id: project,
                allocation_id: id,
                principal: principal.clone(),
                permission: wanted.unwrap_or_default().into(),
                expire_time: until.map(stamp),
            };
            let answer = api.apply(&request, &session.key).await?;
            let end = time(answer.message.expire_time);
            let sentence =
                format!("{principal} has the {permission} of {allocation}, until {end}.");
            super::done(session, &answer.json, &sentence);
        }
        Command::Delete { grant, of } => {
            let request = DeleteAllocationGrantRequest {
                project_id: of.id(session).await?,
                grant_id: grant.clone(),
            };
            let answer = api.apply(&request, &session.key).await?;
            super::done(session, &answer.json, &format!("Deleted {grant}."));
        }
    }
    Ok(())
}

fn print(session: &Session, listed: Answer<ListAllocationGrantsResponse>, selected: &Selected) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let found = listed.message.grants;
    if found.is_empty() && selected.narrows() {
        say!("No grant matches the filter.");
        return;
    }
    if found.is_empty() {
        say!("No grants. Grant access to one allocation: gpuaas grant add ALLOCATION PRINCIPAL");
        return;
    }
    let rows = found.into_iter().map(|one| {
        let permission = word(one.permission()).replace('_', "-");
        [
            one.allocation_id,
            one.principal,
            permission,
            time(one.expire_time),
            one.creator,
            one.id,
        ]
    });
    let head = [
        "ALLOCATION",
        "PRINCIPAL",
        "PERMISSION",
        "UNTIL",
        "GRANTED BY",
        "ID",
    ];
    print_table(head, rows.collect());
}
