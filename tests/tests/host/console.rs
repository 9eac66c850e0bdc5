//! The console in a real Chromium, on a stack of its own whose slots wait for approval.
use gpuaas_dev::paths;
use gpuaas_tests::runner::{Case, Place};
use tokio::process::Command;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host; the_console_in_a_browser: 380]
}

async fn the_console_in_a_browser() {
    let script = paths::checkout().join("deploy/test-console.sh");
    let ended = Command::new(script).output().await.expect("bash starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{errors}");
}
