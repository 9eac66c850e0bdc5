//! A WebSocket that the platform refuses to open.
use serde_json::{Value, json};

use crate::support::{ID, World, error};

const TICKET: &str = "7e57";

/// A platform that gives a ticket and then answers like this.
fn world(status: u16, answer: &Value) -> World {
    let world = World::new();
    let ticket = json!({ "session_id": "s", "ticket": TICKET, "websocket_path": "/api/v1/terminal",
        "subprotocol": "gpuaas.terminal.v1" });
    let tickets = format!("/api/v1/allocations/{ID}/terminal-sessions");
    world.on("POST", &tickets, [(200, ticket)]);
    world.on("GET", "/api/v1/terminal", [(status, answer.clone())]);
    world
}

#[test]
fn a_refused_websocket_is_reported_like_any_refused_call() {
    for (status, reason, code, advice) in [
        (401, "CREDENTIAL_EXPIRED", 4, "gpuaas login"),
        (403, "GUARDRAIL", 4, ""),
        (404, "ALLOCATION_NOT_FOUND", 3, "gpuaas list --all"),
        (429, "RATE_LIMITED", 5, "Try again in 7 s."),
        (503, "OVERLOADED", 5, "Try again in 7 s."),
    ] {
        let mut refused = error(status, reason, "What is wrong.", &[]);
        refused["retry_after"] = json!(7);
        let world = world(status, &refused);
        for command in ["terminal", "tunnel"] {
            let ran = world.run(&[command, ID]);
            assert_eq!((ran.code, ran.out.as_str()), (code, ""), "{ran:?}");
            assert!(ran.err.starts_with("error: What is wrong.\n"), "{ran:?}");
            for reported in [reason, "request: req-1", advice] {
                assert!(ran.err.contains(reported), "{reported}: {ran:?}");
            }
            assert!(!ran.err.contains(TICKET), "{ran:?}");
        }
        let opened = world.seen();
        let opened: Vec<_> = opened.iter().filter(|seen| seen.method == "GET").collect();
        assert_eq!(opened.len(), 2, "once each");
        let token = opened[0].authorization.as_deref();
        assert_eq!(token, Some("Bearer user-token"));
        let ran = world.run(&["terminal", ID, "--output", "json"]);
        let shown: Value = serde_json::from_str(&ran.err).expect("the API's own error");
        assert_eq!(shown, refused);
    }
}

#[test]
fn what_stands_before_the_platform_refuses_in_its_own_words() {
    for (status, code) in [(502, 5), (403, 4)] {
        let ran = world(status, &json!("<html>refused</html>")).run(&["terminal", ID]);
        assert_eq!(ran.code, code, "{ran:?}");
        let message = format!("error: the API returned status {status} without details\n");
        assert!(ran.err.starts_with(&message), "{ran:?}");
    }
}
