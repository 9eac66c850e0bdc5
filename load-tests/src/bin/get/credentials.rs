//! What callers show the gateway: tokens of the issuer, API keys, and the short tokens that API keys are exchanged for.
use std::process::Command;

use anyhow::Context as _;
use gpuaas_dev::seed::{Api, string};
use gpuaas_dev::{paths, process};
use gpuaas_load_tests::system::{GATEWAY, System};
use serde_json::json;
use uuid::Uuid;

/// The member whom the stack's bootstrap registers.
const MEMBER: &str = "user:demo";
/// Lifetime of a token, and of each that is made after it one more.
const LIFETIME_SECONDS: usize = 3_600;

/// As many of each, and none of them shown to the gateway yet, but the keys that a short token was had for.
#[derive(Debug)]
pub struct Credentials {
    /// Tokens of the issuer, all of one member.
    pub tokens: Vec<String>,
    /// API keys, all of one service account.
    pub keys: Vec<String>,
    /// Short tokens, each for another key of that account.
    pub short: Vec<String>,
}

impl Credentials {
    /// Makes them by the gateway's program and by the API.
    ///
    /// # Errors
    /// What the program or the API answers.
    pub async fn make(system: &System<'_>, count: usize) -> anyhow::Result<Self> {
        let project = format!("/api/v1/projects/{}", system.project);
        let slug = format!("bench-{}", Uuid::now_v7().simple());
        let account = json!({"slug": slug, "role": "member"});
        let path = format!("{project}/service-accounts");
        let account = system.user.post(&path, &slug, &account).await?;
        let path = format!("{path}/{}/api-keys", string(&account["id"]));
        let mut made = Self {
            tokens: Vec::with_capacity(count),
            keys: Vec::with_capacity(count),
            short: Vec::with_capacity(count),
        };
        let file = system.root().join("tokens/bench");
        for number in 0..count {
            process::output(
                Command::new(system.stack.program("gpuaas-gateway"))
                    .arg("--config")
                    .arg(system.stack.config_file(GATEWAY))
                    .args(["token", "--principal", MEMBER, "--out"])
                    .arg(&file)
                    // those of one second and one lifetime are one token
                    .args(["--seconds", &(LIFETIME_SECONDS + number).to_string()]),
            )?;
            let token = std::fs::read_to_string(&file).context("read the token")?;
            made.tokens.push(token.trim().to_owned());
            made.keys.push(key(system, &path).await?);
            paths::write_with_mode(&file, key(system, &path).await?.as_bytes(), 0o600)?;
            let caller = Api::new(&system.stack.api_url(), &file)?;
            let answer = caller
                .post(
                    "/api/v1/auth/token",
                    &Uuid::now_v7().to_string(),
                    &json!({}),
                )
                .await?;
            made.short.push(string(&answer["token"]).to_owned());
        }
        std::fs::remove_file(&file).context("remove the last key")?;
        Ok(made)
    }
}

async fn key(system: &System<'_>, path: &str) -> anyhow::Result<String> {
    let body = json!({"scopes": ["read"]});
    let key = system
        .user
        .post(path, &Uuid::now_v7().to_string(), &body)
        .await?;
    Ok(string(&key["key"]).to_owned())
}
