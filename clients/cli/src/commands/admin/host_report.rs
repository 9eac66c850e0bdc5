//! `admin node report`: what validate-host wrote on a host, attached to its node, and read back.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::inventory::v1::{
    AttachHostReportRequest, AttachedHostReport, HostReport, HostReportByHand, HostReportCheck,
    ListHostReportsRequest, ListHostReportsResponse,
};
use serde_json::{Value, json};

use crate::api::Answer;
use crate::commands::select::{Selected, SelectedOf};
use crate::failure::Failure;
use crate::node;
use crate::output::{print_json, print_line, print_table, time};
use crate::resolve::unique;
use crate::session::{Session, done};

/// Most bytes that the API takes.
const MAX_BYTES: u64 = 256 << 10;
/// How many reports of a node the platform keeps.
const KEPT: i32 = 10;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Attach the report that `gpuaas-node-agent validate-host --report FILE` wrote on the node's host.
    Attach {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// File with the report; fill in the results of the manual tests first.
        file: PathBuf,
    },
    /// List the reports that are attached to a node, at most the latest ten, newest first.
    List {
        /// Id, unique prefix of it, or hostname.
        node: String,
        #[command(flatten)]
        selected: SelectedOf<ListHostReportsRequest>,
    },
    /// Show a report that is attached to a node.
    Show {
        /// Id, unique prefix of it, or hostname.
        node: String,
        /// Id of the report, or unique prefix of it [default: the latest].
        #[arg(default_value = "", hide_default_value = true)]
        report: String,
    },
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Attach { node, file } => attach(session, &node, &file).await,
        Command::List { node, selected } => list(session, &node, &selected).await,
        Command::Show { node, report } => show(session, &node, &report).await,
    }
}

fn count(report: &HostReport, status: &str) -> usize {
    let checks = report.checks.iter();
    checks.filter(|one| one.status == status).count()
}

/// How many checks came out how, and how much was done by hand.
fn summary(report: &HostReport) -> String {
    let done = report.by_hand.iter().filter(|one| is_done(one)).count();
    format!(
        "{} passed, {} failed, {} warned, {} do not apply; by hand {done} of {} done",
        count(report, "PASS"),
        count(report, "FAIL"),
        count(report, "WARN"),
        count(report, "SKIP"),
        report.by_hand.len()
    )
}

fn is_done(one: &HostReportByHand) -> bool {
    !one.result.trim().is_empty()
}

/// The report of a file. What is no JSON object is refused here; all else is for the API to judge.
fn read(file: &Path) -> Result<Value, Failure> {
    let shown = file.display();
    let unreadable = |error| Failure::Usage(format!("cannot read {shown}: {error}"));
    let mut text = String::new();
    let mut source = File::open(file).map_err(unreadable)?.take(MAX_BYTES + 1);
    source.read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Failure::Usage(format!(
            "{shown} is longer than {MAX_BYTES} bytes: it is no report of validate-host"
        )));
    }
    match serde_json::from_str(&text) {
        Ok(report @ Value::Object(_)) => Ok(report),
        Ok(_) => Err(Failure::Usage(format!(
            "{shown} is no report of validate-host"
        ))),
        Err(error) => Err(Failure::Usage(format!("{shown} is not JSON: {error}"))),
    }
}

async fn attach(session: &Session, given: &str, file: &Path) -> Result<(), Failure> {
    let report = read(file)?;
    let node = node::resolve(&session.api, given).await?;
    let request = AttachHostReportRequest {
        node_id: node,
        ..AttachHostReportRequest::default()
    };
    // as the file has it: the API judges what it does not know
    let body = json!({ "report": report });
    let answer = session.api.apply_body(&request, body, &session.key).await?;
    let text = format!(
        "The report is attached to node {given}: {}.",
        summary(&answer.message.report.unwrap_or_default())
    );
    done(session, &answer.json, &text);
    Ok(())
}

/// Those of a node that are selected, all of them.
async fn attached(
    session: &Session,
    given: &str,
    selected: &Selected,
) -> Result<Answer<ListHostReportsResponse>, Failure> {
    let request = ListHostReportsRequest {
        node_id: node::resolve(&session.api, given).await?,
        page_size: KEPT,
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListHostReportsRequest::default()
    };
    session.api.call(&request).await
}

async fn list(session: &Session, given: &str, selected: &Selected) -> Result<(), Failure> {
    let answer = attached(session, given, selected).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    if answer.message.reports.is_empty() {
        say!(
            "{}",
            match selected.narrows() {
                true => "No report matches the filter.".to_owned(),
                false => none(given),
            }
        );
        return Ok(());
    }
    let rows = answer.message.reports.into_iter().map(|one| {
        let report = one.report.unwrap_or_default();
        [
            time(one.attach_time),
            one.principal,
            time(report.time),
            summary(&report),
            report.agent_version,
            report.kind,
            one.id,
        ]
    });
    print_table(
        ["ATTACHED", "BY", "MADE", "RESULT", "AGENT", "KIND", "ID"],
        rows.collect(),
    );
    Ok(())
}

fn none(given: &str) -> String {
    format!(
        "No report is attached to node {given}. On its host: gpuaas-node-agent validate-host --report FILE"
    )
}

async fn show(session: &Session, given: &str, report: &str) -> Result<(), Failure> {
    let answer = attached(session, given, &Selected::default()).await?;
    let reports = answer.message.reports;
    if reports.is_empty() {
        return Err(Failure::NotFound(none(given)));
    }
    let at = match report {
        "" => 0,
        report => {
            let ids = reports.iter().map(|one| one.id.as_str());
            let list = format!("gpuaas admin node report list {given}");
            let found = unique("report", report, ids, &list)?;
            let is_found = |one: &AttachedHostReport| one.id == found;
            reports.iter().position(is_found).unwrap_or_default()
        }
    };
    if session.json() {
        print_json(&answer.json["reports"][at]);
        return Ok(());
    }
    let attached = reports.into_iter().nth(at).unwrap_or_default();
    let report = &attached.report.unwrap_or_default();
    print_line(
        "Attached",
        &format!("{} by {}", time(attached.attach_time), attached.principal),
    );
    print_line(
        "Made",
        &format!("{} on a {}", time(report.time), report.kind),
    );
    print_line(
        "Agent",
        &format!("{} built {}", report.agent_version, report.agent_built_at),
    );
    print_line("Result", &summary(report));
    let blockers = match report.blockers.is_empty() {
        true => "none".to_owned(),
        false => report.blockers.join(", "),
    };
    print_line("Blockers", &blockers);
    say!("\nChecks");
    let mut checks: Vec<&HostReportCheck> = report.checks.iter().collect();
    checks.sort_by_key(|one| {
        ["FAIL", "WARN", "PASS"]
            .iter()
            .position(|known| *known == one.status)
            .unwrap_or(3)
    });
    let rows = checks.into_iter().map(|one| {
        let to_do = if matches!(one.status.as_str(), "FAIL" | "WARN") {
            one.remediation.as_str()
        } else {
            ""
        };
        let text = format!("{} {to_do}", one.detail);
        [
            one.check.clone(),
            one.status.clone(),
            one.severity.clone(),
            text.trim().to_owned(),
        ]
    });
    print_table(["CHECK", "RESULT", "SEVERITY", "DETAILS"], rows.collect());
    say!("\nBy hand");
    let rows = report.by_hand.iter().map(|one| {
        let result = match is_done(one) {
            true => one.result.clone(),
            false => format!("not done: {} Good: {}", one.what, one.good),
        };
        [one.id.clone(), result]
    });
    print_table(["ITEM", "RESULT"], rows.collect());
    let hardware: BTreeMap<String, String> = report
        .hardware
        .iter()
        .map(|(key, count)| (key.clone(), count.to_string()))
        .collect();
    let tables = [
        ("Host", &report.host),
        ("Hardware", &hardware),
        ("Baseline", &report.baseline),
        ("Versions", &report.versions),
    ];
    for (title, table) in tables {
        say!("\n{title}");
        for (key, value) in table {
            say!("  {key}: {value}");
        }
    }
    Ok(())
}
