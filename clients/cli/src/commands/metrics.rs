//! `metrics`: what the VM of an allocation uses.
use gpuaas_proto::gpuaas::allocation::v1::GetAllocationMetricsRequest;
use gpuaas_proto::gpuaas::common::v1::MetricSeries;
use jiff::{SignedDuration, Timestamp};

use super::launch::parse_length;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{bytes, clock, print_json, print_table, stamp};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Period up to now, such as 15m; at most 1d.
    #[arg(long, value_name = "LENGTH", default_value = "1h", value_parser = parse_length)]
    since: SignedDuration,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let wrong =
        || Failure::Usage("--since is a length such as 1h, and longer than none".to_owned());
    if !flags.since.is_positive() {
        return Err(wrong());
    }
    let start = Timestamp::now().checked_sub(flags.since);
    let start = start.map_err(|_| wrong())?;
    let id = flags.of.id(&session.api).await?;
    let request = GetAllocationMetricsRequest {
        allocation_id: id,
        start_time: Some(stamp(start)),
        ..GetAllocationMetricsRequest::default()
    };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let metrics = answer.message;
    // the contract has no word for a metric of a later release; what was sent has
    let word = |at: usize| answer.json["series"][at]["metric"].as_str();
    let series = metrics.series.iter().enumerate();
    let rows = series.filter_map(|(at, one)| row(word(at).unwrap_or_default(), one));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        say!(
            "Nothing was measured in this time. The first values are there about 30 seconds after the VM starts."
        );
    } else {
        print_table(["METRIC", "LAST", "MEAN", "MAX", "LAST AT"], rows);
    }
    if !metrics.guest_message.is_empty() {
        note!("{}", metrics.guest_message);
    }
    Ok(())
}

fn row(metric: &str, series: &MetricSeries) -> Option<[String; 5]> {
    let last = series.points.last()?;
    let values = || series.points.iter().map(|point| point.value);
    let mean = values().sum::<f64>() / series.points.len() as f64;
    let shown = |value| shown(metric, value);
    Some([
        name(metric, series.gpu),
        shown(last.value),
        shown(mean),
        shown(values().fold(f64::MIN, f64::max)),
        clock(last.time),
    ])
}

/// What a metric is called; one of a later release by its own name.
fn name(metric: &str, gpu: Option<u32>) -> String {
    let name = match metric {
        "cpu_percent" => "CPU",
        "memory_used_bytes" => "Memory used",
        "memory_total_bytes" => "Memory",
        "network_received_bytes_per_second" => "Network received",
        "network_sent_bytes_per_second" => "Network sent",
        "disk_read_bytes_per_second" => "Disk read",
        "disk_written_bytes_per_second" => "Disk written",
        "gpu_utilization_percent" => "utilization",
        "gpu_memory_used_bytes" => "memory used",
        "gpu_memory_total_bytes" => "memory",
        "gpu_temperature_celsius" => "temperature",
        "gpu_power_watts" => "power",
        other => other,
    };
    gpu.map_or_else(|| name.to_owned(), |gpu| format!("GPU {gpu} {name}"))
}

fn shown(metric: &str, value: f64) -> String {
    // beyond what any machine has it is cut, never wrong
    let whole = value.round() as i64;
    match metric {
        _ if metric.ends_with("_bytes_per_second") => format!("{}/s", bytes(whole)),
        _ if metric.ends_with("_bytes") => bytes(whole),
        _ if metric.ends_with("_percent") => format!("{value:.1} %"),
        _ if metric.ends_with("_celsius") => format!("{value:.0} °C"),
        _ if metric.ends_with("_watts") => format!("{value:.0} W"),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::MetricPoint;

    use super::*;

    #[test]
    fn d_90_a_row_has_the_last_the_mean_and_the_most_in_the_units_of_its_metric() {
        let cells = |metric: &str, gpu, values: &[f64]| {
            let points = values.iter().map(|value| MetricPoint {
                time: None,
                value: *value,
            });
            let series = MetricSeries {
                gpu,
                points: points.collect(),
                ..MetricSeries::default()
            };
            row(metric, &series).map(|cells| cells[..4].join(" | "))
        };
        assert_eq!(
            cells("cpu_percent", None, &[10.0, 50.0, 30.0]).as_deref(),
            Some("CPU | 30.0 % | 30.0 % | 50.0 %")
        );
        let sent = cells("network_sent_bytes_per_second", None, &[1_048_576.0]).expect("a row");
        assert!(sent.starts_with("Network sent | 1.0 MiB/s"), "{sent}");
        assert_eq!(
            cells("gpu_power_watts", Some(3), &[99.6, 100.4]).as_deref(),
            Some("GPU 3 power | 100 W | 100 W | 100 W")
        );
        assert_eq!(
            cells("fan_turns", None, &[2.5]).as_deref(),
            Some("fan_turns | 2.5 | 2.5 | 2.5")
        );
        assert_eq!(cells("cpu_percent", None, &[]), None);
    }
}
