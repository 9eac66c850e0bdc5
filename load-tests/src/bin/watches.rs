//! What thousands of watching consoles cost: memory per stream in the gateway and in the service of allocations, and
//! the time from a request that changes an allocation until every reader has the change. Next to Envoy's transcoder,
//! which carries as many streams of the same service in turn, in one run. Prints Markdown.
//!
//! usage: make bench-watches
//!        watches [READERS] [ROUNDS]
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use gpuaas_dev::process::Process;
use gpuaas_dev::seed::string;
use gpuaas_dev::stack::Kind;
use gpuaas_load_tests::envoy::Envoy;
use gpuaas_load_tests::http::Connection;
use gpuaas_load_tests::measure::{circumstances, median, memory_kib};
use gpuaas_load_tests::slice::{self, Slice};
use gpuaas_load_tests::system::{self, ALLOCATION, GATEWAY, Hosts, System};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const PATH: &str = "/api/v1/allocations:watch";
/// Streams that are being opened at once.
const OPENING: usize = 32;
/// Longest time until the last reader has a change, or until closed streams are gone.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Streams that are silent for so long have told all that the change brought with it.
const SILENCE: Duration = Duration::from_secs(2);
/// Descriptors of a process beside those of its streams.
const OTHER_FILES: usize = 200;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse());
    let (readers, rounds): (usize, usize) = (number(2000)?, number(3)?);
    ensure!(
        readers > 0 && rounds > 0,
        "there must be readers and rounds"
    );
    check_files(readers)?;
    // the limits stay; a platform with as many readers sets them so
    let most = [
        "max_streams",
        "max_streams_per_principal",
        "max_streams_per_peer",
        "max_connections",
        "max_connections_per_peer",
    ]
    .map(|limit| format!("gateway.{limit}={}", readers + OPENING));
    let settings: Vec<_> = most.iter().map(|set| (GATEWAY, set.as_str())).collect();
    system::with(Hosts::Lab, &settings, async |system| {
        slice::release_all(&system.user).await?;
        let slice = Slice::launch(system).await?;
        measure(system, &slice, readers, rounds).await?;
        slice.release().await
    })
    .await
}

/// Every stream is a descriptor here and one in the gateway or Envoy, which inherit this process' limit.
fn check_files(readers: usize) -> anyhow::Result<()> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    let most: usize = soft
        .context("a limit of open files")?
        .parse()
        .unwrap_or(usize::MAX);
    let needed = readers + OTHER_FILES;
    ensure!(
        needed <= most,
        "{readers} streams need `ulimit -n {needed}`, the limit is {most}"
    );
    Ok(())
}

async fn measure(
    system: &System<'_>,
    slice: &Slice<'_>,
    readers: usize,
    rounds: usize,
) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let envoy = Envoy::transcoder(system)?;
    let service = system.process(ALLOCATION).await?;
    let mut edges = [
        Edge::new(
            "gateway",
            Way::Gateway,
            system.address(GATEWAY)?,
            system.process(GATEWAY).await?,
        ),
        Edge::new(
            "Envoy's transcoder",
            Way::Envoy,
            envoy.address,
            envoy.process()?,
        ),
    ];
    let mut service_each = None;
    // the first ones pay for connections, pools and code that is loaded once
    for edge in &edges {
        drop(Readers::open(system, edge, 10).await?);
        all_closed(system).await?;
    }
    for round in 1..=rounds {
        for edge in &mut edges {
            let (edge_before, service_before) = (memory_kib(&edge.process), memory_kib(&service));
            let mut open = Readers::open(system, edge, readers).await?;
            let each = |now: f64, before: f64| (now - before) / readers as f64;
            let idle = each(memory_kib(&edge.process), edge_before);
            service_each.get_or_insert(each(memory_kib(&service), service_before));
            for (method, then) in [("stop", "stopped"), ("start", "running")] {
                let begun = Instant::now();
                let revision = slice.power(method).await?;
                let times = open.reported(revision).await?;
                let after = |time: &Instant| time.duration_since(begun).as_secs_f64() * 1000.0;
                edge.first.extend(times.first().map(after));
                edge.last.extend(times.last().map(after));
                slice.wait_power(then).await?;
                open.wait_until_silent().await?;
            }
            if round == 1 {
                // later ones reuse what the allocator has kept
                edge.idle = idle;
                edge.used = each(memory_kib(&edge.process), edge_before);
            }
            let last = edge.last.last().copied().unwrap_or_default();
            eprintln!(
                "round {round}, {}: the last of {readers} readers after {last:.0} ms",
                edge.name
            );
            drop(open);
            all_closed(system).await?;
        }
    }
    println!("{circumstances}; {rounds} rounds of two changes\n");
    println!(
        "| {readers} streams through | each, KiB | each after changes, KiB | first reader, ms | last reader, ms | ratio of the last |"
    );
    println!("|---|---|---|---|---|---|");
    let peer = median(edges[1].last.clone());
    for edge in &edges {
        let last = median(edge.last.clone());
        println!(
            "| {} | {:.1} | {:.1} | {:.0} | {last:.0} | {:.2} |",
            edge.name,
            edge.idle,
            edge.used,
            median(edge.first.clone()),
            last / peer
        );
    }
    println!(
        "\nIn the service of allocations a stream takes {:.1} KiB.",
        service_each.unwrap_or_default()
    );
    Ok(())
}

/// One of the two that carry the streams.
struct Edge {
    name: &'static str,
    way: Way,
    address: SocketAddr,
    process: Process,
    /// Memory of a stream on which nothing happened yet, in KiB.
    idle: f64,
    /// The same after changes.
    used: f64,
    /// Milliseconds from each request to the first reader that had its effect.
    first: Vec<f64>,
    /// The same of the last one.
    last: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Way {
    Gateway,
    Envoy,
}

impl Edge {
    fn new(name: &'static str, way: Way, address: SocketAddr, process: Process) -> Self {
        Self {
            name,
            way,
            address,
            process,
            idle: 0.0,
            used: 0.0,
            first: Vec::new(),
            last: Vec::new(),
        }
    }
}

/// What a reader says.
enum ReaderMessage {
    /// It has the first state.
    Synced,
    /// It has this revision of the allocation since.
    Change(usize, i64, Instant),
}

/// Readers of the project's allocations; they go with the value.
struct Readers {
    count: usize,
    said: mpsc::UnboundedReceiver<anyhow::Result<ReaderMessage>>,
    _running: JoinSet<()>,
}

impl Readers {
    /// Opens streams and waits until each has the first state.
    async fn open(system: &System<'_>, edge: &Edge, count: usize) -> anyhow::Result<Self> {
        let (sender, said) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        let mut readers = Self {
            count,
            said,
            _running: JoinSet::new(),
        };
        for number in 0..count + OPENING {
            if number >= OPENING {
                readers.synced().await?;
            }
            if number < count {
                let token = match edge.way {
                    Way::Gateway => system.user_token()?,
                    Way::Envoy => system.internal_token()?,
                };
                let (address, sender) = (edge.address, sender.clone());
                running.spawn(async move {
                    let failure = match read(number, address, &token, &sender).await {
                        Ok(()) => anyhow::anyhow!("a stream has ended"),
                        Err(failure) => failure,
                    };
                    // who does not listen any more has ended it
                    let _ = sender.send(Err(failure));
                });
            }
        }
        readers._running = running;
        Ok(readers)
    }

    async fn next(&mut self) -> anyhow::Result<ReaderMessage> {
        let said = tokio::time::timeout(TIMEOUT, self.said.recv()).await;
        said.context("the streams say nothing")?
            .context("the streams have ended")?
    }

    async fn synced(&mut self) -> anyhow::Result<()> {
        while !matches!(self.next().await?, ReaderMessage::Synced) {}
        Ok(())
    }

    /// Waits until no reader has anything more to say, so that the next measurement begins at rest.
    async fn wait_until_silent(&mut self) -> anyhow::Result<()> {
        while let Ok(said) = tokio::time::timeout(SILENCE, self.said.recv()).await {
            said.context("the streams have ended")??;
        }
        Ok(())
    }

    /// When each reader had this revision or a later one, in order of time.
    async fn reported(&mut self, revision: i64) -> anyhow::Result<Vec<Instant>> {
        let mut times = vec![None; self.count];
        let mut missing = self.count;
        while missing > 0 {
            if let ReaderMessage::Change(reader, now, at) = self.next().await?
                && now >= revision
                && times[reader].is_none()
            {
                times[reader] = Some(at);
                missing -= 1;
            }
        }
        let mut times: Vec<Instant> = times.into_iter().flatten().collect();
        times.sort();
        Ok(times)
    }
}

/// Reads a stream until it ends.
async fn read(
    number: usize,
    address: SocketAddr,
    token: &str,
    said: &mpsc::UnboundedSender<anyhow::Result<ReaderMessage>>,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(address).await?;
    let mut body = connection
        .get(PATH, token, "text/event-stream")
        .await?
        .into_body();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let at = Instant::now();
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        text.extend_from_slice(&data);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Some(json) = line.strip_prefix(b"data: ")
                && let Some(event) = event(number, &serde_json::from_slice(json)?, at)?
            {
                said.send(Ok(event))?;
            }
        }
    }
    Ok(())
}

fn event(reader: usize, message: &Value, at: Instant) -> anyhow::Result<Option<ReaderMessage>> {
    if message.get("error").is_some() {
        bail!("a stream was ended: {message}");
    }
    if message
        .get("synced")
        .is_some_and(|synced| !synced.is_null())
    {
        return Ok(Some(ReaderMessage::Synced));
    }
    let revision = &message["change"]["allocation"]["metadata"]["revision"];
    Ok(match string(revision) {
        "" => None,
        revision => Some(ReaderMessage::Change(reader, revision.parse()?, at)),
    })
}

/// Waits until the service has noticed that all readers are gone.
async fn all_closed(system: &System<'_>) -> anyhow::Result<()> {
    let address = Kind::find(ALLOCATION)?.metrics(system.stack.options().instance, 1);
    let mut connection = Connection::open(address).await?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let metrics = connection.read("/metrics", "").await?;
        let metrics = std::str::from_utf8(&metrics)?;
        let open = metrics
            .lines()
            .filter(|line| line.starts_with("watch_streams_open{"));
        if open.clone().all(|line| line.ends_with(" 0")) && open.count() > 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "streams are still open");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
