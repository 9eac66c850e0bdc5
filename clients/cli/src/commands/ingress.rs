//! `ingress`: ports of a VM that are exposed to the outside.
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use super::launch::parse_deadline;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, print_table, time};

/// Between two looks at a mapping that is not open yet.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest wait for it.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Expose a port of a VM.
    Create {
        #[command(flatten)]
        of: AllocationRef,
        /// Port of the VM.
        #[arg(long, value_name = "PORT")]
        port: u16,
        /// Transport protocol.
        #[arg(long, default_value = "tcp", value_parser = ["tcp", "udp"])]
        protocol: String,
        /// Port at the external address [default: one that is free].
        #[arg(long, value_name = "PORT")]
        external_port: Option<u16>,
        /// IPv4 network that may connect, for example 198.51.100.0/24; may be given several times [default: everybody].
        #[arg(long = "source", value_name = "NETWORK")]
        sources: Vec<String>,
        /// Close it after a duration or at a time: 8h, 3d, 2027-01-31T12:00:00Z [default: with the allocation].
        #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
        until: Option<Timestamp>,
        /// Wait until the port is open.
        #[arg(long)]
        wait: bool,
    },
    /// List the exposed ports of a VM.
    List {
        #[command(flatten)]
        of: AllocationRef,
    },
    /// Close a port again, open connections included.
    Delete {
        #[command(flatten)]
        of: AllocationRef,
        /// Id of the ingress mapping.
        mapping: String,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let api = &session.api;
    match command {
        Command::Create {
            of,
            port,
            protocol,
            external_port,
            sources,
            until,
            wait,
        } => {
            let id = of.id(api).await?;
            let mut config = json!({ "protocol": protocol, "vm_port": port });
            if let Some(port) = external_port {
                config["external_port"] = json!(port);
            }
            if !sources.is_empty() {
                config["source_cidrs"] = json!(sources);
            }
            if let Some(until) = until {
                config["expire_time"] = json!(until);
            }
            let path = ["allocations", &id, "ingress-mappings"];
            let body = json!({ "config": config });
            let mut answer = api.change(Method::POST, &path, &body, &session.key).await?;
            if wait {
                answer = opened(session, &id, answer).await?;
            }
            super::done(session, &answer, &sentence(&answer));
        }
        Command::List { of } => {
            let id = of.id(api).await?;
            let answer = api
                .get(&["allocations", &id, "ingress-mappings"], &[])
                .await?;
            print(session, &answer);
        }
        Command::Delete { of, mapping } => {
            let id = of.id(api).await?;
            let path = ["allocations", &id, "ingress-mappings", &mapping];
            let answer = api.delete(&path, &[], &session.key).await?;
            super::done(session, &answer, &format!("Closing {}.", external(&answer)));
        }
    }
    Ok(())
}

/// The mapping once it is open. What failed is tried again by the platform, so it is waited for, too.
async fn opened(session: &Session, id: &str, mut mapping: Value) -> Result<Value, Failure> {
    let own = text(&mapping, "/id").to_owned();
    let path = ["allocations", id, "ingress-mappings", &own];
    let started = std::time::Instant::now();
    while matches!(text(&mapping, "/status/state"), "pending" | "failed") {
        if started.elapsed() >= LONGEST {
            return Err(Failure::Local(format!(
                "{} It is tried again; see: gpuaas ingress list {id}",
                sentence(&mapping)
            )));
        }
        tokio::time::sleep(PAUSE).await;
        mapping = session.api.get(&path, &[]).await?;
    }
    Ok(mapping)
}

fn sentence(mapping: &Value) -> String {
    let (from, to) = (
        external(mapping),
        mapping["config"]["vm_port"].as_u64().unwrap_or_default(),
    );
    match text(mapping, "/status/state") {
        "active" => format!("{from} leads to port {to} of the VM."),
        "failed" => format!(
            "{from} does not lead to port {to} of the VM yet: {}",
            text(mapping, "/status/failure")
        ),
        _ => format!("{from} will lead to port {to} of the VM within seconds."),
    }
}

/// As "203.0.113.7:30017/tcp".
fn external(mapping: &Value) -> String {
    format!(
        "{}:{}/{}",
        text(mapping, "/status/external_address"),
        mapping["status"]["external_port"]
            .as_u64()
            .unwrap_or_default(),
        text(mapping, "/config/protocol")
    )
}

fn print(session: &Session, answer: &Value) {
    if session.json() {
        print_json(answer);
        return;
    }
    let none = Vec::new();
    let found = answer["ingress_mappings"].as_array().unwrap_or(&none);
    if found.is_empty() {
        say!("No port is exposed. Open one: gpuaas ingress create ALLOCATION --port PORT");
        return;
    }
    let rows = found.iter().map(|one| {
        let sources = one["config"]["source_cidrs"].as_array();
        let sources: Vec<&str> = sources
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let from = if sources.is_empty() {
            "everybody".to_owned()
        } else {
            sources.join(",")
        };
        let until = text(one, "/config/expire_time")
            .parse::<jiff::Timestamp>()
            .ok();
        [
            external(one),
            one["config"]["vm_port"]
                .as_u64()
                .unwrap_or_default()
                .to_string(),
            text(one, "/status/state").to_owned(),
            from,
            until.map_or_else(|| "-".to_owned(), |until| time(Some(until))),
            text(one, "/id").to_owned(),
        ]
    });
    print_table(
        ["EXTERNAL", "VM PORT", "STATE", "FROM", "UNTIL", "ID"],
        rows.collect(),
    );
    for one in found
        .iter()
        .filter(|one| text(one, "/status/state") == "failed")
    {
        say!("{}: {}", external(one), text(one, "/status/failure"));
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
