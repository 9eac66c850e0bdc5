//! Kill points for tests of crashes: in a development or test build the process aborts exactly where a file
//! requests it. A build without debug assertions, as every release is, has nothing of this.
//!
//! The variable `GPUAAS_KILL_FILE` names a file. When it holds `<workflow>.<step>:before` or `…:after` and the
//! runner is there, the file is removed, the point is written to `<file>.hit` and synced, and the process dies.

/// Where in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The step is recorded as running; its effect has not begun.
    Before,
    /// The effect is there; the step is not yet recorded as done.
    After,
}

/// Exits here if the kill file requests it.
#[cfg(not(debug_assertions))]
#[inline]
pub fn point(_kind: &str, _step: &str, _point: Point) {}

/// Exits here if the kill file requests it.
#[cfg(debug_assertions)]
pub fn point(kind: &str, step: &str, point: Point) {
    let Some(file) = std::env::var_os("GPUAAS_KILL_FILE").map(std::path::PathBuf::from) else {
        return;
    };
    let here = format!(
        "{kind}.{step}:{}",
        if point == Point::Before {
            "before"
        } else {
            "after"
        }
    );
    if std::fs::read_to_string(&file).is_ok_and(|requested| requested.trim() == here) {
        die(&file, &here);
    }
}

#[cfg(debug_assertions)]
fn die(file: &std::path::Path, here: &str) {
    use std::io::Write as _;
    let mut hit = file.as_os_str().to_owned();
    hit.push(".hit");
    // the order goes first: whoever reads the proof deletes an order that is still there
    let written = std::fs::remove_file(file)
        .and_then(|()| std::fs::File::create(&hit))
        .and_then(|mut f| {
            f.write_all(here.as_bytes())?;
            f.sync_all()
        });
    if let Err(error) = written {
        tracing::error!(point = here, "skip kill point: {error}");
        return;
    }
    // as hard as a crash: nothing is flushed, no destructor runs
    std::process::abort();
}
