//! The program: `serve`, and the operator's commands that run the very same checks.
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use gpuaas_common::config::{self, Settings as CommonSettings};
use gpuaas_common::{CancellationToken, Context, stop_on_signal};
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;

use crate::api::{discover, server};
use crate::build;
use crate::enrol;
use crate::gpu_fabric;
use crate::host::recording::Recording;
use crate::image::space;
use crate::ingress;
use crate::journal::Journal;
use crate::leftovers;
use crate::metadata;
use crate::network;
use crate::node::Node;
use crate::operation::Runner;
use crate::parity;
use crate::prepare::command::{HostCommand, files};
use crate::prepare::host_settings::{HostSettings, state_dir};
use crate::recorded::{self, Recorded};
use crate::retention;
use crate::serial;
use crate::settings::Settings;
use crate::telemetry;
use crate::topology::readiness;
use crate::update;
use crate::validate;

/// Longest wait for threads at the end.
const SHUTDOWN: Duration = Duration::from_secs(2);

#[derive(Parser)]
#[command(
    name = "gpuaas-node-agent",
    version = build::LINE.as_str(),
    about = "The agent of one GPUaaS host"
)]
struct Flags {
    /// Configuration file in TOML; later files win. Without one, every command but serve takes /etc/gpuaas/node-agent.toml
    /// where it is there.
    #[arg(long = "config", value_name = "FILE", global = true)]
    config: Vec<PathBuf>,
    /// One setting, as section.key=value; wins over files and environment.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", global = true)]
    set: Vec<String>,
    /// A recorded host in place of this one, for the commands topology, preflight and validate-host.
    #[arg(long = "host-root", value_name = "FILE", global = true)]
    host_root: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Enrol if needed and serve until SIGTERM (the default).
    Serve,
    /// Print what the host has and the slots it could offer, as JSON.
    Topology {
        #[command(subcommand)]
        action: Option<TopologyAction>,
    },
    /// Print every readiness check; ends with status 1 when one fails.
    Preflight,
    /// Print a line for programs per condition of a slice host, and a summary; ends with status 1 when one fails.
    ParityCheck(parity::Flags),
    /// Print all that shows whether a host is fit for slices, and what is to be tried by hand; ends with status 1 when it is not.
    ValidateHost {
        /// Write the report as JSON to this file too; it must not be there.
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Print the version of a journal; 0 when there is none. The updater asks whether the agent before can read it.
    JournalVersion {
        /// The journal's file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the folder of the agent's state, `agent.state_dir`. The updater asks for it with the arguments of the service.
    StateDir,
    #[command(flatten)]
    Host(HostCommand),
}

#[derive(Subcommand)]
enum TopologyAction {
    /// Write what discovery and readiness read of this host to one file, without secrets; `--host-root` takes it.
    Record {
        /// The file; it must not be there.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Threads that serve calls. The cores of a host are its tenants', and a thread for each of them, 100 and more, would have memory
/// of its own; what blocks has other threads ([`crate::host::blocking`]).
const WORKERS: usize = 4;

/// Runs the program.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("gpuaas-node-agent: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(run(flags));
    // What still reads a disk back is journaled as running and begins anew at the next start.
    runtime.shutdown_timeout(SHUTDOWN);
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gpuaas-node-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> anyhow::Result<ExitCode> {
    let command = flags.command.unwrap_or(Command::Serve);
    let named = settings_files(&command, &flags.config, Path::new("/"));
    let load = || {
        let (common, own) = config::load_service::<Option<Settings>>("agent", &named, &flags.set)?;
        let own =
            own.context("section [agent] is missing; name a configuration file with --config")?;
        anyhow::Ok((common, own))
    };
    if let Some(file) = &flags.host_root {
        return Box::pin(replay(file, &command)).await;
    }
    match command {
        Command::Serve => {
            let (common, own) = load()?;
            let _telemetry = gpuaas_common::telemetry::install("node-agent", &common.telemetry)?;
            let outcome = Box::pin(serve(common, own)).await;
            if let Err(error) = &outcome {
                tracing::error!("stop with an error: {error:#}");
            }
            outcome.map(|()| ExitCode::SUCCESS)
        }
        Command::ParityCheck(check) => check.run(&flags.config, load).await,
        Command::Topology {
            action: Some(TopologyAction::Record { file }),
        } => {
            let (common, own) = load()?;
            let ca = config::read("tls.ca_file", &common.tls.ca_file)?;
            let recording = Box::pin(recorded::record(own, ca.as_bytes())).await?;
            recording.save(&file)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Topology { action: None } => {
            let (common, own) = load()?;
            let node = Node::configured(&common, own)?;
            println!(
                "{}",
                topology_json(&Box::pin(discover(&node, Vec::new())).await)?
            );
            Ok(ExitCode::SUCCESS)
        }
        Command::Preflight => {
            let (common, own) = load()?;
            let node = Node::configured(&common, own)?;
            Ok(print(&readiness::report(&node).await))
        }
        Command::ValidateHost { report } => {
            let (common, own) = load()?;
            let node = Node::configured(&common, own)?;
            hand_over(&Box::pin(validate::report(&node)).await, report.as_deref())
        }
        Command::JournalVersion { file } => {
            println!("{}", Journal::version(&file)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::StateDir => {
            println!("{}", state_dir(&named, &flags.set)?.display());
            Ok(ExitCode::SUCCESS)
        }
        Command::Host(host) => {
            let config = files(&flags.config, &host.common().root);
            let own = if config.is_empty() && flags.set.is_empty() {
                HostSettings::default()
            } else {
                let loaded =
                    config::load_service::<Option<Settings>>("agent", &config, &flags.set)?;
                loaded.1.map_or_else(HostSettings::default, Into::into)
            };
            Box::pin(host.run(&own)).await
        }
    }
}

/// An operator's commands are about the agent that the package has installed on this host (I-218).
fn settings_files(command: &Command, named: &[PathBuf], root: &Path) -> Vec<PathBuf> {
    match command {
        Command::Serve => named.to_vec(),
        _ => files(named, root),
    }
}

/// Prints a report, and writes it to a file.
fn hand_over(report: &validate::Report, file: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(file) = file {
        let mut out = std::fs::File::create_new(file)
            .with_context(|| format!("cannot make {}", file.display()))?;
        serde_json::to_writer_pretty(&mut out, report)?;
        std::io::Write::write_all(&mut out, b"\n")?;
    }
    print!("{}", report.text());
    Ok(match report.blockers.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Runs a command on a recorded host.
async fn replay(file: &Path, command: &Command) -> anyhow::Result<ExitCode> {
    let host = Recorded::open(Recording::load(file)?)?;
    match command {
        Command::Topology { action: None } => {
            println!("{}", topology_json(&Box::pin(host.discover()).await)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Preflight => Ok(print(&host.readiness().await)),
        Command::ValidateHost { report } => {
            hand_over(&Box::pin(host.validate()).await, report.as_deref())
        }
        _ => anyhow::bail!("--host-root is for the commands topology, preflight and validate-host"),
    }
}

/// A line per check; the status tells whether one fails.
fn print(report: &ReadinessReport) -> ExitCode {
    for one in &report.evidence {
        let status = validate::status(one.status());
        println!("{status} {}: {} {}", one.check, one.detail, one.remediation);
    }
    if report.blockers.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn serve(common: CommonSettings, own: Settings) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    stop_on_signal(shutdown.clone())?;
    let node = Arc::new(Node::configured(&common, own)?);
    let mut listens = common.server.listen.clone();
    listens.push(common.server.metrics_listen);
    let set = &node.settings;
    ingress::check(&set.ingress, &set.network, &set.access, &listens)?;
    node.images.tidy()?;
    tracing::info!(
        build = build::LINE.as_str(),
        boot_id = node.clock.boot_id(),
        profile = node.settings.profile.name,
        "start"
    );
    // First of all: a Fabric Manager that was restarted with the host waits for 60 seconds.
    let partitions = tokio::spawn({
        let (node, shutdown) = (Arc::clone(&node), shutdown.clone());
        async move { gpu_fabric::run(&node, gpu_fabric::INTERVAL, shutdown).await }
    });
    // Before anything that needs the control plane: what was begun goes on without it.
    if let Err(error) = node.network_rules.put().await {
        // nothing is started before it works, and it is tried again
        tracing::error!(%error, "cannot put the rules of the guests' network in force");
    }
    let runner = Runner::new(Arc::clone(&node));
    runner.resume()?;
    enrol::ensure(&node, &common, &shutdown).await?;
    let context = Context::new("agent", common)?;
    let server = server(&context, &node, runner).run(shutdown.clone());
    let heartbeat = enrol::heartbeat(&node, &context, shutdown.clone());
    let certificate = enrol::keep_certificate(&node, &context, shutdown.clone());
    let rules = network::watch(&node.network_rules, &context.meter, shutdown.clone());
    let retention = retention::run(
        &node.journal,
        node.settings.journal.retention(),
        retention::INTERVAL,
        shutdown.clone(),
    );
    let leftovers = leftovers::run(&node, leftovers::INTERVAL, shutdown.clone());
    let space = space::run(
        &node.images,
        &node.settings.state_dir,
        space::INTERVAL,
        shutdown.clone(),
    );
    let metadata = metadata::run(&node, &context, shutdown.clone());
    let updates = update::run(&node.updates, &node.journal, shutdown.clone());
    let serial = serial::run(
        &node.serial,
        node.settings.polling.serial(),
        shutdown.clone(),
    );
    telemetry::metrics::show(&context.meter, &node.telemetry);
    let measured = telemetry::follow::run(&node, shutdown.clone());
    let (served, heartbeats, kept, (), (), (), (), fabric, (), (), (), ()) = tokio::join!(
        async {
            let outcome = server.await;
            shutdown.cancel();
            outcome
        },
        heartbeat,
        async {
            let kept = certificate.await;
            // an agent that cannot renew would serve on until its certificate ends
            shutdown.cancel();
            kept
        },
        retention,
        rules,
        leftovers,
        space,
        partitions,
        metadata,
        updates,
        serial,
        measured
    );
    tracing::info!("stop");
    served.and(heartbeats).and(kept).and(Ok(fabric?))
}

/// The report as JSON with the contract's own names.
fn topology_json(
    report: &gpuaas_proto::gpuaas::agent::v1::TopologyReport,
) -> anyhow::Result<String> {
    use prost::Message as _;
    use prost_reflect::{DynamicMessage, SerializeOptions};
    let descriptor = gpuaas_proto::pool()
        .get_message_by_name("gpuaas.agent.v1.TopologyReport")
        .context("the contract has no TopologyReport")?;
    let message = DynamicMessage::decode(descriptor, report.encode_to_vec().as_slice())?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .skip_default_fields(false);
    let mut out = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut out);
    message.serialize_with_options(&mut serializer, &options)?;
    Ok(String::from_utf8(out)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_218_an_operators_command_finds_the_settings_of_an_installed_agent() {
        let host = tempfile::tempdir().unwrap();
        let installed = host.path().join("etc/gpuaas/node-agent.toml");
        let given = [PathBuf::from("other.toml")];
        assert!(settings_files(&Command::Preflight, &[], host.path()).is_empty());
        std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
        std::fs::write(&installed, "cell = 1\n").unwrap();
        for command in [
            Command::Preflight,
            Command::ValidateHost { report: None },
            Command::Topology { action: None },
        ] {
            let found = settings_files(&command, &[], host.path());
            assert_eq!(found, std::slice::from_ref(&installed));
            assert_eq!(settings_files(&command, &given, host.path()), given);
        }
        // a service has what its unit names
        assert!(settings_files(&Command::Serve, &[], host.path()).is_empty());
    }
}
