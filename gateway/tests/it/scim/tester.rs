//! The checks of PyPI's `scim2-tester`, which nobody here wrote.
use gpuaas_dev::paths;
use tokio::process::Command;

use super::Provider;

#[tokio::test]
async fn all_that_is_declared_passes_with_scim2_tester() {
    let provider = Provider::start().await;
    let script = paths::checkout().join("gateway/tests/scim2-tester.sh");
    let checked = Command::new(script)
        .arg(provider.world.url("/scim/v2"))
        .env("SCIM_KEY", &provider.key)
        .output()
        .await
        .expect("bash starts");
    let said = String::from_utf8_lossy(&checked.stdout);
    let errors = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}{errors}");
    assert!(said.contains("0 failed"), "{said}{errors}");
}
