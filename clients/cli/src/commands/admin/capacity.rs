//! The fleet's capacity over time.
use gpuaas_proto::gpuaas::scheduler::v1::{CapacityBucket, ListCapacityHistoryRequest};

use crate::failure::Failure;
use crate::output::{print_json, print_table, stamp, time};
use crate::session::Session;

/// Width of the drawn bar, in characters.
const BAR: f64 = 20.0;

#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Only this region.
    #[arg(long)]
    region: Option<String>,
    /// Only this SKU.
    #[arg(long)]
    sku: Option<String>,
    /// Length of the time range in hours.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=24 * 366))]
    hours: u32,
    /// Length of a bucket in minutes [default: about 24 rows].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=60 * 24 * 31))]
    every: Option<u32>,
}

/// Prints it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let end = jiff::Timestamp::now();
    let start = end - jiff::SignedDuration::from_hours(i64::from(flags.hours));
    // about 24 rows; a minute is the shortest
    let minutes = flags
        .every
        .unwrap_or_else(|| (flags.hours * 60 / 24).max(1));
    let request = ListCapacityHistoryRequest {
        region_code: flags.region.unwrap_or_default(),
        sku: flags.sku.unwrap_or_default(),
        start_time: Some(stamp(start)),
        bucket_seconds: i64::from(minutes) * 60,
        ..ListCapacityHistoryRequest::default()
    };
    let answer = session.api.call_all_pages(&request, "buckets").await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let history = answer.message;
    if history.buckets.is_empty() {
        say!(
            "No samples in this time range. The scheduler takes one a minute once slots are approved, and keeps them for `scheduler.capacity_history_days`."
        );
        return Ok(());
    }
    let rows = history.buckets.iter().map(row).collect();
    print_table(
        [
            "FROM",
            "REGION",
            "SKU",
            "NODES",
            "GPUS",
            "PEAK IN USE",
            "LOWEST FREE",
            "MEAN UTILIZATION",
        ],
        rows,
    );
    Ok(())
}

fn row(bucket: &CapacityBucket) -> [String; 8] {
    [
        time(bucket.start_time),
        bucket.region_code.clone(),
        bucket.sku.clone(),
        bucket.nodes.to_string(),
        bucket.gpus.to_string(),
        bucket.gpus_in_use.to_string(),
        bucket.gpus_free.to_string(),
        bar(bucket.mean_gpus_in_use, bucket.mean_gpus),
    ]
}

/// The share as a bar and per cent.
fn bar(part: f64, whole: f64) -> String {
    if whole <= 0.0 {
        return String::new();
    }
    let share = (part / whole).clamp(0.0, 1.0);
    let drawn: String = (1..=20)
        .map(|n| {
            if f64::from(n) <= share * BAR {
                '#'
            } else {
                ' '
            }
        })
        .collect();
    format!("{drawn} {:>3.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_drawn() {
        assert_eq!(bar(5.0, 10.0), format!("{:<20}  50 %", "##########"));
        assert_eq!(bar(0.0, 3.0), format!("{:<20}   0 %", ""));
        assert_eq!(bar(8.0, 8.0), format!("{} 100 %", "#".repeat(20)));
        assert_eq!(bar(0.0, 0.0), "");
    }
}
