//! What the platform knows of the node: its mode, and the topology that its agent reported (I-18, I-19).
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::line::{Line, Status};
use crate::checks::API_TOPOLOGY;

const CHECK: &str = API_TOPOLOGY.id;
const DISCOVER: &str = "run discovery again: gpuaas admin node discover ID";
/// Longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(20);

/// The platform's API, asked about one node.
pub struct Api {
    client: Client,
    base: Url,
    token: String,
    node_id: Uuid,
}

#[derive(Deserialize)]
struct Node {
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    mode: String,
}

#[derive(Deserialize)]
struct Discovery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    error: String,
    candidate_summary: Option<Summary>,
}

#[derive(Deserialize)]
struct Summary {
    #[serde(default)]
    candidate_slots: u32,
    #[serde(default)]
    blockers: Vec<String>,
}

/// Why the API did not answer.
enum Unanswered {
    Status(StatusCode),
    Other(reqwest::Error),
}

impl Unanswered {
    fn line(&self) -> Line {
        let (detail, remediation) = match self {
            Self::Status(status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)) => (
                format!("the API answered {status}"),
                "give the token of a platform administrator by --api-token-file",
            ),
            Self::Status(StatusCode::NOT_FOUND) => (
                "the API knows no such node, or it was never inspected".to_owned(),
                "check --node-id, and run discovery: gpuaas admin node discover ID",
            ),
            Self::Status(status) => (
                format!("the API answered {status}"),
                "see the gateway's log",
            ),
            Self::Other(error) => (
                format!("the API cannot be reached: {}", causes(error)),
                "check --api-base, and that its certificate is trusted here (--api-ca-file)",
            ),
        };
        Line::new(Status::Fail, CHECK, detail, remediation)
    }
}

/// An error with what caused it, without the address that may carry a name and password.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::from("request failed");
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        text = one.to_string();
        cause = one.source();
    }
    text
}

impl Api {
    /// # Errors
    /// The address is none, the token cannot be read or cannot be sent, the CA is none.
    pub fn new(
        base: &str,
        token_file: &Path,
        ca_file: Option<&PathBuf>,
        node_id: Uuid,
    ) -> anyhow::Result<Self> {
        let base = Url::parse(base)
            .context("--api-base must be an address such as https://api.example.com")?;
        let token = std::fs::read_to_string(token_file)
            .with_context(|| format!("--api-token-file {} cannot be read", token_file.display()))?;
        let mut client = Client::builder().timeout(LIMIT);
        if let Some(file) = ca_file {
            let pem = std::fs::read(file)
                .with_context(|| format!("--api-ca-file {} cannot be read", file.display()))?;
            let ca =
                reqwest::Certificate::from_pem(&pem).context("--api-ca-file must be a PEM file")?;
            client = client.add_root_certificate(ca);
        }
        Ok(Self {
            client: client.build()?,
            base,
            token: token.trim().to_owned(),
            node_id,
        })
    }

    async fn get<T: DeserializeOwned>(&self, below: &str) -> Result<T, Unanswered> {
        let path = format!("/api/v1/admin/nodes/{}{below}", self.node_id);
        let address = self.base.join(&path).expect("a path joins any base");
        let answer = self
            .client
            .get(address)
            .bearer_auth(&self.token)
            .send()
            .await;
        let answer = answer.map_err(Unanswered::Other)?;
        if !answer.status().is_success() {
            return Err(Unanswered::Status(answer.status()));
        }
        answer.json().await.map_err(Unanswered::Other)
    }

    /// Whether the node is meant for bare metal, where slice services may be absent (INC-07).
    pub async fn is_bare_metal(&self) -> bool {
        let node: Result<Node, _> = self.get("").await;
        node.is_ok_and(|node| node.config.mode == "baremetal")
    }

    /// The condition `api_topology`.
    pub async fn topology(&self) -> Line {
        match self.get("/slice-topology/discovery").await {
            Ok(discovery) => judge(&discovery),
            Err(unanswered) => unanswered.line(),
        }
    }
}

/// What is told when nothing of the API was asked (I-19, I-20).
pub fn local_checks_only() -> Line {
    Line::new(
        Status::Warn,
        CHECK,
        "local checks only",
        "give --api-base, --api-token-file and --node-id before the node is approved",
    )
}

fn judge(discovery: &Discovery) -> Line {
    let failed = |detail: String, remediation| Line::new(Status::Fail, CHECK, detail, remediation);
    match (&discovery.candidate_summary, discovery.state.as_str()) {
        (Some(summary), "completed") if summary.blockers.is_empty() => Line::new(
            Status::Pass,
            CHECK,
            format!("completed, {} candidate slots", summary.candidate_slots),
            "",
        ),
        (Some(summary), "completed") => failed(
            format!("blockers: {}", summary.blockers.join("; ")),
            API_TOPOLOGY.remedy,
        ),
        (_, "failed") => failed(format!("discovery failed: {}", discovery.error), DISCOVER),
        (_, state) => failed(format!("discovery is {state}"), DISCOVER),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn judged(json: serde_json::Value) -> Line {
        judge(&serde_json::from_value(json).expect("a discovery"))
    }

    #[test]
    fn i_18_only_a_completed_discovery_without_blockers_passes() {
        let line = judged(serde_json::json!({
            "state": "completed", "candidate_summary": {"candidate_slots": 8}
        }));
        assert_eq!(line.status, Status::Pass);
        assert_eq!(line.detail, "completed, 8 candidate slots");
        for (json, detail) in [
            (
                serde_json::json!({"state": "completed", "candidate_summary": {"blockers": ["no NAT", "no bridge"]}}),
                "blockers: no NAT; no bridge",
            ),
            (
                serde_json::json!({"state": "running"}),
                "discovery is running",
            ),
            (
                serde_json::json!({"state": "failed", "error": "timeout", "candidate_summary": {}}),
                "discovery failed: timeout",
            ),
            (
                serde_json::json!({"state": "completed"}),
                "discovery is completed",
            ),
        ] {
            let line = judged(json);
            assert_eq!((line.status, line.detail.as_str()), (Status::Fail, detail));
            assert!(!line.remediation.is_empty());
        }
        assert_eq!(local_checks_only().status, Status::Warn);
    }

    /// Answers every request the same; returns the address and what the first request was.
    async fn server(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let requested = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let read = stream.read_buf(&mut request).await.expect("a request");
                assert!(read > 0, "the caller left");
            }
            stream
                .write_all(answer.as_bytes())
                .await
                .expect("an answer");
            String::from_utf8(request).expect("text")
        });
        (address, requested)
    }

    #[tokio::test]
    async fn h_10_the_platform_is_asked_with_the_administrators_token() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("token");
        std::fs::write(&file, "secret\n").expect("a file");
        let node = Uuid::now_v7();
        let body = r#"{"state":"completed","candidate_summary":{"candidate_slots":2}}"#;
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let (base, requested) = server(answer.leak()).await;
        let line = Api::new(&base, &file, None, node)
            .expect("an API")
            .topology()
            .await;
        assert_eq!(line.status, Status::Pass, "{line}");
        let requested = requested.await.expect("a request");
        assert!(requested.starts_with(&format!(
            "GET /api/v1/admin/nodes/{node}/slice-topology/discovery "
        )));
        assert!(
            requested.contains("authorization: Bearer secret\r\n"),
            "{requested}"
        );

        let (base, _) = server("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n").await;
        let line = Api::new(&base, &file, None, node)
            .expect("an API")
            .topology()
            .await;
        assert_eq!(line.status, Status::Fail);
        assert!(
            line.detail.contains("403") && !line.to_string().contains("secret"),
            "{line}"
        );

        let gone = Api::new("http://127.0.0.1:1", &file, None, node).expect("an API");
        let line = gone.topology().await;
        assert_eq!(line.status, Status::Fail);
        assert!(line.detail.contains("cannot be reached"), "{line}");
        assert!(Api::new("nonsense", &file, None, node).is_err());
    }
}
