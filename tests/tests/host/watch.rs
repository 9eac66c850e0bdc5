//! Watching a launch and a release of a real VM through the public API, while the gateway and the allocation service
//! are killed and started again: the reader goes on by its token and misses nothing.
use std::collections::BTreeMap;
use std::time::Duration;

use gpuaas_dev::part::Part;
use gpuaas_dev::stack::Kind;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::Value;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        p8_a_watch_misses_nothing_while_gateway_and_allocation_are_killed: 20,
    ]
}

/// A live stream gives a sign of life more often.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(40);

/// A reader of one stream, over any number of connections.
struct Reader {
    http: reqwest::Client,
    address: String,
    bearer: String,
    token: String,
    open: Option<reqwest::Response>,
    begun: Vec<u8>,
    /// Connections that were opened.
    opened: usize,
}

impl Reader {
    fn new(system: &System, path: &str) -> Self {
        let tokens = gpuaas_dev::seed::Tokens::of(&system.stack.options().root);
        let bearer = std::fs::read_to_string(tokens.user).expect("a token");
        Self {
            http: reqwest::Client::new(),
            address: format!("{}{path}", system.stack.api_url()),
            bearer: bearer.trim().to_owned(),
            token: String::new(),
            open: None,
            begun: Vec::new(),
            opened: 0,
        }
    }

    /// The next message; opens the stream again after its last one as often as it must.
    async fn next(&mut self) -> Value {
        until("a message of the watch", TIMEOUT, async || {
            let message = self.receive().await;
            if message.is_none() {
                self.open = None;
                self.begun.clear();
            }
            message
        })
        .await
    }

    /// A message of the present connection; none when it is lost, refused, or ends with an error.
    async fn receive(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                let message: Value = serde_json::from_slice(&line).expect("a line of JSON");
                if message["error"].is_object() {
                    return None;
                }
                if let Some(token) = message["resume_token"].as_str() {
                    token.clone_into(&mut self.token);
                }
                return Some(message);
            }
            if self.open.is_none() {
                let mut request = self.http.get(&self.address).bearer_auth(&self.bearer);
                if !self.token.is_empty() {
                    request = request.query(&[("resume_token", &self.token)]);
                }
                let response = request.send().await.ok()?;
                if response.status() != 200 {
                    return None;
                }
                self.opened += 1;
                self.open = Some(response);
            }
            let open = self.open.as_mut()?;
            let part = tokio::time::timeout(HEARTBEAT_TIMEOUT, open.chunk()).await;
            self.begun.extend_from_slice(&part.ok()?.ok()??);
        }
    }
}

/// What a stream told so far.
#[derive(Default)]
struct Reported {
    /// (sequence, state, percent, message) as they came.
    entries: Vec<(i64, String, i64, String)>,
    states: Vec<String>,
    is_over: bool,
}

impl Reported {
    fn take(&mut self, message: &Value) {
        if let Some(entry) = message.get("entry") {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            let sequence = text("sequence").parse().expect("a number");
            let percent = entry["percent"].as_i64().unwrap_or_default();
            self.entries
                .push((sequence, text("state"), percent, text("message")));
        }
        if let Some(change) = message.get("change") {
            let state = &change["allocation"]["status"]["state"];
            self.states
                .push(state.as_str().unwrap_or_default().to_owned());
        }
        self.is_over = message.get("end").is_some();
    }
}

fn gateway(system: &System) -> Part {
    let kind = Kind::find("gateway").expect("known");
    system.stack.service(kind, 1).expect("settings")
}

async fn up_again(system: &System) {
    system.allocation_up(1).await;
    let part = gateway(system);
    part.ensure().expect("starts");
    part.wait_ready(system.stack.health()).await.expect("ready");
}

async fn p8_a_watch_misses_nothing_while_gateway_and_allocation_are_killed() {
    let system = System::get().await;
    let id = system
        .user
        .launch("watched", "lab-mini", &system.public_key)
        .await;
    let mut reader = Reader::new(&system, &format!("/api/v1/allocations/{id}:watch"));
    let mut reported = Reported::default();

    // in the middle of the launch
    while reported.entries.len() < 4 {
        reported.take(&reader.next().await);
    }
    assert_ne!(reported.states.last().map(String::as_str), Some("active"));
    system.allocation(1).kill();
    gateway(&system).kill();
    assert_eq!(reader.opened, 1);
    up_again(&system).await;
    while reported.states.last().map(String::as_str) != Some("active") {
        assert!(!reported.is_over, "{:?}", reported.states);
        reported.take(&reader.next().await);
    }
    assert!(reader.opened >= 2, "it was opened again");

    // and of the release
    system.user.release(&id).await;
    while reported.states.last().map(String::as_str) != Some("releasing") {
        reported.take(&reader.next().await);
    }
    gateway(&system).kill();
    system.allocation(1).kill();
    up_again(&system).await;
    while !reported.is_over {
        reported.take(&reader.next().await);
    }
    assert_eq!(reported.states.last().map(String::as_str), Some("released"));

    let path = format!("/api/v1/allocations/{id}/timeline?page_size=500");
    let timeline = system.user.get(&path).await.expect("the timeline");
    let stored: BTreeMap<i64, String> = timeline["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|entry| {
            let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
            (text("sequence").parse().expect("a number"), text("state"))
        })
        .collect();
    let last: BTreeMap<i64, String> = reported
        .entries
        .iter()
        .map(|(sequence, state, ..)| (*sequence, state.clone()))
        .collect();
    assert_eq!(last, stored, "every entry came, and its last state");
    let mut once = reported.entries.clone();
    once.sort();
    once.dedup();
    assert_eq!(
        once.len(),
        reported.entries.len(),
        "each change of an entry came once: {:?}",
        reported.entries
    );
    system.assert_nothing_left().await;
}
