//! What every measurement shares: memory of processes, and the line that says under which circumstances a table came
//! about.
use gpuaas_dev::process::Process;

/// Resident memory of a process in KiB; 0 when it is gone.
pub fn memory_kib(process: &Process) -> f64 {
    process.memory().unwrap_or(0) as f64 / 1024.0
}

/// When, on what, with which build, and beside what a table was made.
pub fn circumstances() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("?").to_owned();
    let build = if cfg!(debug_assertions) {
        "development"
    } else {
        "release"
    };
    let now = std::process::Command::new("date")
        .args(["-u", "+%Y-%m-%d %H:%M UTC"])
        .output()
        .map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
        .unwrap_or_default();
    format!("{now}, {cores} cores, {build} build, load average at the start {load}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
