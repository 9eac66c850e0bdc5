//! What a guest reports of its memory and its GPUs. It is the tenant's to report: it is read as numbers within bounds, or not
//! at all, and nothing of it is ever text of ours.
use gpuaas_proto::gpuaas::common::v1::{GuestMetricsState, VmMetric};

use super::series::Key;
use crate::guest::command::Answer;

/// Collects all at once, in the shell of the guest user. The lines that divide the answer are printed by us.
pub const COMMAND: &str = "cat /proc/meminfo; echo gpuaas-gpus; command -v nvidia-smi >/dev/null 2>&1 || \
     { echo gpuaas-no-gpu-tool; exit 0; }; nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,\
     temperature.gpu,power.draw --format=csv,noheader,nounits 2>/dev/null || echo gpuaas-gpu-tool-failed";

const GPUS: &str = "gpuaas-gpus";
const NO_TOOL: &str = "gpuaas-no-gpu-tool";
/// GPUs of one VM that are believed.
const MOST_GPUS: u32 = 16;
/// Most memory that is believed: 1 PiB.
const MOST_BYTES: f64 = (1_u64 << 50) as f64;
const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * 1024.0;

/// What a guest reported.
#[derive(Debug, PartialEq)]
pub struct Report {
    pub state: GuestMetricsState,
    pub values: Vec<(Key, f64)>,
}

/// Reads an answer to [`COMMAND`].
pub fn parse(answer: &Answer) -> Report {
    let malformed = Report {
        state: GuestMetricsState::Malformed,
        values: Vec::new(),
    };
    let Ok(text) = std::str::from_utf8(&answer.output) else {
        return malformed;
    };
    let mut lines = text.lines();
    let meminfo: Vec<&str> = lines.by_ref().take_while(|line| *line != GPUS).collect();
    let Some(memory) = memory(&meminfo).filter(|_| !answer.cut) else {
        return malformed;
    };
    let gpus: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let mut values = memory.to_vec();
    let state = match parse_gpus(&gpus) {
        _ if gpus == [NO_TOOL] => GuestMetricsState::NoGpuTool,
        Some(found) => {
            values.extend(found);
            GuestMetricsState::Complete
        }
        None => GuestMetricsState::GpuToolFailed,
    };
    Report { state, values }
}

fn memory(meminfo: &[&str]) -> Option<[(Key, f64); 2]> {
    let bytes = |name: &str| {
        let line = meminfo.iter().find_map(|line| line.strip_prefix(name))?;
        let kib = line.strip_suffix("kB")?.trim();
        number(kib, MOST_BYTES / KIB).map(|kib| kib * KIB)
    };
    let (total, available) = (bytes("MemTotal:")?, bytes("MemAvailable:")?);
    (available <= total).then_some([
        ((VmMetric::MemoryUsedBytes, None), total - available),
        ((VmMetric::MemoryTotalBytes, None), total),
    ])
}

/// One line per GPU; none: something of it is no table of GPUs.
fn parse_gpus(lines: &[&str]) -> Option<Vec<(Key, f64)>> {
    let mut values: Vec<(Key, f64)> = Vec::new();
    for line in lines {
        let found = gpu(line)?;
        let index = found.first().map(|((_, index), _)| *index);
        let known = values.iter().any(|((_, known), _)| Some(*known) == index);
        if known {
            return None;
        }
        values.extend(found);
    }
    (!values.is_empty()).then_some(values)
}

/// `0, 35, 1024, 143771, 41, 120.53`. A GPU reports "[N/A]" of what it does not measure.
fn gpu(line: &str) -> Option<Vec<(Key, f64)>> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [index, percent, used, total, celsius, watts] = fields[..] else {
        return None;
    };
    let index: u32 = index.parse().ok().filter(|index| *index < MOST_GPUS)?;
    let mut values = Vec::new();
    for (metric, field, most, unit) in [
        (VmMetric::GpuUtilizationPercent, percent, 100.0, 1.0),
        (VmMetric::GpuMemoryUsedBytes, used, MOST_BYTES / MIB, MIB),
        (VmMetric::GpuMemoryTotalBytes, total, MOST_BYTES / MIB, MIB),
        (VmMetric::GpuTemperatureCelsius, celsius, 200.0, 1.0),
        (VmMetric::GpuPowerWatts, watts, 10_000.0, 1.0),
    ] {
        if !matches!(field, "[N/A]" | "[Not Supported]") {
            values.push(((metric, Some(index)), number(field, most)? * unit));
        }
    }
    (!values.is_empty()).then_some(values)
}

/// Digits, and at most one point; not beyond `most`. Anything else that Rust takes for a number, such as `inf`, is none.
fn number(text: &str, most: f64) -> Option<f64> {
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number: f64 = text.parse().ok()?;
    (is_plain && number <= most).then_some(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MEMORY: &str = "MemTotal:       2000 kB\nMemFree:  1 kB\nMemAvailable:   500 kB\n";

    fn report_of(output: &str) -> Report {
        parse(&Answer {
            exit_status: Some(0),
            output: output.into(),
            cut: false,
        })
    }

    fn with_gpus(lines: &str) -> Report {
        report_of(&format!("{MEMORY}{GPUS}\n{lines}"))
    }

    #[test]
    fn d_90_a_guest_with_gpus_reports_memory_and_each_gpu() {
        let report = with_gpus("0, 35, 1024, 143771, 41, 120.53\n1, 0, 0, 143771, [N/A], 70\n");
        assert_eq!(report.state, GuestMetricsState::Complete);
        let of = |metric, gpu| {
            let found = report.values.iter().find(|(key, _)| *key == (metric, gpu));
            found.map(|(_, value)| *value)
        };
        assert_eq!(of(VmMetric::MemoryUsedBytes, None), Some(1500.0 * KIB));
        assert_eq!(of(VmMetric::MemoryTotalBytes, None), Some(2000.0 * KIB));
        assert_eq!(of(VmMetric::GpuUtilizationPercent, Some(0)), Some(35.0));
        assert_eq!(
            of(VmMetric::GpuMemoryUsedBytes, Some(0)),
            Some(1024.0 * MIB)
        );
        assert_eq!(of(VmMetric::GpuPowerWatts, Some(0)), Some(120.53));
        assert_eq!(of(VmMetric::GpuTemperatureCelsius, Some(1)), None);
        assert_eq!(of(VmMetric::GpuPowerWatts, Some(1)), Some(70.0));
        assert_eq!(report.values.len(), 2 + 5 + 4);
    }

    #[test]
    fn d_90_a_guest_without_the_tool_reports_its_memory_and_that_it_has_none() {
        let report = with_gpus("gpuaas-no-gpu-tool\n");
        assert_eq!(report.state, GuestMetricsState::NoGpuTool);
        assert_eq!(report.values.len(), 2);
    }

    #[test]
    fn d_90_what_is_no_table_of_gpus_gives_no_gpu() {
        for lines in [
            "",
            "gpuaas-gpu-tool-failed\n",
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver\n",
            "0, 35, 1024, 143771, 41\n",
            "0, 35, 1024, 143771, 41, 120.53, 7\n",
            "16, 35, 1024, 143771, 41, 120.53\n",
            "-1, 35, 1024, 143771, 41, 120.53\n",
            "0, 101, 1024, 143771, 41, 120.53\n",
            "0, -5, 1024, 143771, 41, 120.53\n",
            "0, inf, 1024, 143771, 41, 120.53\n",
            "0, NaN, 1024, 143771, 41, 120.53\n",
            "0, 1e2, 1024, 143771, 41, 120.53\n",
            "0, 35, 99999999999999999999, 143771, 41, 120.53\n",
            "0, [N/A], [N/A], [N/A], [N/A], [N/A]\n",
            "0, 35, 1, 2, 41, 120\n0, 35, 1, 2, 41, 120\n",
            "0, 35, 1, 2, 41, 120\ngpuaas-no-gpu-tool\n",
            "evil\"} 1\nagent_vm_cpu_seconds_total{allocation_id=\"x\n",
        ] {
            let report = with_gpus(lines);
            assert_eq!(report.state, GuestMetricsState::GpuToolFailed, "{lines:?}");
            assert_eq!(report.values.len(), 2, "{lines:?}");
        }
    }

    #[test]
    fn d_90_what_is_no_meminfo_gives_nothing() {
        for output in [
            "",
            "gpuaas-gpus\n0, 35, 1, 2, 41, 120\n",
            "MemTotal: 2000 kB\n",
            "MemTotal: 2000 kB\nMemAvailable: 3000 kB\n",
            "MemTotal: 2000 MB\nMemAvailable: 30 kB\n",
            "MemTotal: 9999999999999999999 kB\nMemAvailable: 30 kB\n",
        ] {
            assert_eq!(
                report_of(output).state,
                GuestMetricsState::Malformed,
                "{output:?}"
            );
            assert_eq!(report_of(output).values, [], "{output:?}");
        }
        let cut = parse(&Answer {
            exit_status: None,
            output: format!("{MEMORY}{GPUS}\n{NO_TOOL}\n").into(),
            cut: true,
        });
        assert_eq!(cut.state, GuestMetricsState::Malformed);
        let bytes = parse(&Answer {
            exit_status: Some(0),
            output: vec![0xff; 100],
            cut: false,
        });
        assert_eq!(bytes.state, GuestMetricsState::Malformed);
    }

    proptest! {
        #[test]
        fn d_90_whatever_a_guest_reports_is_numbers_within_bounds(output in proptest::collection::vec(any::<u8>(), 0..300), gpus in ".{0,80}") {
            for output in [output, format!("{MEMORY}{GPUS}\n{gpus}").into_bytes()] {
                let report = parse(&Answer { exit_status: Some(0), output, cut: false });
                for ((_, gpu), value) in report.values {
                    prop_assert!(value.is_finite() && (0.0..=MOST_BYTES).contains(&value));
                    prop_assert!(gpu.is_none_or(|index| index < MOST_GPUS));
                }
            }
        }
    }
}
