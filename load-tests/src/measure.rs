//! What every measurement shares: memory of processes, percentiles, and the line that says under which circumstances
//! a table came about.
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use gpuaas_dev::process::Process;

/// Resident memory of a process in KiB; 0 when it is gone.
pub fn memory_kib(process: &Process) -> f64 {
    process.memory().unwrap_or(0) as f64 / 1024.0
}

/// Processor time of a process and of the children it has waited for, in seconds; nothing when it is gone.
pub fn cpu_seconds(process: &Process) -> Option<f64> {
    let cpu = Cpu::of(process.pid)?;
    Some(cpu.own + cpu.waited)
}

/// Processor time of a process, of its children that run and of those it has waited for, in seconds; nothing when it
/// is gone.
pub fn cpu_seconds_with_children(process: &Process) -> Option<f64> {
    let mut sum = cpu_seconds(process)?;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        // one that ends meanwhile is counted with its parent
        let found = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some(cpu) = found.and_then(Cpu::of)
            && cpu.parent == process.pid
        {
            sum += cpu.own + cpu.waited;
        }
    }
    Some(sum)
}

/// Processor time of the live threads of a process, to the nanosecond, in milliseconds; 0 when it is gone.
pub fn threads_ms(process: &Process) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.pid));
    let of_task = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let nanoseconds: f64 = tasks
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(of_task)
        .sum();
    nanoseconds / 1e6
}

/// Processor time of a process, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    parent: i32,
    /// Its own.
    pub own: f64,
    /// That of the children it has waited for.
    pub waited: f64,
}

impl Cpu {
    /// What a process has used so far; nothing when it is gone.
    #[must_use]
    pub fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let parent = fields.get(1)?.parse().ok()?;
        // USER_HZ is 100 on every Linux
        let seconds = |index: usize| Some(fields.get(index)?.parse::<f64>().ok()? / 100.0);
        Some(Self {
            parent,
            own: seconds(11)? + seconds(12)?,
            waited: seconds(13)? + seconds(14)?,
        })
    }
}

/// A percentile of sorted times, in milliseconds; 0 when there are none.
pub fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let found = sorted.get(last * percent / 100);
    found.map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

/// The median of values in any order; 0 when there are none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// When, on what, with which build, and beside what a table was made.
pub fn circumstances() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?").to_owned();
    let build = build();
    let now = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%d %H:%M UTC"])
        .output()
        .map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
        .unwrap_or_default();
    format!("{now}, {cores} cores, {build} build, load average at the start {load}")
}

/// The build of this program, and so of those beside it, after the folder that it lies in.
fn build() -> &'static str {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().and_then(Path::file_name);
    match folder.and_then(OsStr::to_str) {
        Some("release") => "release",
        Some("measure") => "optimised (profile `measure`)",
        _ => "development",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let times: Vec<Duration> = (1..=101).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), 51.0);
        assert_eq!(percentile(&times, 99), 100.0);
        assert_eq!(percentile(&[], 50), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn this_process_has_memory() {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let process = Process::of(pid).expect("we run");
        assert!(memory_kib(&process) > 100.0);
    }

    #[test]
    fn circumstances_name_day_and_build() {
        let line = circumstances();
        assert!(line.starts_with("20") && line.contains(" build"), "{line}");
    }
}
