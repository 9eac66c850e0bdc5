//! How-to pages against a gateway with a real database: every shell block runs as it stands, with the command line and curl. What
//! a page leaves to its reader is filled in. `sign-in.md` is not among them: a person signs in in a browser.
use std::path::PathBuf;
use std::process::Command;

use gpuaas_dev::paths;
use gpuaas_gateway::store::own_organisation;

use crate::world::World;

/// Where pages say that the API is.
const API: &str = "https://gpuaas.example.com";
/// An allocation that runs.
const VM: &str = "00000000-0000-0000-0000-000000000071";
/// A call that is refused fails, as a command does.
const SHELL: &str =
    "set -euo pipefail\ncurl() { command curl -sS --fail-with-body \"$@\"; echo; }\n";

/// The shell blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let path = paths::checkout().join("docs/how-to").join(page);
    let text = std::fs::read_to_string(path).expect("a page");
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start() == "```sh" {
            let block = lines.by_ref().take_while(|line| line.trim_start() != "```");
            found.push(block.map(|line| format!("{line}\n")).collect());
        }
    }
    found
}

/// A reader of pages, who owns the organisation `lab` and its project `demo`.
struct Reader {
    world: World,
    home: PathBuf,
}

impl Reader {
    async fn start() -> Self {
        let world = World::start().await;
        let pool = world.pool().await;
        own_organisation(&pool, world.seeded.organisation_id, "user:demo")
            .await
            .expect("an owner");
        world.record.owned_by(&world.seeded.project_id.to_string());
        let home = world.folder.path().join("reader");
        std::fs::create_dir(&home).expect("a folder");
        std::fs::write(home.join("token"), world.token("demo")).expect("a token");
        Self { world, home }
    }

    /// Runs a block with these words in place of others; answers what it printed.
    async fn run(&self, block: &str, fill: &[(&str, &str)]) -> String {
        let own = [(API, self.world.base.as_str())];
        let fill = fill.iter().chain(&own);
        let script = fill.fold(block.to_owned(), |script, (from, to)| {
            assert!(
                *from == API || script.contains(from),
                "nothing says {from} in {block}"
            );
            script.replace(from, to)
        });
        let programs = std::env::current_exe().expect("a test");
        let programs = programs
            .ancestors()
            .nth(2)
            .expect("target")
            .join("examples");
        let path = std::env::var("PATH").expect("a path");
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{SHELL}{script}")])
            .current_dir(&self.home)
            .env_clear()
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", &self.home)
            .env("GPUAAS_API", &self.world.base)
            .env("GPUAAS_TOKEN_FILE", self.home.join("token"))
            .env("TOKEN", self.world.token("demo"))
            .env("PROJECT", self.world.seeded.project_id.to_string());
        let ran = tokio::task::spawn_blocking(move || bash.output()).await;
        let ran = ran.expect("a task").expect("bash starts");
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{script}\n{text}\n{errors}");
        text
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_automation_does_what_it_says() {
    const ACCOUNT: &str =
        "$(gpuaas service-account list --output json | jq -r '.service_accounts[0].id')";
    let reader = Reader::start().await;
    let blocks = blocks("automation.md");
    let [commands, calls, call, exchange, ..] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    let listed = reader.run(commands, &[]).await;
    assert!(
        listed.contains("nightly") && listed.contains("read,write"),
        "{listed}"
    );
    // the same, so with another name
    let again = [
        ("\"slug\": \"ci\"", "\"slug\": \"build\""),
        ("$ACCOUNT", ACCOUNT),
    ];
    let made = reader.run(calls, &again).await;
    assert!(made.contains("\"key\":\"gpuaas_"), "{made}");
    let key = [("$KEY", "$(cat key)")];
    let listed = reader.run(call, &key).await;
    assert!(listed.starts_with('{'), "{listed}");
    let token = reader.run(exchange, &key).await;
    assert!(token.contains("\"token\":"), "{token}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_roles_does_what_it_says() {
    let reader = Reader::start().await;
    let world = &reader.world;
    world.users(&["bob"]).await;
    let project = world.seeded.project_id.to_string();
    world.member(&project, "bob", "viewer").await;
    world.record.runs(&[VM], &[]);
    let blocks = blocks("roles.md");
    let [grants, guardrails, ..] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    let of_vm = format!("add {VM}");
    let first = "delete $(gpuaas grant list --output json | jq -r '.grants[0].id')";
    let fill = [("add train", of_vm.as_str()), ("delete ID", first)];
    let said = reader.run(grants, &fill).await;
    assert!(said.contains("user:bob"), "{said}");
    assert_eq!(world.recorded("allocation_grant.delete").await, 1);
    let said = reader.run(guardrails, &[("acme", "lab")]).await;
    assert!(said.contains("terminals_disabled"), "{said}");
    let (_, set) = world
        .get(
            "demo",
            &format!(
                "/api/v1/organisations/{}/guardrails",
                world.seeded.organisation_id
            ),
        )
        .await;
    assert_eq!(set["allowed_regions"][1], "eu-2", "{set}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_webhooks_does_what_it_says() {
    const WEBHOOK: &str = "$(gpuaas webhook list --output json | jq -r '.webhooks[0].id')";
    let reader = Reader::start().await;
    let blocks = blocks("webhooks.md");
    let [make, deliveries, rotate, ..] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    let webhook = ("WEBHOOK", WEBHOOK);
    let said = reader.run(make, &[webhook]).await;
    assert!(
        said.contains("webhook.ping") && said.contains("allocation.failed"),
        "{said}"
    );
    // nobody answers there
    sqlx::query("UPDATE webhook_deliveries SET state = 'failed'")
        .execute(&reader.world.pool().await)
        .await
        .expect("failed");
    let delivery = format!(
        "$(gpuaas webhook delivery list {WEBHOOK} --output json | jq -r '.deliveries[0].id')"
    );
    let fill = [webhook, ("DELIVERY", delivery.as_str())];
    let said = reader.run(deliveries, &fill).await;
    assert!(said.contains("webhook.ping"), "{said}");
    assert_eq!(reader.world.recorded("webhook_delivery.redeliver").await, 1);
    let secret = std::fs::read_to_string(reader.home.join("secret")).expect("a secret");
    reader.run(rotate, &[webhook]).await;
    let rotated = std::fs::read_to_string(reader.home.join("secret")).expect("a secret");
    assert!(secret.starts_with("whsec_") && rotated.starts_with("whsec_"));
    assert_ne!(secret, rotated);
}
