//! `launch`: a new allocation, with defaults where there is only one choice.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1 as contract;
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, BatchCreateAllocationsRequest, BatchCreateAllocationsResponse,
    CreateAllocationRequest,
};
use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use super::catalog::{self, default_region};
use super::explain::print_explanation;
use super::show::{print_allocation, print_login};
use super::{placement, ssh_keys, user_data};
use crate::allocation::{Among, name_of, queue_text};
use crate::api::Answer;
use crate::failure::Failure;
use crate::keys::{self, PublicKey};
use crate::output::{print_json, stamp};
use crate::progress::{self, Goal, Wait};
use crate::session::Session;
use crate::{project, state};

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// SKU; see: gpuaas sku list.
    #[arg(long)]
    sku: String,
    /// GPUs per allocation.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    gpus: u32,
    /// Image; see: gpuaas image list.
    #[arg(long)]
    image: String,
    /// SSH public key: a file, or the name of a stored one; repeatable [default: ~/.ssh/id_ed25519.pub, then the others in
    /// ~/.ssh, then your stored keys].
    #[arg(long = "ssh-key", value_name = "FILE|NAME")]
    ssh_keys: Vec<PathBuf>,
    /// Region [default: one where it fits now].
    #[arg(long)]
    region: Option<String>,
    /// Name, a DNS label [default: generated from the SKU].
    #[arg(long)]
    name: Option<String>,
    /// Project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Label; repeatable.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// Number of allocations, launched all or none; their names get the suffixes -1, -2 and so on.
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=16))]
    count: u32,
    #[command(flatten)]
    placement: placement::PlacementFlags,
    /// Queue the launch if it does not fit now, for a duration, or until a time: 90m, 2h, 3d, 2026-01-31T12:00:00Z; at
    /// most 7d.
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    wait_for_capacity: Option<Timestamp>,
    /// Refuse to release the allocation until you unprotect it; see: gpuaas update.
    #[arg(long, conflicts_with = "release_at")]
    protect: bool,
    /// Release the allocation after a duration, or at a time: 90m, 8h, 3d, 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_deadline)]
    release_at: Option<Timestamp>,
    /// User data for the VM's cloud-init, for example a file that begins with #cloud-config or #!/bin/sh; - is standard input.
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// Wait until the login works, showing progress.
    #[arg(long)]
    wait: bool,
    /// Maximum wait in seconds for all allocations together, not counting time in the queue.
    #[arg(long, default_value_t = 2100, value_name = "SECONDS")]
    timeout: u64,
    /// Dry run: check the launch without launching.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .ok_or_else(|| "must be KEY=VALUE".to_owned())
}

/// A length of time; a day has 24 hours.
pub fn parse_length(text: &str) -> Result<SignedDuration, String> {
    text.parse::<Span>()
        .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
        .map_err(|_| "must be like 30m, 2h or 3d".to_owned())
}

/// A length of time from now, or a time.
pub fn parse_deadline(text: &str) -> Result<Timestamp, String> {
    if let Ok(length) = parse_length(text) {
        return Timestamp::now()
            .checked_add(length)
            .map_err(|error| error.to_string());
    }
    text.parse()
        .map_err(|_| "must be like 90m, 2h, 3d or 2026-01-31T12:00:00Z".to_owned())
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let (sku, image) = (flags.sku.clone(), flags.image.clone());
    let region = flags.region.clone().unwrap_or_default();
    match launch(session, flags).await {
        Err(failure) => {
            Err(catalog::nearest_names(&session.api, failure, [&sku, &image, &region]).await)
        }
        done => done,
    }
}

async fn launch(session: &Session, flags: Flags) -> Result<(), Failure> {
    let user_data = flags
        .user_data
        .as_deref()
        .map(user_data::read)
        .transpose()?;
    let (key_names, keys) = chosen_keys(session, &flags.ssh_keys).await?;
    let project = project::chosen(&session.api, flags.project).await?;
    let region = match flags.region {
        Some(region) => region,
        None => default_region(session, &flags.sku, flags.gpus).await?,
    };
    let name = flags.name.unwrap_or_else(|| made_name(&flags.sku));
    let among = Among::Project(project.as_deref());
    let placement = flags.placement.resolve(session, among).await?;
    let queued = flags.wait_for_capacity.map_or(Duration::ZERO, |deadline| {
        let left = deadline.duration_since(Timestamp::now());
        Duration::try_from(left).unwrap_or_default()
    });
    let limit = queued + Duration::from_secs(flags.timeout);
    let request = CreateAllocationRequest {
        project_id: project.unwrap_or_default(),
        name,
        region_code: region,
        sku: flags.sku,
        gpu_count: flags.gpus,
        image: flags.image,
        ssh_public_keys: keys.iter().map(|key| key.line.clone()).collect(),
        ssh_key_names: key_names,
        labels: flags.labels.into_iter().collect(),
        validate_only: flags.dry_run,
        placement,
        wait: flags.wait_for_capacity.map(|deadline| contract::Wait {
            deadline: Some(stamp(deadline)),
        }),
        termination_protection: flags.protect,
        auto_release_time: flags.release_at.map(stamp),
        user_data: user_data.unwrap_or_default(),
        ..CreateAllocationRequest::default()
    };
    let wait = flags.wait.then_some(limit);
    if flags.count > 1 {
        return launch_several(session, request, flags.count, &keys, wait).await;
    }
    let mut answer = session.api.apply(&request, &session.key).await?;
    if flags.dry_run {
        finish_validated(session, &answer.json, Some(&answer.message));
        return Ok(());
    }
    let id = answer.message.id.clone();
    remember(&id, &keys);
    if !session.json() {
        note!("{}", launched(&answer.message, &request.name));
    }
    if let Some(limit) = wait {
        answer = progress::wait(&session.api, &id, active_within(session, limit)).await?;
    }
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    print_allocation(&answer.message);
    print_login(&answer.message)?;
    if !flags.wait {
        say!("\nWatch it: gpuaas watch {id}");
    }
    Ok(())
}

fn active_within(session: &Session, limit: Duration) -> Wait {
    Wait {
        goal: Goal::Active,
        limit,
        start: Instant::now(),
        quiet: session.json(),
        after: 0,
        is_change: false,
    }
}

/// Most keys of a launch.
const MAX_KEYS: usize = 10;

/// Names of stored keys, and keys of files; without a flag or a key in ~/.ssh the caller's stored keys.
async fn chosen_keys(
    session: &Session,
    given: &[PathBuf],
) -> Result<(Vec<String>, Vec<PublicKey>), Failure> {
    if given.is_empty() && keys::usual().is_none() {
        let mut kept = ssh_keys::own_names(session).await.unwrap_or_default();
        kept.truncate(MAX_KEYS);
        if !kept.is_empty() {
            note!(
                "No SSH key in ~/.ssh; using your stored keys: {}. Choose others with --ssh-key.",
                kept.join(", ")
            );
            return Ok((kept, Vec::new()));
        }
    }
    keys::of_flags(given)
}

/// Launches several of the same, all or none.
async fn launch_several(
    session: &Session,
    mut one: CreateAllocationRequest,
    count: u32,
    keys: &[PublicKey],
    wait: Option<Duration>,
) -> Result<(), Failure> {
    // what is of all is said once
    let mut request = BatchCreateAllocationsRequest {
        project_id: std::mem::take(&mut one.project_id),
        validate_only: std::mem::take(&mut one.validate_only),
        wait: one.wait.take(),
        ..BatchCreateAllocationsRequest::default()
    };
    let each = (1..=count).map(|number| CreateAllocationRequest {
        name: format!("{}-{number}", one.name),
        ..one.clone()
    });
    request.allocations = each.collect();
    let mut answer = session.api.apply(&request, &session.key).await?;
    if request.validate_only {
        finish_validated(session, &answer.json, None);
        return Ok(());
    }
    // all are launched, whatever becomes of the first
    for allocation in &answer.message.allocations {
        remember(&allocation.id, keys);
        if !session.json() {
            note!("{}", launched(allocation, name_of(allocation)));
        }
    }
    let outcome = match wait {
        Some(limit) => all_active(session, &mut answer, limit).await,
        None => Ok(()),
    };
    if session.json() {
        print_json(&json!({ "allocations": answer.json["allocations"] }));
    } else if outcome.is_ok() {
        say!("List them: gpuaas list");
    }
    outcome
}

/// Waits until all are active, also those after one that failed. They have the time together.
async fn all_active(
    session: &Session,
    answer: &mut Answer<BatchCreateAllocationsResponse>,
    limit: Duration,
) -> Result<(), Failure> {
    let wait = active_within(session, limit);
    let (mut done, mut left, mut cause) = (Vec::new(), Vec::new(), None);
    for (at, allocation) in answer.message.allocations.iter().enumerate() {
        let name = name_of(allocation).to_owned();
        if !matches!(cause, None | Some(Failure::Allocation(_))) {
            left.push(name);
            continue;
        }
        match progress::wait(&session.api, &allocation.id, wait).await {
            Ok(now) => {
                answer.json["allocations"][at] = now.json;
                done.push(name);
            }
            Err(failure) => {
                left.push(name);
                cause = Some(failure);
            }
        }
    }
    cause.map_or(Ok(()), |cause| {
        let cause = Box::new(cause);
        Err(Failure::Partly { done, left, cause })
    })
}

/// The result of a launch.
fn launched(allocation: &Allocation, name: &str) -> String {
    let id = &allocation.id;
    let status = allocation.status.as_ref();
    match status.and_then(|status| status.queue.as_ref()) {
        Some(queue) => format!(
            "{name} ({id}) is {}: {} Not billed while queued. Cancel it: gpuaas release {id}",
            queue_text(queue),
            queue.message
        ),
        None => format!("Launched {name} ({id})"),
    }
}

fn remember(id: &str, keys: &[PublicKey]) {
    if let Some(private) = keys.iter().find_map(|k| k.private.as_deref())
        && let Err(error) = state::remember_identity(id, private)
    {
        note!("cannot save which key belongs to {id}: {error}");
    }
}

fn finish_validated(session: &Session, json: &Value, judged: Option<&Allocation>) {
    if session.json() {
        print_json(json);
        return;
    }
    say!("Dry run passed: this launch is valid. Omit --dry-run to launch it.");
    let status = judged.and_then(|judged| judged.status.as_ref());
    for warning in status.iter().flat_map(|status| &status.conditions) {
        say!("Warning: {}", warning.message);
    }
    if let Some(found) = judged.and_then(|judged| judged.placement.as_ref()) {
        print_explanation(found);
    }
}

/// A new DNS label with the SKU in it.
fn made_name(sku: &str) -> String {
    let label: String = sku
        .to_ascii_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(50)
        .collect();
    let random = Uuid::new_v4().simple().to_string();
    format!("{}-{}", label.trim_matches('-'), &random[..6])
        .trim_start_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_names_are_dns_labels() {
        for sku in ["lab-slice", "H200_SXM.Slice", "---", &"x".repeat(80)] {
            let name = made_name(sku);
            assert!(
                name.len() <= 63
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
                "{name}"
            );
            assert!(!name.starts_with('-') && !name.ends_with('-'), "{name}");
        }
    }

    #[test]
    fn a_deadline_is_a_length_or_a_time() {
        let now = Timestamp::now();
        let in_two_hours = parse_deadline("2h").expect("a length");
        assert_eq!(in_two_hours.duration_since(now).as_mins(), 120);
        let in_days = parse_deadline("1d 12h").expect("a length");
        assert_eq!(in_days.duration_since(now).as_hours(), 36);
        let at = parse_deadline("2026-01-31T12:00:00Z").expect("a time");
        assert_eq!(at.to_string(), "2026-01-31T12:00:00Z");
        for bad in ["tomorrow", "1mo", "1y", ""] {
            assert!(parse_deadline(bad).is_err(), "{bad}");
        }
    }
}
