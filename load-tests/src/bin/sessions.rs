//! What an idle terminal costs: resident memory of gateway and terminal gateway per open session, next to an Envoy
//! that carries the same WebSockets in the same run and does nothing else. Prints Markdown.
//!
//! The sessions lead to a host that this program plays: no guest of the lab holds so many shells. The two measured
//! processes, their database and everything between them are real.
//!
//! usage: make bench-edge
//!        sessions [SESSIONS]
use anyhow::{Context as _, bail};
use gpuaas_common::CancellationToken;
use gpuaas_dev::ports;
use gpuaas_load_tests::envoy::Envoy;
use gpuaas_load_tests::measure::{circumstances, memory_kib};
use gpuaas_load_tests::socket::Terminal;
use gpuaas_load_tests::stand_in::{self, Host};
use gpuaas_load_tests::system::{self, GATEWAY, Hosts, System};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let sessions: usize = std::env::args()
        .nth(1)
        .map_or(Ok(500), |text| text.parse())?;
    let port = ports::free()?;
    let peer = format!("peers.allocation=https://127.0.0.1:{port}");
    let most = format!("terminal_gateway.max_sessions_per_user={}", sessions + 1);
    let settings = [
        ("terminal-gateway", peer.as_str()),
        ("terminal-gateway", &most),
        // Envoy is one peer, and so is whoever calls without it
        (GATEWAY, "gateway.terminal.max_connections_per_peer=0"),
        (GATEWAY, "gateway.terminal.max_connections_per_principal=0"),
        (GATEWAY, "gateway.max_connections_per_peer=0"),
    ];
    system::with(Hosts::None, &settings, async |system| {
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let host = stand_in::start(system, port, &stop)?;
        measure(system, &host, sessions).await
    })
    .await
}

async fn measure(system: &System<'_>, host: &Host, sessions: usize) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let gateway = system.address(GATEWAY)?;
    let envoy = Envoy::relay(&system.root().join("envoy"), gateway)?;
    let mut processes = vec![("Envoy".to_owned(), envoy.process()?)];
    for part in [GATEWAY, "terminal-gateway"] {
        processes.push((part.to_owned(), system.process(part).await?));
    }
    let memory = || -> Vec<f64> { processes.iter().map(|(_, one)| memory_kib(one)).collect() };
    // the first ones pay for connections, pools and code that is loaded once
    for _ in 0..10 {
        open(system, &envoy, host).await?.close().await?;
    }
    let before = memory();
    let (go, reported) = watch::channel(false);
    let (done, mut answered) = mpsc::channel(1);
    let mut all = JoinSet::new();
    for number in 1..=sessions {
        let terminal = open(system, &envoy, host).await?;
        all.spawn(keep(terminal, reported.clone(), done.clone()));
        if number % 100 == 0 {
            eprintln!("{number} sessions are open");
        }
    }
    let idle = memory();
    go.send(true)?;
    for _ in 0..sessions {
        answered.recv().await.context("the sessions go on")??;
    }
    let used = memory();
    let each = |now: f64, then: f64| (now - then) / sessions as f64;
    let peer = each(used[0], before[0]);
    println!("{circumstances}\n");
    println!(
        "| {sessions} idle sessions | before, MiB | with them, MiB | each, KiB | each after a line, KiB | ratio |"
    );
    println!("|---|---|---|---|---|---|");
    for (index, (part, _)) in processes.iter().enumerate() {
        let [then, idle, used] = [before[index], idle[index], used[index]];
        println!(
            "| {part} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} |",
            then / 1024.0,
            idle / 1024.0,
            each(idle, then),
            each(used, then),
            each(used, then) / peer
        );
    }
    Ok(())
}

/// Keeps a session: answers pings until it is told to type a line, says that the line came back, and goes on.
async fn keep(
    mut terminal: Terminal,
    mut reported: watch::Receiver<bool>,
    done: mpsc::Sender<anyhow::Result<()>>,
) {
    let line = async {
        tokio::select! {
            said = terminal.output() => bail!("an idle shell said {said:?}"),
            reported = reported.wait_for(|reported| *reported) => drop(reported?),
        }
        terminal.type_in(b"alive\n").await?;
        terminal.until("alive\n").await
    };
    // who does not wait for it any more has failed already
    let _ = done.send(line.await).await;
    let _ended = terminal.output().await;
}

/// Opens a session whose WebSocket goes through Envoy.
async fn open(system: &System<'_>, envoy: &Envoy, host: &Host) -> anyhow::Result<Terminal> {
    let allocation = host.allocation_id.to_string();
    Terminal::open(
        &system.user,
        &format!("http://{}", envoy.address),
        &allocation,
    )
    .await
}
