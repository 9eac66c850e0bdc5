//! `gpuaas terminal` and `gpuaas tunnel` against a scripted platform that cuts the connection, loses output and says no.
use std::collections::VecDeque;
use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::{ID, Ran, World};
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

const TICKET: &str = "7e57";

/// What the platform does on one connection.
#[derive(Clone)]
enum Step {
    /// Hears messages until this much input has come, and confirms it.
    Hear(u64),
    /// Hears this much input and does not confirm it.
    Miss(u64),
    Ready(Value),
    Say(Value),
    Output(u64, &'static str),
    Close(u16, &'static str),
    /// Hears that the client closes.
    Left,
    Cut,
}

#[derive(Default)]
struct Platform {
    connections: Mutex<VecDeque<Vec<Step>>>,
    /// First messages and headers of the upgrades.
    first: Mutex<Vec<Value>>,
    addresses: Mutex<Vec<String>>,
    tokens: Mutex<Vec<String>>,
    input: Mutex<Vec<u8>>,
    acked: Mutex<Vec<u64>>,
    /// Idempotency keys of those who asked for a ticket; the answers to so many of them had it and got lost.
    keys: Mutex<Vec<String>>,
    lost: usize,
}

async fn ticket(State(platform): State<Arc<Platform>>, headers: HeaderMap) -> Json<Value> {
    let key = headers["x-idempotency-key"].to_str().expect("text");
    let mut keys = platform.keys.lock().expect("lock");
    keys.push(key.to_owned());
    let ticket = match keys.len() <= platform.lost {
        true => "",
        false => TICKET,
    };
    Json(
        json!({"session_id": "s", "ticket": ticket, "websocket_path": "/api/v1/terminal", "subprotocol": "gpuaas.terminal.v1", "recorded": false}),
    )
}

async fn upgrade(
    State(platform): State<Arc<Platform>>,
    uri: Uri,
    headers: HeaderMap,
    socket: WebSocketUpgrade,
) -> Response {
    platform
        .addresses
        .lock()
        .expect("lock")
        .push(uri.to_string());
    let token = headers["authorization"].to_str().expect("text").to_owned();
    platform.tokens.lock().expect("lock").push(token);
    socket
        .protocols(["gpuaas.terminal.v1"])
        .on_upgrade(move |socket| serve(platform, socket))
}

async fn serve(platform: Arc<Platform>, mut socket: WebSocket) {
    let Some(Ok(Message::Text(first))) = socket.recv().await else {
        panic!("a text first")
    };
    platform
        .first
        .lock()
        .expect("lock")
        .push(serde_json::from_str(&first).expect("json"));
    let steps = platform
        .connections
        .lock()
        .expect("lock")
        .pop_front()
        .expect("a script");
    for step in steps {
        match step {
            Step::Ready(extra) => {
                let mut ready = json!({"type": "session_ready", "session_id": "s", "resume_token": "r1", "resume_seconds": 30,
                    "output_offset": 0, "input_offset": 0, "output_window": 262_144, "input_window": 65_536});
                for (key, value) in extra.as_object().expect("object") {
                    ready[key] = value.clone();
                }
                let _ = socket.send(Message::Text(ready.to_string().into())).await;
            }
            Step::Say(value) => drop(socket.send(Message::Text(value.to_string().into())).await),
            Step::Output(offset, text) => {
                let data = [&offset.to_be_bytes()[..], text.as_bytes()].concat();
                let _ = socket.send(Message::Binary(data.into())).await;
            }
            Step::Hear(end) | Step::Miss(end) => {
                let mut heard = 0;
                while heard < end {
                    match socket.recv().await {
                        Some(Ok(Message::Binary(data))) => {
                            let (offset, data) = data.split_first_chunk::<8>().expect("offset");
                            heard = u64::from_be_bytes(*offset) + data.len() as u64;
                            platform.input.lock().expect("lock").extend_from_slice(data);
                        }
                        Some(Ok(Message::Text(text))) => {
                            let text: Value = serde_json::from_str(&text).expect("json");
                            if text["type"] == "ack" {
                                platform
                                    .acked
                                    .lock()
                                    .expect("lock")
                                    .push(text["received"].as_u64().expect("offset"));
                            }
                        }
                        _ => return,
                    }
                }
                if matches!(step, Step::Hear(_)) {
                    let ack = json!({"type": "input_ack", "offset": heard});
                    let _ = socket.send(Message::Text(ack.to_string().into())).await;
                }
            }
            Step::Close(code, reason) => {
                let frame = CloseFrame {
                    code,
                    reason: reason.into(),
                };
                let _ = socket.send(Message::Close(Some(frame))).await;
                while let Some(Ok(_)) = socket.recv().await {}
                return;
            }
            Step::Left => {
                while let Some(Ok(said)) = socket.recv().await {
                    if let Message::Text(text) = said
                        && text.contains("\"close\"")
                    {
                        break;
                    }
                }
            }
            Step::Cut => return,
        }
    }
}

struct Stage {
    world: World,
    platform: Arc<Platform>,
    url: String,
    _runtime: Runtime,
}

impl Stage {
    fn new(connections: Vec<Vec<Step>>) -> Self {
        Self::with_lost_tickets(0, connections)
    }

    fn with_lost_tickets(lost: usize, connections: Vec<Vec<Step>>) -> Self {
        let platform = Arc::new(Platform {
            connections: Mutex::new(connections.into()),
            lost,
            ..Platform::default()
        });
        let router = Router::new()
            .route(
                &format!("/api/v1/allocations/{ID}/terminal-sessions"),
                post(ticket),
            )
            .route("/api/v1/terminal", get(upgrade))
            .with_state(platform.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .expect("listen");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self {
            world: World::new(),
            platform,
            url,
            _runtime: runtime,
        }
    }

    fn spawn(&self, command: &str, typed: &str) -> Child {
        let mut command = self.world.command(&["--api", &self.url, command, ID]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let input = child.stdin.as_mut().expect("pipe");
        input.write_all(typed.as_bytes()).expect("listens");
        child
    }

    /// Runs a terminal whose input ends after this.
    fn run(&self, typed: &str) -> Ran {
        let mut child = self.spawn("terminal", typed);
        drop(child.stdin.take());
        Ran::from(child.wait_with_output().expect("ends"))
    }

    /// Runs a tunnel whose input stays open, as that of ssh does.
    fn tunnel(&self, typed: &str) -> Ran {
        let mut child = self.spawn("tunnel", typed);
        let open = child.stdin.take();
        let ran = Ran::from(child.wait_with_output().expect("ends"));
        drop(open);
        ran
    }
}

fn exit(status: u8) -> Vec<Step> {
    vec![
        Step::Say(json!({"type": "exit", "status": status})),
        Step::Say(json!({"type": "closed", "reason": "exited", "message": "."})),
        Step::Close(1000, "exited"),
    ]
}

#[test]
fn a_shell_says_what_it_says_and_ends_as_it_ends() {
    let mut steps = vec![
        Step::Ready(json!({})),
        Step::Hear(7),
        Step::Output(0, "hi "),
        Step::Output(3, "there\r\n"),
    ];
    steps.extend(exit(7));
    let stage = Stage::new(vec![steps]);
    let ran = stage.run("exit 7");
    assert_eq!((ran.code, ran.out.as_str()), (7, "hi there\r\n"), "{ran:?}");
    let first = stage.platform.first.lock().expect("lock")[0].clone();
    assert_eq!(
        (&first["type"], &first["ticket"], &first["allocation_id"]),
        (&json!("attach"), &json!(TICKET), &json!(ID))
    );
    assert_eq!(
        (&first["cols"], &first["rows"], &first["term"]),
        (&json!(80), &json!(24), &json!("xterm-256color"))
    );
    assert_eq!(
        *stage.platform.addresses.lock().expect("lock"),
        ["/api/v1/terminal"],
        "nothing secret in the address"
    );
    assert_eq!(
        *stage.platform.tokens.lock().expect("lock"),
        ["Bearer user-token"]
    );
    // the end of the input is the shell's end of input
    assert!(
        stage
            .platform
            .input
            .lock()
            .expect("lock")
            .starts_with(b"exit 7")
    );
}

#[test]
fn a_ticket_that_was_lost_with_its_answer_is_replaced() {
    let mut steps = vec![Step::Ready(json!({})), Step::Hear(4)];
    steps.extend(exit(0));
    let stage = Stage::with_lost_tickets(1, vec![steps]);
    let ran = stage.run("exit");
    assert_eq!(ran.code, 0, "{ran:?}");
    let first = stage.platform.first.lock().expect("lock")[0].clone();
    assert_eq!(first["ticket"], TICKET);
    let keys = stage.platform.keys.lock().expect("lock").clone();
    assert!(keys.len() == 2 && keys[0] != keys[1], "{keys:?}");
}

#[test]
fn a_cut_connection_is_taken_up_where_it_was() {
    let again =
        json!({"resumed": true, "resume_token": "r2", "output_offset": 10, "input_offset": 2});
    let mut back = vec![
        Step::Ready(again),
        Step::Say(json!({"type": "gap", "from": 3, "to": 10})),
        Step::Output(10, "new"),
        Step::Hear(4),
    ];
    back.extend(exit(0));
    let stage = Stage::new(vec![
        vec![
            Step::Ready(json!({})),
            Step::Output(0, "old"),
            Step::Miss(4),
            Step::Cut,
        ],
        back,
    ]);
    let ran = stage.run("abc");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, "old\r\n[some output was lost]\r\nnew");
    let first = stage.platform.first.lock().expect("lock").clone();
    assert_eq!(
        (
            &first[1]["type"],
            &first[1]["resume_token"],
            &first[1]["received"]
        ),
        (&json!("resume"), &json!("r1"), &json!(3))
    );
    // "abc" and the end of the input, then only what the platform did not have; a slow one is told the end once more
    let input = stage.platform.input.lock().expect("lock").clone();
    assert!(input.starts_with(b"abc\x04c\x04"), "{input:?}");
}

#[test]
fn a_shell_that_misses_the_end_of_its_input_is_told_again() {
    // it drops what came before its prompt, as a shell does that sets up its terminal
    let mut steps = vec![
        Step::Ready(json!({})),
        Step::Hear(1),
        Step::Output(0, "$ "),
        Step::Hear(2),
    ];
    steps.extend(exit(0));
    let stage = Stage::new(vec![steps]);
    let ran = stage.run("");
    assert_eq!((ran.code, ran.out.as_str()), (0, "$ "), "{ran:?}");
    assert_eq!(*stage.platform.input.lock().expect("lock"), b"\x04\x04");
}

#[test]
fn input_from_elsewhere_waits_for_the_prompt() {
    let mut steps = vec![Step::Ready(json!({})), Step::Output(0, "$ "), Step::Hear(3)];
    steps.extend(exit(0));
    let stage = Stage::new(vec![steps]);
    assert_eq!(stage.run("ls").code, 0);
    let input = stage.platform.input.lock().expect("lock").clone();
    assert!(input.starts_with(b"ls\x04"), "{input:?}");
}

#[test]
fn refusals_are_told_in_the_platforms_words() {
    for (reason, close, code) in [
        ("allocation_ended", 4410, 1),
        ("host_unreachable", 4502, 5),
        ("process_lost", 4503, 5),
        ("too_many_sessions", 4409, 1),
    ] {
        let closed = json!({"type": "closed", "reason": reason, "message": "What to do about it."});
        let stage = Stage::new(vec![vec![Step::Say(closed), Step::Close(close, reason)]]);
        let ran = stage.run("");
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(ran.err.contains("What to do about it."), "{ran:?}");
        assert!(!ran.err.contains(TICKET));
    }
}

fn tunnel_ready() -> Step {
    Step::Ready(json!({"kind": "ssh_tunnel", "resume_token": "", "resume_seconds": 0}))
}

#[test]
fn a_tunnel_carries_what_passes_until_the_other_end_closes() {
    let mut steps = vec![
        tunnel_ready(),
        Step::Output(0, "SSH-2.0-guest\r\n"),
        Step::Hear(16),
        Step::Output(15, "~.\u{4}"),
    ];
    steps.extend(exit(0));
    let stage = Stage::new(vec![steps]);
    let ran = stage.tunnel("SSH-2.0-me\r\n~.\u{4}\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("SSH-2.0-guest\r\n~.\u{4}", "")
    );
    // nothing of it is a key of a terminal
    assert_eq!(
        *stage.platform.input.lock().expect("lock"),
        b"SSH-2.0-me\r\n~.\x04\n"
    );
    let first = stage.platform.first.lock().expect("lock")[0].clone();
    assert_eq!(first["ticket"], TICKET);
}

#[test]
fn a_tunnel_whose_input_ends_sends_all_of_it_and_leaves() {
    let steps = vec![
        tunnel_ready(),
        Step::Hear(5),
        Step::Left,
        Step::Close(1000, "closed_by_client"),
    ];
    let stage = Stage::new(vec![steps]);
    let mut child = stage.spawn("tunnel", "hello");
    drop(child.stdin.take());
    let ran = Ran::from(child.wait_with_output().expect("ends"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(*stage.platform.input.lock().expect("lock"), b"hello");
}

#[test]
fn a_tunnel_that_breaks_is_not_taken_up_again() {
    let steps = vec![tunnel_ready(), Step::Output(0, "SSH"), Step::Cut];
    let stage = Stage::new(vec![steps]);
    let ran = stage.tunnel("");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("the tunnel with it"), "{ran:?}");
    assert_eq!(stage.platform.addresses.lock().expect("lock").len(), 1);
}

#[test]
fn a_platform_that_gives_a_shell_in_place_of_a_tunnel_gets_no_input() {
    let steps = vec![
        Step::Ready(json!({})),
        Step::Left,
        Step::Close(1000, "closed_by_client"),
    ];
    let stage = Stage::new(vec![steps]);
    let ran = stage.tunnel("rm -rf /");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("--via network"), "{ran:?}");
    assert!(stage.platform.input.lock().expect("lock").is_empty());
}

#[test]
fn a_tunnel_that_is_refused_says_why() {
    let closed =
        json!({"type": "closed", "reason": "recording_required", "message": "Use a terminal."});
    let stage = Stage::new(vec![vec![
        Step::Say(closed),
        Step::Close(4403, "recording_required"),
    ]]);
    let ran = stage.tunnel("");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("Use a terminal."), "{ran:?}");
}

#[test]
fn sessions_are_ended_by_their_user_and_by_an_operator_with_a_reason() {
    let world = World::new();
    let own = format!("/api/v1/allocations/{ID}/terminal-sessions/s1:end");
    let open =
        json!({ "id": "s1", "principal": "user:ada", "end_request_time": "2026-01-31T12:00:00Z" });
    world.on("POST", &own, [(200, open)]);
    let ran = world.run(&["terminal-session", "end", ID, "s1"]).ok();
    assert_eq!(ran.out, "The session of user:ada ends within seconds.\n");
    let closed = json!({ "id": "s1", "principal": "user:ada", "close_time": "2026-01-31T12:00:00Z", "close_reason": "idle" });
    let path = "/api/v1/admin/terminal-sessions/s1:end";
    world.on("POST", path, [(200, closed)]);
    let end = ["admin", "terminal-session", "end", "s1"];
    assert_eq!(world.run(&end).code, 2, "a reason is needed");
    let ran = world.run(&[&end[..], &["--reason", "a stolen laptop"]].concat());
    let ran = ran.ok();
    assert!(
        ran.out.starts_with("The session of user:ada has ended at ")
            && ran.out.ends_with(": idle.\n"),
        "{ran:?}"
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "reason": "a stolen laptop" }));
}
