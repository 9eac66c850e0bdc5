//! `admin agent-rollout`: brings the agents of the fleet to a version, wave by wave.
use std::path::PathBuf;

use jiff::Timestamp;
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Session;
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_line, print_table, time};
use crate::resolve::unique;

const PATH: [&str; 2] = ["admin", "agent-rollouts"];

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Start a rollout: one node first, then the rest of its rack, then all others.
    Create(Create),
    /// List rollouts, newest first.
    List,
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
    /// Bring every node that a rollout has changed back to the version before.
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
    /// The package, to take digest and size from; it is not sent.
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
    /// Nodes that are updated at once.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    max_parallel: u32,
    /// Time for one node from the start of its update until it is ready, in seconds.
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Rollout {
    id: String,
    version: String,
    digest: String,
    state: String,
    state_reason: String,
    rollback_of: String,
    current_wave: u32,
    waves: Vec<Wave>,
    total_nodes: u32,
    succeeded_nodes: u32,
    failed_nodes: u32,
    principal: String,
    reason: String,
    create_time: Option<Timestamp>,
    end_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Wave {
    number: u32,
    nodes: Vec<RolloutNode>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RolloutNode {
    hostname: String,
    rack: String,
    state: String,
    reason: String,
    from_version: String,
    agent_version: String,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(flags) => create(session, flags).await,
        Command::List => list(session).await,
        Command::Show { rollout } => {
            let id = resolve(session, &rollout).await?;
            let answer = session.api.get(&[&PATH[..], &[&id]].concat(), &[]).await?;
            print(session, &answer)
        }
        Command::Pause(flags) => change(session, "pause", flags, &[]).await,
        Command::Resume {
            change: flags,
            retry_failed,
        } => {
            let retry = [("retry_failed", Value::Bool(retry_failed))];
            change(session, "resume", flags, &retry).await
        }
        Command::Abort(flags) => change(session, "abort", flags, &[]).await,
        Command::Rollback(flags) => change(session, "rollback", flags, &[]).await,
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
    let body = json!({
        "version": flags.version, "digest": digest, "size_bytes": size.to_string(), "node_ids": node_ids,
        "first_node_id": first, "max_failures": flags.max_failures, "max_parallel": flags.max_parallel,
        "node_timeout_seconds": flags.node_timeout, "reason": flags.reason,
    });
    let answer = session
        .api
        .change(Method::POST, &PATH, &body, &session.key)
        .await?;
    print(session, &answer)
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
    verb: &str,
    flags: Change,
    more: &[(&str, Value)],
) -> Result<(), Failure> {
    let id = resolve(session, &flags.rollout).await?;
    let last = format!("{id}:{verb}");
    let mut body = json!({ "reason": flags.reason, "etag": flags.etag });
    for (name, value) in more {
        body[*name] = value.clone();
    }
    let path = [&PATH[..], &[last.as_str()]].concat();
    let answer = session
        .api
        .change(Method::POST, &path, &body, &session.key)
        .await?;
    print(session, &answer)
}

async fn list(session: &Session) -> Result<(), Failure> {
    let found = session.api.list(&PATH, &[], "rollouts").await?;
    if session.json() {
        print_json(&json!({ "rollouts": found }));
        return Ok(());
    }
    let rows: Vec<Rollout> = parse_all(&found)?;
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
            one.state.clone(),
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
    let all: Vec<Rollout> = parse_all(&session.api.list(&PATH, &[], "rollouts").await?)?;
    unique(
        "rollout",
        given,
        all.iter().map(|one| one.id.as_str()),
        "gpuaas admin agent-rollout list",
    )
}

fn target(rollout: &Rollout) -> String {
    match rollout.version.as_str() {
        "" => "version before".to_owned(),
        version => version.to_owned(),
    }
}

fn done(rollout: &Rollout) -> String {
    format!("{} of {}", rollout.succeeded_nodes, rollout.total_nodes)
}

fn print(session: &Session, answer: &Value) -> Result<(), Failure> {
    if session.json() {
        print_json(answer);
        return Ok(());
    }
    let rollout: Rollout = parse(answer)?;
    print_line("Rollout", &rollout.id);
    print_line("Version", &target(&rollout));
    print_line("Digest", &rollout.digest);
    print_line("Rollback of", &rollout.rollback_of);
    print_line("State", &rollout.state);
    print_line("Why", &rollout.state_reason);
    print_line("Updated", &done(&rollout));
    print_line("Failed", &rollout.failed_nodes.to_string());
    print_line("Started by", &rollout.principal);
    print_line("Reason", &rollout.reason);
    print_line("Started", &time(rollout.create_time));
    print_line("Ended", &time(rollout.end_time));
    let rows = rollout.waves.into_iter().flat_map(|wave| {
        wave.nodes.into_iter().map(move |node| {
            [
                wave.number.to_string(),
                node.hostname,
                node.rack,
                node.state,
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
    Ok(())
}
