//! A terminal into a real VM, through everything: console protocol, edge, terminal gateway, agent, relay key. And a tunnel, in
//! which the user's own ssh logs in.
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use gpuaas_dev::seed::Tokens;
use gpuaas_dev::{ports, process};
use gpuaas_tests::canary;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        f_01_f_06_a_terminal_into_a_real_guest_ends_with_its_release: 20,
        f_06_f_08_a_terminal_ends_with_the_power_and_a_new_one_opens_after_it: 40,
        ssh_and_forwarded_ports_go_through_the_platform_and_end_with_the_release: 25,
    ]
}

/// D-84, D-88: the agent logs in by the relay key that the seed gave to the user.
async fn f_01_f_06_a_terminal_into_a_real_guest_ends_with_its_release() {
    let system = System::get().await;
    let id = system
        .user
        .launch("terminal", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let guest_user = active["status"]["access"]["guest_user"]
        .as_str()
        .expect("a user")
        .to_owned();

    // the command line, with the shell's exit code
    let typed = "echo slice-terminal-$((40+2)); id -un; tty; stty size; exit 7\n";
    let said = tokio::task::block_in_place(|| system.terminal(&id, typed));
    let output = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.status.code(), Some(7), "{said:?}");
    for part in [
        "slice-terminal-42",
        guest_user.as_str(),
        "/dev/pts/",
        "24 80",
    ] {
        assert!(output.contains(part), "{part} in {output}");
    }

    // a page's session: cut, resumed, then ended by the release
    let (mut socket, ready) = page(&system, &id).await;
    type_in(&mut socket, 0, "echo before-$((1+1))\n").await;
    let received = read_until(&mut socket, "before-2", 0).await;
    drop(socket);
    let mut socket = connect(&system).await;
    let resume = json!({"type": "resume", "session_id": ready["session_id"], "resume_token": ready["resume_token"],
        "received": received, "cols": 100, "rows": 30});
    socket
        .send(Message::text(resume.to_string()))
        .await
        .expect("sent");
    let again = text_of(&mut socket, "session_ready").await;
    assert_eq!(again["resumed"], true);
    assert_eq!(again["output_offset"].as_u64(), Some(received));
    let offset = again["input_offset"].as_u64().expect("offset");
    type_in(&mut socket, offset, "echo after-$((1+2)); stty size\n").await;
    read_until(&mut socket, "30 100", received).await;

    system.user.release(&id).await;
    let closed = text_of(&mut socket, "closed").await;
    assert_eq!(closed["reason"], "allocation_ended");
    let refused = system
        .user
        .post(
            &format!("/api/v1/allocations/{id}/terminal-sessions"),
            json!({}),
        )
        .await
        .expect_err("it is over");
    assert_eq!(refused.reason(), "STATE_CONFLICT");
    let listed = close_reasons(&system, &id).await;
    assert_eq!(listed, ["allocation_ended", "exited"]);
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

async fn f_06_f_08_a_terminal_ends_with_the_power_and_a_new_one_opens_after_it() {
    let system = System::get().await;
    let id = system
        .user
        .launch("terminal-power", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    the_relay_key_stays_on_its_host(&system, &active).await;

    let mut reasons = Vec::new();
    for (verb, word, power) in [
        ("stop", "stopped", "stopped"),
        ("reboot", "rebooted", "running"),
    ] {
        let (mut socket, _) = page(&system, &id).await;
        type_in(&mut socket, 0, "echo slice-terminal-ok $(hostname)\n").await;
        read_until(&mut socket, "slice-terminal-ok terminal-power", 0).await;
        let (closed, _) = tokio::join!(
            text_of(&mut socket, "closed"),
            system.user.power(&id, verb, power)
        );
        assert_eq!(closed["reason"], "powered_off", "{verb}: {closed}");
        let message = closed["message"].as_str().expect("a sentence");
        assert!(message.contains(word), "{verb}: {message}");
        reasons.push("powered_off");
        if power == "stopped" {
            let path = format!("/api/v1/allocations/{id}/terminal-sessions");
            let refused = system.user.post(&path, json!({})).await;
            let refused = refused.expect_err("nothing runs");
            assert_eq!(refused.reason(), "STATE_CONFLICT");
            system.user.power(&id, "start", "running").await;
        }
    }
    let typed = "echo after-$((1+2)); exit 5\n";
    let said = tokio::task::block_in_place(|| system.terminal(&id, typed));
    assert_eq!(said.status.code(), Some(5), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("after-3"));

    reasons.insert(0, "exited");
    assert_eq!(close_reasons(&system, &id).await, reasons);
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// A program that runs, and ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        // one that has ended need not be ended
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `gpuaas` with a private key and a way through the platform.
fn through_the_platform(system: &System, verb: &[&str]) -> Command {
    let mut command = system.cli();
    command
        .args(verb)
        .args(["--via", "platform", "-i"])
        .arg(&system.key_file);
    command
}

/// Runs a command in a guest by `gpuaas ssh`, with this input.
fn said_through(system: &System, id: &str, command: &str, input: &[u8]) -> Output {
    let mut child = through_the_platform(system, &["ssh", id])
        .args(["-o", "ConnectTimeout=60", "--", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).expect("it listens"));
        child.wait_with_output().expect("it ends")
    })
}

/// What a forwarded port answers to a request of a page; none when nothing listens yet.
fn answer(port: u16) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .ok()?;
    stream.write_all(b"GET /page HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(answer).filter(|answer| !answer.is_empty())
}

async fn ssh_and_forwarded_ports_go_through_the_platform_and_end_with_the_release() {
    let system = System::get().await;
    let id = system
        .user
        .launch("tunnel", "lab-mini", &system.public_key)
        .await;
    system.user.wait_state(&id, &["active"], TIMEOUT).await;

    // files there and back, byte by byte
    let file: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    let said = tokio::task::block_in_place(|| {
        said_through(&system, &id, "uname -n; cat > /tmp/page", &file)
    });
    assert!(said.status.success(), "{said:?}");
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "tunnel");
    let back =
        tokio::task::block_in_place(|| said_through(&system, &id, "cat /tmp/page; exit 3", b""));
    assert_eq!(back.status.code(), Some(3), "the command's own exit code");
    assert!(back.stdout == file, "{} bytes", back.stdout.len());

    // a service that listens inside the VM alone
    let serve = "busybox httpd -p 127.0.0.1:8888 -h /tmp > /dev/null 2>&1";
    let said = tokio::task::block_in_place(|| said_through(&system, &id, serve, b""));
    assert!(said.status.success(), "{said:?}");
    let local = ports::free().expect("port");
    let forward = through_the_platform(&system, &["port-forward", &id, &format!("{local}:8888")])
        .stdin(Stdio::null())
        .spawn()
        .expect("the program is built");
    let mut forward = Running(forward);
    let page = until("the forwarded port to answer", TIMEOUT, async || {
        tokio::task::block_in_place(|| answer(local))
    })
    .await;
    assert!(page.starts_with(b"HTTP/1."));
    assert!(page.ends_with(&file), "{} bytes", page.len());

    system.user.release(&id).await;
    until("the forward to end", TIMEOUT, async || {
        forward.0.try_wait().expect("waited for")
    })
    .await;
    let reasons = close_reasons(&system, &id).await;
    assert_eq!(reasons[0], "allocation_ended", "{reasons:?}");
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// The private half is a file of the host that only its owner reads; the guest got the public half alone.
async fn the_relay_key_stays_on_its_host(system: &System, active: &Value) {
    let key = system.stack.options().root.join("lab/terminal/id_ed25519");
    let mode = std::fs::metadata(&key)
        .expect("the key")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let private = std::fs::read_to_string(&key).expect("the key");
    // OpenSSH's format has the secret in the fourth line of base64
    let secret = private.lines().nth(4).expect("lines of a key");
    let public = process::run("ssh-keygen", &["-y", "-f", &key.display().to_string()]);
    let public = public.expect("ssh-keygen");
    let public: Vec<&str> = public.split_whitespace().take(2).collect();
    let public = public.join(" ");

    let login = system.ssh(active, "cat .ssh/authorized_keys");
    let trusted = String::from_utf8_lossy(&login.stdout).into_owned();
    assert!(trusted.contains(&public), "{login:?}");
    assert!(!trusted.contains(secret));
    let slots = system.slots().await;
    let slot = slots
        .iter()
        .position(|s| s["allocation_id"] == active["id"]);
    let disk = system.disk_file(slot.expect("a slot is held"));
    assert_eq!(canary::occurrences(&disk, secret.as_bytes()), 0);
    let vm = active["status"]["vm"].as_str().expect("a name");
    let lab = system.stack.lab();
    let seed = lab.agent_folder().join("seeds").join(vm).join("seed.iso");
    assert!(!seed.exists(), "a VM that runs needs its seed no more");
}

/// Why the sessions of an allocation ended, the newest first, once all have.
async fn close_reasons(system: &System, id: &str) -> Vec<String> {
    until("all sessions to be closed", TIMEOUT, async || {
        let path = format!("/api/v1/allocations/{id}/terminal-sessions");
        let listed = system.user.get(&path).await.ok()?["sessions"].clone();
        let reason = |session: &Value| Some(session["close_reason"].as_str()?.to_owned());
        let reasons: Vec<String> = listed.as_array()?.iter().filter_map(reason).collect();
        let ended = reasons.iter().all(|reason| !reason.is_empty());
        (ended && Some(reasons.len()) == listed.as_array().map(Vec::len)).then_some(reasons)
    })
    .await
}

type Socket =
    tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

/// Connects as a page of the console does.
async fn connect(system: &System) -> Socket {
    let api = system.stack.api_url();
    let url = format!("{}/api/v1/terminal", api.replacen("http", "ws", 1));
    let mut request = url.into_client_request().expect("url");
    let headers = request.headers_mut();
    headers.insert("origin", api.parse().expect("header"));
    headers.insert(
        "sec-websocket-protocol",
        "gpuaas.terminal.v1".parse().expect("header"),
    );
    tokio_tungstenite::connect_async(request)
        .await
        .expect("upgraded")
        .0
}

async fn page(system: &System, id: &str) -> (Socket, Value) {
    let api = system.stack.api_url();
    let token =
        std::fs::read_to_string(Tokens::of(&system.stack.options().root).user).expect("token");
    let ticket: Value = reqwest::Client::new()
        .post(format!("{api}/api/v1/allocations/{id}/terminal-sessions"))
        .bearer_auth(token.trim())
        .header("x-idempotency-key", uuid::Uuid::now_v7().to_string())
        .header("origin", &api)
        .json(&json!({}))
        .send()
        .await
        .expect("answer")
        .json()
        .await
        .expect("json");
    let mut socket = connect(system).await;
    let attach = json!({"type": "attach", "ticket": ticket["ticket"], "allocation_id": id, "cols": 80, "rows": 24});
    socket
        .send(Message::text(attach.to_string()))
        .await
        .expect("sent");
    let ready = text_of(&mut socket, "session_ready").await;
    (socket, ready)
}

async fn next(socket: &mut Socket) -> Message {
    let next = tokio::time::timeout(Duration::from_secs(90), socket.next()).await;
    next.expect("something is said in time")
        .expect("connected")
        .expect("unbroken")
}

async fn text_of(socket: &mut Socket, kind: &str) -> Value {
    loop {
        if let Message::Text(text) = next(socket).await {
            let value: Value = serde_json::from_str(&text).expect("json");
            if value["type"] == kind {
                return value;
            }
            assert_ne!(value["type"], "closed", "{value}");
        }
    }
}

async fn type_in(socket: &mut Socket, offset: u64, typed: &str) {
    let mut message = offset.to_be_bytes().to_vec();
    message.extend_from_slice(typed.as_bytes());
    socket.send(Message::binary(message)).await.expect("sent");
}

/// Reads and acknowledges output until it holds this; returns the offset after it.
async fn read_until(socket: &mut Socket, needle: &str, mut received: u64) -> u64 {
    let mut output = String::new();
    while !output.contains(needle) {
        if let Message::Binary(data) = next(socket).await {
            output.push_str(&String::from_utf8_lossy(&data[8..]));
            received += data.len() as u64 - 8;
            let ack = json!({"type": "ack", "received": received});
            socket
                .send(Message::text(ack.to_string()))
                .await
                .expect("sent");
        }
    }
    received
}
