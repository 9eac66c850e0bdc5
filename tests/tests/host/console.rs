//! The console in a real Chromium: its pages with a played API, then all of it on a stack of its own whose slots wait for
//! approval.
use gpuaas_dev::paths;
use gpuaas_tests::runner::{Case, Place};
use tokio::process::Command;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        every_page_of_the_console_in_a_browser: 240,
        the_console_on_a_stack_in_a_browser: 600,
    ]
}

async fn every_page_of_the_console_in_a_browser() {
    drive("pages").await;
}

async fn the_console_on_a_stack_in_a_browser() {
    drive("live").await;
}

async fn drive(part: &str) {
    let script = paths::checkout().join("deploy/test-console.sh");
    let mut command = Command::new(script);
    let ended = command.arg(part).output().await.expect("bash starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{errors}");
}
