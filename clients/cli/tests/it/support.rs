//! A scripted API and a way to run the built program against it.
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use serde_json::{Value, json};
use tempfile::TempDir;

/// One request as the API saw it.
#[derive(Clone, Debug)]
pub struct RecordedRequest {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub key: Option<String>,
    pub authorization: Option<String>,
    pub body: Value,
}

type Script = HashMap<(String, String), Vec<(u16, Value)>>;

#[derive(Clone, Default)]
struct Api {
    script: Arc<Mutex<Script>>,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

async fn answer(State(api): State<Api>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("body");
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned)
    };
    let target = parts.uri.to_string();
    api.seen.lock().expect("lock").push(RecordedRequest {
        method: parts.method.to_string(),
        target: target.clone(),
        key: header("x-idempotency-key"),
        authorization: header("authorization"),
        body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text_of(&bytes)),
    });
    let path = parts.uri.path().to_owned();
    let mut script = api.script.lock().expect("lock");
    let method = parts.method.to_string();
    let exact = script.contains_key(&(method.clone(), target.clone()));
    let key = (method, if exact { target } else { path });
    let (status, value) = match script.get_mut(&key) {
        Some(answers) if answers.len() > 1 => answers.remove(0),
        Some(answers) => answers[0].clone(),
        None => (
            404,
            error(
                404,
                "ROUTE_UNKNOWN",
                &format!("not scripted: {} {}", key.0, key.1),
                &[],
            ),
        ),
    };
    let text = match &value {
        // a stream: its lines, and then the connection is lost
        Value::Array(messages) if status == 200 => messages
            .iter()
            .map(|message| format!("{message}\n"))
            .collect(),
        value => value.to_string(),
    };
    let mut response = Response::builder();
    if let Some(seconds) = value["retry_after"].as_u64() {
        response = response.header("retry-after", seconds);
    }
    response
        .status(status)
        .header("content-type", "application/json")
        .header("x-request-id", "req-1")
        .body(Body::from(text))
        .expect("response")
}

/// A body that is not JSON: a form.
fn text_of(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() => text.into(),
        _ => Value::Null,
    }
}

/// An error answer of the API.
pub fn error(code: u16, reason: &str, message: &str, fields: &[(&str, &str)]) -> Value {
    let violations: Vec<Value> = fields
        .iter()
        .map(|(f, r)| json!({ "field": f, "description": r }))
        .collect();
    json!({ "error": { "code": code, "status": "X", "message": message, "details": [
        { "@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "gpuaas" },
        { "@type": "type.googleapis.com/google.rpc.BadRequest", "field_violations": violations },
        { "@type": "type.googleapis.com/google.rpc.RequestInfo", "request_id": "req-1" },
    ] } })
}

/// A refusal that carries its causes as the API does.
pub fn refusal(reason: &str, message: &str, causes: &[(&str, &str)]) -> Value {
    let mut refused = error(409, reason, message, &[]);
    for (cause, sentence) in causes {
        let details = &mut refused["error"]["details"][0]["metadata"];
        details[format!("{cause}.gpus")] = json!("8");
        details[format!("{cause}.nodes")] = json!("1");
        details[format!("{cause}.message")] = json!(sentence);
    }
    refused
}

/// Where a launch of four GPUs would fit.
pub fn explanation() -> Value {
    json!({ "region_code": "lab", "sku": "lab-slice", "gpu_count": 4, "nodes": 9, "nodes_fit": 1, "removed": [
        { "reason": "FRAGMENTED", "gpus": 12, "nodes": 8, "message": "12 GPUs are free on 8 nodes, but no node has 4 that can be used together." }
    ] })
}

/// The program, its home folder and the API it talks to.
pub struct World {
    api: Api,
    address: SocketAddr,
    pub home: TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl World {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let api = Api::default();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("listen");
        let address = listener.local_addr().expect("address");
        let router = Router::new().fallback(answer).with_state(api.clone());
        runtime.spawn(async move { axum::serve(listener, router).await });
        let home = tempfile::tempdir().expect("home");
        std::fs::write(home.path().join("token"), "user-token\n").expect("write");
        std::fs::write(home.path().join("admin-token"), "admin-token\n").expect("write");
        let profile = format!(
            "api = \"http://{address}\"\ntoken_file = \"token\"\nadmin_token_file = \"admin-token\"\n"
        );
        std::fs::write(home.path().join("profile.toml"), profile).expect("write");
        Self {
            api,
            address,
            home,
            _runtime: runtime,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Answers of one method and path (with or without its query), in order; the last one repeats.
    pub fn on(
        &self,
        method: &str,
        target: &str,
        answers: impl IntoIterator<Item = (u16, Value)>,
    ) -> &Self {
        self.api.script.lock().expect("lock").insert(
            (method.to_owned(), target.to_owned()),
            answers.into_iter().collect(),
        );
        self
    }

    pub fn get(&self, target: &str, answer: Value) -> &Self {
        self.on("GET", target, [(200, answer)])
    }

    pub fn seen(&self) -> Vec<RecordedRequest> {
        self.api.seen.lock().expect("lock").clone()
    }

    /// What changed something.
    pub fn changes(&self) -> Vec<RecordedRequest> {
        self.seen()
            .into_iter()
            .filter(|s| s.method != "GET")
            .collect()
    }

    /// A program that stands in for a system one: it prints its arguments, one per line.
    pub fn fake_program(&self, name: &str) {
        let bin = self.path("bin");
        std::fs::create_dir_all(&bin).expect("bin");
        let file = bin.join(name);
        std::fs::write(&file, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").expect("write");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuaas"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.home.path())
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin", self.path("bin").display()),
            )
            .env("TZ", "Europe/Berlin")
            .env("GPUAAS_PROFILE_FILE", self.path("profile.toml"));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::from(self.command(arguments).output().expect("the program runs"))
    }
}

/// What a run said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("text"),
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }
}

impl Ran {
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

pub const ID: &str = "01930000-0001-7000-8000-000000000001";

/// An allocation in a state.
pub fn allocation(state: &str) -> Value {
    let active = state == "active";
    let mut status = json!({
        "state": state,
        "power": if active { "running" } else { "unspecified" },
        "vm": "gpuaas-slice-x",
        "lab": true,
    });
    if active {
        status["access"] = json!({
            "guest_user": "u_0123456789abcdef",
            "private_ip": "10.0.0.5",
            "ssh_port": 22,
            "ssh_ready": true,
            "ssh_host": "127.0.0.1",
            "ssh_host_port": 2201,
            "ssh_host_keys": ["ssh-ed25519 AAAAHOST"],
        });
        status["active_time"] = json!("2026-01-31T12:01:00Z");
    }
    json!({
        "id": ID,
        "config": { "project_id": "p", "name": "first", "region_code": "lab", "sku": "lab-slice", "gpu_count": 1, "image": "lab-mini", "ssh_public_keys": [] },
        "status": status,
        "metadata": { "create_time": "2026-01-31T12:00:00Z", "revision": "1", "labels": {} },
    })
}

/// A message of a watch that tells an allocation's state.
pub fn changed(allocation: Value, token: &str) -> Value {
    let mut change = json!({ "kind": "modified" });
    change["allocation"] = allocation;
    json!({ "change": change, "resume_token": token })
}

/// A message of a watch that tells entries of a timeline.
pub fn entries(timeline: &Value, token: &str) -> Vec<Value> {
    let entries = timeline["entries"].as_array().expect("list");
    entries
        .iter()
        .map(|entry| json!({ "entry": entry, "resume_token": token }))
        .collect()
}

/// The message of a watch that is up to date.
pub fn synced(token: &str) -> Value {
    json!({ "synced": {}, "resume_token": token })
}

/// A watch that tells this at once.
pub fn stream(parts: impl IntoIterator<Item = Vec<Value>>) -> Value {
    Value::Array(parts.into_iter().flatten().collect())
}

pub fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("write");
}
