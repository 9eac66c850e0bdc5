//! `admin audit list|export|verify`: the audit trail.
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::audit::v1::{
    AuditOutcome, ExportAuditRecordsRequest, ListAuditChainsRequest, ListAuditRecordsRequest,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::audit_chain::{Chain, Expected, Place, Verified};
use crate::commands::activity::{Outcome, moment};
use crate::commands::select::SelectedOf;
use crate::failure::Failure;
use crate::fit::short;
use crate::formats;
use crate::output::{print_json, print_table, stamp, time, word};
use crate::session::Session;

/// Most records of a page.
const PAGE: usize = 500;

#[derive(Debug, clap::Args)]
pub struct ListFlags {
    /// Only records of this principal, for example user:alice.
    #[arg(long)]
    principal: Option<String>,
    /// Only this action, for example slot.approve.
    #[arg(long)]
    action: Option<String>,
    /// Only this kind of resource, for example slot.
    #[arg(long)]
    resource: Option<String>,
    /// Only the resource with this id.
    #[arg(long, value_name = "ID")]
    resource_id: Option<String>,
    /// Only the request with this id.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Only allowed, or only denied attempts.
    #[arg(long, value_enum)]
    outcome: Option<Outcome>,
    /// Only records from this time on: 2026-01-31T12:00:00Z, or a date or time in your zone.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<Timestamp>,
    /// Only records before this time.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    until: Option<Timestamp>,
    /// Only records of this source: placement, inventory, images, terminal, billing or edge.
    #[arg(long)]
    source: Option<String>,
    /// Maximum number of records.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    #[command(flatten)]
    selected: SelectedOf<ListAuditRecordsRequest>,
}

#[derive(Debug, clap::Args)]
pub struct ExportFlags {
    /// Only this source; may be given several times [default: all].
    #[arg(long)]
    source: Vec<String>,
    /// Continue an export: only records after this position. Needs one --source.
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
    /// File to append to [default: standard output].
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub struct VerifyFlags {
    /// File of exported JSON lines [default: read the records from the API].
    file: Option<PathBuf>,
    /// Only this source; may be given several times [default: all].
    #[arg(long)]
    source: Vec<String>,
    /// Checkpoint of a chain, as an earlier verification printed it; repeatable. Without checkpoints, the removal of the
    /// newest records is not detected.
    #[arg(long, value_name = "SOURCE:POSITION:DIGEST")]
    expect: Vec<Expected>,
}

impl VerifyFlags {
    /// The file, for which nobody is asked.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }
}

pub async fn list(session: &Session, flags: ListFlags) -> Result<(), Failure> {
    let outcome = flags.outcome.map(AuditOutcome::from);
    let mut request = ListAuditRecordsRequest {
        principal: flags.principal.unwrap_or_default(),
        action: flags.action.unwrap_or_default(),
        resource: flags.resource.unwrap_or_default(),
        resource_id: flags.resource_id.unwrap_or_default(),
        outcome: outcome.unwrap_or_default().into(),
        start_time: flags.since.map(stamp),
        end_time: flags.until.map(stamp),
        source: flags.source.unwrap_or_default(),
        request_id: flags.request_id.unwrap_or_default(),
        filter: flags.selected.filter(),
        order_by: flags.selected.order_by(),
        ..ListAuditRecordsRequest::default()
    };
    let most = flags.limit as usize;
    let (mut records, mut sent, mut unreachable) = (Vec::new(), Vec::new(), Vec::new());
    while records.len() < most {
        let size = (most - records.len()).min(PAGE);
        request.page_size = i32::try_from(size).unwrap_or(i32::MAX);
        let mut answer = session.api.call(&request).await?;
        sent.extend(array(&mut answer.json, "records"));
        records.extend(answer.message.records);
        unreachable = answer.message.unreachable_sources;
        request.page_token = answer.message.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    if session.json() {
        print_json(&json!({ "records": sent, "unreachable_sources": unreachable }));
        return Ok(());
    }
    warn_unreachable(&unreachable);
    if records.is_empty() {
        say!("No audit records match.");
        return Ok(());
    }
    let rows = records.into_iter().map(|one| {
        let outcome = word(one.outcome());
        [
            time(one.create_time),
            one.principal,
            one.action,
            outcome,
            format!("{} {}", one.resource, one.resource_id)
                .trim_end()
                .to_owned(),
            one.address,
            short(&one.request_id, 36),
        ]
    });
    print_table(
        [
            "TIME",
            "PRINCIPAL",
            "ACTION",
            "OUTCOME",
            "RESOURCE",
            "FROM",
            "REQUEST",
        ],
        rows.collect(),
    );
    Ok(())
}

fn array(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer[name].take() {
        Value::Array(values) => values,
        _ => Vec::new(),
    }
}

fn warn_unreachable(sources: &[String]) {
    for source in sources {
        complain!("warning: {source} did not answer; its records are missing");
    }
}

/// The sources asked for, else all that there are. A source that does not answer fails: what is left out proves nothing.
async fn sources(session: &Session, given: Vec<String>) -> Result<Vec<String>, Failure> {
    if !given.is_empty() {
        return Ok(given);
    }
    let answer = session.api.call(&ListAuditChainsRequest {}).await?.message;
    if let Some(source) = answer.unreachable_sources.first() {
        return Err(Failure::Local(format!(
            "{source} did not answer. Repeat the command, or name the sources with --source."
        )));
    }
    let chains = answer.chains.into_iter();
    Ok(chains.map(|chain| chain.source).collect())
}

/// Reads a chain page by page: `begin` gets what it starts from, `each` every record.
async fn read(
    session: &Session,
    source: &str,
    mut after: i64,
    mut begin: impl FnMut(&Value) -> Result<(), Failure>,
    mut each: impl FnMut(&Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut begun = false;
    loop {
        let request = ExportAuditRecordsRequest {
            source: source.to_owned(),
            after_position: after,
            page_size: i32::try_from(PAGE).unwrap_or(i32::MAX),
        };
        // as they were sent: their digests are of what this version does not know, too
        let mut answer = session.api.call_json(&request).await?;
        if !begun {
            begin(&answer["start"])?;
            begun = true;
        }
        let records = array(&mut answer, "records");
        let Some(last) = records.last() else {
            return Ok(());
        };
        let last = last["position"].as_str().and_then(|one| one.parse().ok());
        // a page that does not go on would be read for ever
        let last: i64 = last.filter(|last| *last > after).ok_or_else(|| {
            Failure::Local(format!("{source}: the API gave a record out of order"))
        })?;
        for record in &records {
            each(record)?;
        }
        after = last;
    }
}

pub async fn export(session: &Session, flags: ExportFlags) -> Result<(), Failure> {
    if flags.after != 0 && flags.source.len() != 1 {
        return Err(Failure::Usage("--after needs one --source".to_owned()));
    }
    let mut file = match &flags.file {
        None => None,
        Some(path) => {
            let opened = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            Some(opened.map_err(|error| unusable(path, &error))?)
        }
    };
    let out = std::cell::RefCell::new(|line: &Value| match (&mut file, &flags.file) {
        (Some(file), Some(path)) => {
            writeln!(file, "{line}").map_err(|error| unusable(path, &error))
        }
        _ => {
            say!("{line}");
            Ok(())
        }
    });
    let mut count = 0_u64;
    for source in sources(session, flags.source).await? {
        let begin = |start: &Value| out.borrow_mut()(&json!({ "source": source, "start": start }));
        let each = |record: &Value| {
            count += 1;
            out.borrow_mut()(record)
        };
        read(session, &source, flags.after, begin, each).await?;
    }
    note!("Exported {count} records.");
    Ok(())
}

fn unusable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Local(format!("{}: {error}", path.display()))
}

/// Verifies what the API has.
///
/// # Errors
/// See [`Failure`]; the trail is not what was recorded.
pub async fn verify(session: &Session, flags: VerifyFlags) -> Result<(), Failure> {
    judge(&of_api(session, &flags).await?, &flags)
}

/// Verifies a file. Asks nobody.
///
/// # Errors
/// A file that cannot be read; the trail is not what was recorded.
pub fn verify_file(file: &Path, flags: &VerifyFlags) -> Result<(), Failure> {
    judge(&of_file(file, flags)?, flags)
}

/// What is not there proves nothing: no chain at all, one that was asked for, and one of which a head is expected.
fn judge(verified: &[Verified], flags: &VerifyFlags) -> Result<(), Failure> {
    let is_unseen = |source: &str| !verified.iter().any(|chain| chain.source == source);
    let asked = flags.source.iter().filter(|source| is_unseen(source));
    let asked = asked.map(|source| format!("{source}: the chain is missing"));
    let expected = flags.expect.iter().filter(|one| is_unseen(&one.source));
    let expected = expected.map(|one| {
        let source = &one.source;
        format!("{source}: the chain is missing; checkpoint {one} is expected")
    });
    let mut findings: Vec<String> = verified
        .iter()
        .flat_map(|one| one.findings.iter().cloned())
        .chain(asked)
        .chain(expected)
        .collect();
    if verified.is_empty() && findings.is_empty() {
        findings.push("no chain was read, which proves nothing".to_owned());
    }
    show(verified, &findings);
    if findings.is_empty() {
        return Ok(());
    }
    Err(Failure::Local(format!(
        "the audit trail was changed: {}",
        findings.join("; ")
    )))
}

fn show(verified: &[Verified], findings: &[String]) {
    if formats::chosen().is_data() {
        let place =
            |one: &Place| json!({ "position": one.position.to_string(), "digest": one.digest });
        let chains: Vec<Value> = verified
            .iter()
            .map(|one| {
                json!({ "source": one.source, "records": one.records, "start": place(&one.start), "head": place(&one.head) })
            })
            .collect();
        print_json(&json!({ "chains": chains, "findings": findings }));
        return;
    }
    let rows = verified.iter().map(|one| {
        let head = Expected {
            source: one.source.clone(),
            place: one.head.clone(),
        };
        [
            one.source.clone(),
            one.records.to_string(),
            head.to_string(),
        ]
    });
    print_table(["SOURCE", "RECORDS", "CHECKPOINT"], rows.collect());
    if findings.is_empty() {
        say!(
            "All chains are intact. Store the checkpoints: --expect then detects removed newest records."
        );
    }
}

async fn of_api(session: &Session, flags: &VerifyFlags) -> Result<Vec<Verified>, Failure> {
    let mut verified = Vec::new();
    for source in sources(session, flags.source.clone()).await? {
        let chain = std::cell::RefCell::new(None);
        let begin = |start: &Value| {
            let start = Place::read(start)
                .ok_or_else(|| Failure::Local(format!("{source}: the API names no start")))?;
            *chain.borrow_mut() = Some(Chain::new(&source, start, &flags.expect));
            Ok(())
        };
        let each = |record: &Value| {
            if let Some(chain) = chain.borrow_mut().as_mut() {
                chain.add(record);
            }
            Ok(())
        };
        read(session, &source, 0, begin, each).await?;
        verified.extend(chain.into_inner().map(Chain::finish));
    }
    Ok(verified)
}

fn of_file(path: &Path, flags: &VerifyFlags) -> Result<Vec<Verified>, Failure> {
    let file = std::fs::File::open(path).map_err(|error| unusable(path, &error))?;
    let mut chains: BTreeMap<String, Chain> = BTreeMap::new();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| unusable(path, &error))?;
        let bad =
            |what: &str| Failure::Usage(format!("{}, line {}: {what}", path.display(), number + 1));
        let value: Value = serde_json::from_str(&line).map_err(|_| bad("is not JSON"))?;
        let source = value["source"]
            .as_str()
            .ok_or_else(|| bad("names no source"))?;
        if !flags.source.is_empty() && !flags.source.iter().any(|one| one == source) {
            continue;
        }
        let start = value.get("start").map(Place::read);
        match (start, chains.get_mut(source)) {
            (Some(None), _) => return Err(bad("has a start without position or digest")),
            (Some(Some(start)), None) => {
                let chain = Chain::new(source, start, &flags.expect);
                chains.insert(source.to_owned(), chain);
            }
            (Some(Some(start)), Some(chain)) => chain.continue_from(&start),
            (None, Some(chain)) => chain.add(&value),
            (None, None) => return Err(bad("comes before the start of its source")),
        }
    }
    Ok(chains.into_values().map(Chain::finish).collect())
}
