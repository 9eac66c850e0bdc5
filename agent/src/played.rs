//! Tests of what asks programs of the host: they run themselves again with played programs in place of those, because a test
//! cannot change the PATH of its own process.
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Has the folder of the played programs; the programs themselves see it, too.
const FOLDER: &str = "GPUAAS_TEST_PLAYED";

/// The folder of the played programs, where they are in place.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// Runs the test of this name again, alone, with this script as each of these programs.
///
/// # Panics
/// The test fails, or there is none of this name.
pub(crate) fn run_again(test: &str, programs: &[&str], script: &str) {
    let dir = tempfile::tempdir().unwrap();
    for program in programs {
        let file = dir.path().join(program);
        std::fs::write(&file, script).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let again = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(FOLDER, dir.path())
        .env("PATH", format!("{}:{path}", dir.path().display()))
        .output()
        .unwrap();
    let reported = String::from_utf8_lossy(&again.stdout);
    assert!(
        again.status.success() && reported.contains("1 passed"),
        "{reported}{}",
        String::from_utf8_lossy(&again.stderr)
    );
}
