//! `admin agent-rollout`: brings the agents of the fleet to a version, wave by wave.
use std::path::PathBuf;

use gpuaas_proto::call::Unary;
use gpuaas_proto::gpuaas::inventory::v1::{
    AbortAgentRolloutRequest, AgentRollout, CreateAgentRolloutRequest, GetAgentRolloutRequest,
    ListAgentRolloutsRequest, ListAgentRolloutsResponse, PauseAgentRolloutRequest,
    ResumeAgentRolloutRequest, RollbackAgentRolloutRequest,
};

use super::Session;
use crate::api::Answer;
use crate::commands::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_line, print_table, time, word};
use crate::resolve::unique;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Start a rollout: one node first, then the rest of its rack, then all others.
    Create(Create),
    /// List rollouts, newest first.
    List(SelectedOf<ListAgentRolloutsRequest>),
    /// Show a rollout with the state of every node.
    Show {
        /// Id or unique prefix of it.
        rollout: String,
    },
    /// Pause a rollout: no further node is updated. Updates already running finish.
    Pause(Change),
    /// Continue a paused rollout. Earlier failures no longer count against its limit; skipped nodes stay on their old version
    /// unless --retry-failed is given.
    Resume {
        #[command(flatten)]
        change: Change,
        /// Try failed and skipped nodes again.
        #[arg(long)]
        retry_failed: bool,
    },
    /// End a rollout. Nodes that have the version keep it.
    Abort(Change),
    /// Return every node that a rollout changed to its previous version.
    Rollback(Change),
}

#[derive(Debug, clap::Args)]
pub struct Create {
    /// Version of the package, as printed by gpuaas-node-agent --version.
    #[arg(long)]
    version: String,
    /// Digest of the package, "sha256:…".
    #[arg(long, requires = "size", required_unless_present = "package")]
    digest: Option<String>,
    /// Size of the package in bytes.
    #[arg(long, value_name = "BYTES", requires = "digest")]
    size: Option<u64>,
    /// File of the package, to compute digest and size; the file is not uploaded.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["digest", "size"])]
    package: Option<PathBuf>,
    /// Only this node; can be repeated [default: every enrolled node in service].
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    /// The one node of the first wave [default: the first by hostname].
    #[arg(long, value_name = "NODE")]
    first: Option<String>,
    /// Pause when more than COUNT nodes have failed (0: at the first failure).
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    max_failures: u32,
    /// Maximum number of nodes updated at the same time.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    max_parallel: u32,
    /// Maximum seconds from the start of an update until the node is ready.
    #[arg(long, default_value_t = 900, value_name = "SECONDS")]
    node_timeout: u32,
    /// Reason.
    #[arg(long, default_value = "")]
    reason: String,
}

#[derive(Debug, clap::Args)]
pub struct Change {
    /// Id or unique prefix of it.
    rollout: String,
    /// Reason.
    #[arg(long, default_value = "")]
    reason: String,
    /// Etag of the rollout that was read [default: not checked].
    #[arg(long, default_value = "")]
    etag: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(flags) => create(session, flags).await,
        Command::List(selected) => list(session, &selected).await,
        Command::Show { rollout } => {
            let rollout_id = resolve(session, &rollout).await?;
            let request = GetAgentRolloutRequest { rollout_id };
            print(session, session.api.call(&request).await?);
            Ok(())
        }
        Command::Pause(flags) => {
            let rollout_id = resolve(session, &flags.rollout).await?;
            let Change { reason, etag, .. } = flags;
            let request = PauseAgentRolloutRequest {
                rollout_id,
                etag,
                reason,
            };
            change(session, request).await
        }
        Command::Resume {
            change: flags,
            retry_failed,
        } => {
            let rollout_id = resolve(session, &flags.rollout).await?;
            let Change { reason, etag, .. } = flags;
            let request = ResumeAgentRolloutRequest {
                rollout_id,
                etag,
                reason,
                retry_failed,
            };
            change(session, request).await
        }
        Command::Abort(flags) => {
            let rollout_id = resolve(session, &flags.rollout).await?;
            let Change { reason, etag, .. } = flags;
            let request = AbortAgentRolloutRequest {
                rollout_id,
                etag,
                reason,
            };
            change(session, request).await
        }
        Command::Rollback(flags) => {
            let rollout_id = resolve(session, &flags.rollout).await?;
            let Change { reason, etag, .. } = flags;
            let request = RollbackAgentRolloutRequest {
                rollout_id,
                etag,
                reason,
            };
            change(session, request).await
        }
    }
}

async fn create(session: &Session, flags: Create) -> Result<(), Failure> {
    let (digest, size) = match (&flags.package, flags.digest, flags.size) {
        (Some(file), ..) => measure(file)?,
        (None, Some(digest), Some(size)) => (digest, size),
        _ => {
            return Err(Failure::Usage(
                "name the package, or digest and size".into(),
            ));
        }
    };
    let mut node_ids = Vec::new();
    for given in &flags.nodes {
        node_ids.push(node::resolve(&session.api, given).await?);
    }
    let first = match &flags.first {
        Some(given) => node::resolve(&session.api, given).await?,
        None => String::new(),
    };
    let request = CreateAgentRolloutRequest {
        version: flags.version,
        digest,
        size_bytes: i64::try_from(size).unwrap_or(i64::MAX),
        node_ids,
        first_node_id: first,
        max_failures: flags.max_failures,
        max_parallel: flags.max_parallel,
        node_timeout_seconds: flags.node_timeout,
        reason: flags.reason,
    };
    change(session, request).await
}

/// Digest and size of a package.
fn measure(file: &std::path::Path) -> Result<(String, u64), Failure> {
    use sha2::Digest as _;
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
    let digest = format!("sha256:{}", hex::encode(sha2::Sha256::digest(&bytes)));
    Ok((digest, bytes.len() as u64))
}

async fn change(
    session: &Session,
    request: impl Unary<Response = AgentRollout>,
) -> Result<(), Failure> {
    print(session, session.api.apply(&request, &session.key).await?);
    Ok(())
}

async fn all(
    session: &Session,
    selected: &Selected,
) -> Result<Answer<ListAgentRolloutsResponse>, Failure> {
    let request = ListAgentRolloutsRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListAgentRolloutsRequest::default()
    };
    session.api.call_all_pages(&request, "rollouts").await
}

async fn list(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let found = all(session, selected).await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let rows = found.message.rollouts;
    if rows.is_empty() && selected.narrows() {
        say!("No rollout matches the filter.");
        return Ok(());
    }
    if rows.is_empty() {
        say!(
            "No rollouts. Create one: gpuaas admin agent-rollout create --version VERSION --package FILE"
        );
        return Ok(());
    }
    let rows = rows.into_iter().map(|one| {
        [
            one.id.clone(),
            target(&one),
            word(one.state()),
            one.current_wave.to_string(),
            done(&one),
            one.failed_nodes.to_string(),
            time(one.create_time),
        ]
    });
    let titles = [
        "ID", "VERSION", "STATE", "WAVE", "UPDATED", "FAILED", "CREATED",
    ];
    print_table(titles, rows.collect());
    Ok(())
}

/// The id of a rollout by a unique prefix of it.
async fn resolve(session: &Session, given: &str) -> Result<String, Failure> {
    if uuid::Uuid::parse_str(given).is_ok() {
        return Ok(given.to_owned());
    }
    let all = all(session, &Selected::default()).await?;
    let all = all.message.rollouts;
    unique(
        "rollout",
        given,
        all.iter().map(|one| one.id.as_str()),
        "gpuaas admin agent-rollout list",
    )
}

fn target(rollout: &AgentRollout) -> String {
    match rollout.version.as_str() {
        "" => "version before".to_owned(),
        version => version.to_owned(),
    }
}

fn done(rollout: &AgentRollout) -> String {
    format!("{} of {}", rollout.succeeded_nodes, rollout.total_nodes)
}

fn print(session: &Session, answer: Answer<AgentRollout>) {
    if session.json() {
        print_json(&answer.json);
        return;
    }
    let rollout = answer.message;
    print_line("Rollout", &rollout.id);
    print_line("Version", &target(&rollout));
    print_line("Digest", &rollout.digest);
    print_line("Rollback of", &rollout.rollback_of);
    print_line("State", &word(rollout.state()));
    print_line("Why", &rollout.state_reason);
    print_line("Updated", &done(&rollout));
    print_line("Failed", &rollout.failed_nodes.to_string());
    print_line("Started by", &rollout.principal);
    print_line("Reason", &rollout.reason);
    print_line("Started", &time(rollout.create_time));
    print_line("Ended", &time(rollout.end_time));
    let rows = rollout.waves.into_iter().flat_map(|wave| {
        wave.nodes.into_iter().map(move |node| {
            let state = word(node.state());
            [
                wave.number.to_string(),
                node.hostname,
                node.rack,
                state,
                node.from_version,
                node.agent_version,
                node.reason,
            ]
        })
    });
    let titles = [
        "WAVE",
        "NODE",
        "RACK",
        "STATE",
        "FROM",
        "AGENT NOW",
        "REASON",
    ];
    print_table(titles, rows.collect());
}
