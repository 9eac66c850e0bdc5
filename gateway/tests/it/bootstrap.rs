//! The program's own subcommands, run as a development stack runs them.
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use gpuaas_dev::ca::Authority;
use gpuaas_dev::postgres::TestDb;
use gpuaas_gateway::auth::dev_issuer::DevIssuer;
use jiff::Timestamp;
use serde_json::Value;

use crate::world::{AUDIENCE, ISSUER, database, dev_settings};

fn gateway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gpuaas-gateway"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn write_config(db: &TestDb, folder: &Path) -> String {
    let database = database(db);
    let ca = Authority::open(&folder.join("ca"), 1).expect("authority");
    let identity = ca.service("gateway", &[]).expect("identity");
    let text = format!(
        "cell = 1\n[server]\nlisten = [\"127.0.0.1:1\"]\nmetrics_listen = \"127.0.0.1:2\"\n\
         [tls]\nca_file = {:?}\ncert_file = {:?}\nkey_file = {:?}\n\
         [database]\nhost = {:?}\nport = {}\nname = {:?}\nuser = {:?}\npassword_file = {:?}\n\
         [gateway.dev_issuer]\nkey_file = {:?}\nissuer = {ISSUER:?}\naudience = {AUDIENCE:?}\n",
        ca.authority().certificate,
        identity.certificate,
        identity.key,
        database.host,
        database.port,
        database.name,
        database.user,
        database.password_file.expect("set"),
        dev_settings(folder).key_file,
    );
    let file = folder.join("gateway.toml");
    std::fs::write(&file, text).expect("write");
    file.display().to_string()
}

#[tokio::test]
async fn the_first_rows_and_tokens_are_made_once() {
    let db = TestDb::create().await;
    let folder = tempfile::tempdir().expect("temp dir");
    let config = write_config(&db, folder.path());
    let (admin, user) = (folder.path().join("admin"), folder.path().join("user"));
    let paths = [admin.display().to_string(), user.display().to_string()];
    let run = || {
        let output = gateway(&[
            "--config",
            &config,
            "bootstrap",
            "--admin-token-file",
            &paths[0],
            "--user-token-file",
            &paths[1],
        ]);
        assert!(output.status.success(), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (summary, output)
    };
    let (first, output) = run();
    assert_eq!(
        (&first["rows_created"], &first["tokens_written"]),
        (&7.into(), &2.into())
    );
    let token = std::fs::read_to_string(&user).expect("token");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!said.contains(&token), "a token is never printed");
    for file in [&admin, &user, &dev_settings(folder.path()).key_file] {
        assert_eq!(
            std::fs::metadata(file).expect("there").permissions().mode() & 0o777,
            0o600
        );
    }
    let (again, _) = run();
    assert_eq!(
        (&again["rows_created"], &again["tokens_written"]),
        (&0.into(), &0.into())
    );
    assert_eq!(again["project_id"], first["project_id"]);
    assert_eq!(std::fs::read_to_string(&user).expect("token"), token);

    std::fs::write(&user, "spoiled").expect("write");
    assert_eq!(
        run().0["tokens_written"],
        1,
        "a token that is no good is replaced"
    );

    let listen = ["127.0.0.1:1".parse().expect("address")];
    let reached = dev_settings(folder.path()).reached_at(&listen, false);
    let dev = DevIssuer::open(reached).expect("issuer");
    let out = folder.path().join("short");
    let made = gateway(&[
        "--config",
        &config,
        "token",
        "--principal",
        "user:demo",
        "--out",
        &out.display().to_string(),
        "--seconds",
        "60",
    ]);
    assert!(made.status.success(), "{made:?}");
    let short = std::fs::read_to_string(&out).expect("token");
    let left = dev
        .remaining_seconds(&short, "demo", Timestamp::now())
        .expect("good");
    assert!((50..=60).contains(&left), "{left}");
    let unknown = gateway(&[
        "--config",
        &config,
        "token",
        "--principal",
        "user:nobody",
        "--out",
        &out.display().to_string(),
    ]);
    assert!(!unknown.status.success());
}

#[test]
fn the_document_is_printed_without_any_configuration() {
    let output = gateway(&["openapi"]);
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(document["info"]["title"], "GPUaaS");
}

#[test]
fn plaintext_beyond_loopback_is_refused() {
    let folder = tempfile::tempdir().expect("temp dir");
    let ca = Authority::open(&folder.path().join("ca"), 1).expect("authority");
    let identity = ca.service("gateway", &[]).expect("identity");
    let set = |key: &str, value: &Path| format!("{key}={}", value.display());
    let token = ca.signing_key("internal-token").expect("key");
    let text = "cell = 1\n[server]\nlisten = [\"0.0.0.0:0\"]\nmetrics_listen = \"127.0.0.1:0\"\n[database]\nhost = \"127.0.0.1\"\nport = 1\nname = \"x\"\nuser = \"x\"\n";
    let file = folder.path().join("gateway.toml");
    std::fs::write(&file, text).expect("write");
    let output = gateway(&[
        "--config",
        &file.display().to_string(),
        "--set",
        &set("tls.ca_file", &ca.authority().certificate),
        "--set",
        &set("tls.cert_file", &identity.certificate),
        "--set",
        &set("tls.key_file", &identity.key),
        "--set",
        &set("gateway.internal_key_file", &token.private),
        "--set",
        &set(
            "gateway.dev_issuer.key_file",
            &folder.path().join("dev.key"),
        ),
    ]);
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("plaintext is served on loopback only"),
        "{said}"
    );
}
