//! The console in a real Chromium with identity providers that nobody here wrote, at the providers' own pages.
use gpuaas_dev::paths;
use tokio::process::Command;

use super::{Client, Trusting};

/// So short that the console renews them while a test looks at it.
const SECONDS: u32 = 15;

async fn ran(command: &mut Command) {
    let ended = command.output().await.expect("it starts");
    let said = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{errors}");
    print!("{said}");
}

/// What a person does there; `e2e/providers.mjs` has the steps.
async fn signs_in(trusting: &Trusting, provider: &str) {
    let checkout = paths::checkout();
    for script in ["deploy/build-console.sh", "deploy/chromium.sh"] {
        ran(&mut Command::new(checkout.join(script))).await;
    }
    let screenshots = checkout.join(".run/test/console-screenshots/providers");
    let mut steps = Command::new("node");
    steps
        .args(["e2e/providers.mjs", provider])
        .args([&trusting.world.base, &trusting.issuer])
        .arg(screenshots)
        .current_dir(checkout.join("clients/console"))
        .kill_on_drop(true);
    ran(&mut steps).await;
}

/// Its ID tokens are for the API, so the console does not know for whom they sign in.
#[tokio::test]
async fn the_console_signs_nobody_in_with_canaille() {
    let trusting = Trusting::canaille(Client::Console(SECONDS)).await;
    signs_in(&trusting, "canaille").await;
}

/// Ada is an administrator, of whom the gateway asks for a second factor.
#[tokio::test]
async fn the_console_with_oidc_provider() {
    let trusting = Trusting::oidc_provider(Client::Console(SECONDS)).await;
    let promoted =
        sqlx::query("UPDATE principals SET platform_role = 'admin' WHERE name = 'user:ada'")
            .execute(&trusting.world.pool().await)
            .await;
    assert_eq!(promoted.expect("promoted").rows_affected(), 1);
    signs_in(&trusting, "oidc-provider").await;
}
