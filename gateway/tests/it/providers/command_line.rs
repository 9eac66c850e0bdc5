//! The command line with identity providers that nobody here wrote.
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{CALLBACK, Client, Trusting};
use crate::visitor::{Ended, Visitor};

#[tokio::test]
async fn the_command_line_signs_in_and_out_with_oidc_provider() {
    let trusting = Trusting::oidc_provider(Client::Test).await;
    let login = trusting.login();
    let mut login = trusting.gpuaas(&login).spawn().expect("it starts");
    let said = login.stderr.take().expect("piped");
    let mut said = BufReader::new(said).lines();
    let page = loop {
        let line = said.next_line().await.expect("text");
        let line = line.expect("it names a page before it ends");
        if line.trim().starts_with(&trusting.issuer) {
            break line.trim().to_owned();
        }
    };
    let mut browser = Visitor::new(&[("login", "ada"), ("password", "x")]);
    let done = browser.visit(&page, CALLBACK).await;
    assert!(
        matches!(&done, Ended::Page(page) if page.contains("Success")),
        "{done:?}"
    );
    let ended = login.wait_with_output().await.expect("it ends");
    let text = String::from_utf8(ended.stdout).expect("text");
    assert!(
        ended.status.success() && text.contains("Signed in as user:ada"),
        "{text}"
    );
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(worked && said.contains("user:ada"), "{said}");

    // a token that has ended is renewed by the provider
    let file = trusting.world.folder.path();
    let file = file.join(".config/gpuaas/contexts.json");
    let read = || -> Value {
        let text = std::fs::read_to_string(&file).expect("the contexts");
        serde_json::from_str(&text).expect("JSON")
    };
    let mut contexts = read();
    let name = contexts["current"].as_str().expect("a name").to_owned();
    let tokens = contexts["contexts"][&name]["tokens"].clone();
    contexts["contexts"][&name]["tokens"]["expires"] = 1.into();
    std::fs::write(&file, contexts.to_string()).expect("written");
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(worked && said.contains("user:ada"), "{said}");
    let renewed = read()["contexts"][&name]["tokens"].clone();
    assert_ne!(renewed["access_token"], tokens["access_token"]);

    let (worked, said) = trusting.ran(&["logout"]).await;
    assert!(worked && !said.contains("did not revoke"), "{said}");
    let (worked, said) = trusting.ran(&["whoami"]).await;
    assert!(!worked && said.contains("gpuaas login"), "{said}");
    let refresh = renewed["refresh_token"].as_str().expect("a token");
    let fields = [
        ("grant_type", "refresh_token"),
        ("client_id", "cli"),
        ("refresh_token", refresh),
    ];
    let (status, body) = trusting.post("token_endpoint", &fields).await;
    assert_eq!(
        (status, &body["error"]),
        (400, &"invalid_grant".into()),
        "the provider has ended it, too"
    );
}

#[tokio::test]
async fn the_command_line_says_that_it_cannot_sign_in_with_canaille() {
    let trusting = Trusting::canaille(Client::Test).await;
    let login = trusting.login();
    let (worked, said) = trusting.ran(&login).await;
    assert!(
        !worked && said.contains("has no device authorization"),
        "{said}"
    );
    let (worked, said) = trusting.ran(&["context", "list", "--output", "json"]).await;
    assert!(worked && said.contains("\"contexts\": []"), "{said}");
}
