//! What the edge costs: `GET /api/v1/allocations/{id}` through the gateway, next to the same call by gRPC and through
//! Envoy's transcoder, in turn, in one run, on one service. Then the first call with a credential that the gateway does
//! not know yet, next to the call after it, and what 100,000 principals change about it. Prints Markdown.
//!
//! Callers wait for an answer before they ask again. By HTTP each has a connection of its own; by gRPC all share one,
//! as the gateway's calls do.
//!
//! usage: make bench-get
//!        get [CALLS PER ROUND]
mod credentials;
mod principals;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use gpuaas_common::client::GrpcChannel;
use gpuaas_load_tests::envoy::Envoy;
use gpuaas_load_tests::http::Connection;
use gpuaas_load_tests::measure::{circumstances, percentile};
use gpuaas_load_tests::slice::{self, Slice};
use gpuaas_load_tests::system::{self, ALLOCATION, GATEWAY, Hosts, System};
use gpuaas_proto::gpuaas::allocation::v1::GetAllocationRequest;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use tonic::Request;

use crate::credentials::Credentials;

const CALLERS: [usize; 3] = [1, 8, 32];
const ROUNDS: usize = 3;
/// Part of a round's calls that is made before, to fill pools and caches.
const WARM_UP: usize = 10;
/// Credentials of each kind that are shown for the first time.
const FRESH: usize = 50;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let calls: usize = std::env::args()
        .nth(1)
        .map_or(Ok(3000), |text| text.parse())?;
    // the rates are counted, as they are in service, and never reached
    let settings = [
        (GATEWAY, "gateway.rates.read_per_principal=1000000000"),
        (GATEWAY, "gateway.rates.read_per_project=1000000000"),
        (GATEWAY, "gateway.rates.read_per_organisation=1000000000"),
    ];
    system::with(Hosts::Lab, &settings, async |system| {
        slice::release_all(&system.user).await?;
        let slice = Slice::launch(system).await?;
        measure(system, &slice, calls).await?;
        slice.release().await
    })
    .await
}

async fn measure(system: &System<'_>, slice: &Slice<'_>, calls: usize) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let envoy = Envoy::transcoder(system)?;
    let client = AllocationServiceClient::new(system.peers()?.channel(ALLOCATION)?);
    let gateway = system.address(GATEWAY)?;
    let mut credentials = Credentials::make(system, FRESH + 1).await?;
    let last = |of: &mut Vec<String>| of.pop().context("one of each more");
    let token = last(&mut credentials.tokens)?;
    let key = last(&mut credentials.keys)?;
    let short = last(&mut credentials.short)?;
    let bench = |way| Bench { system, slice, way };
    let ways = [
        ("gRPC", bench(Way::Grpc(client))),
        ("gateway, token", bench(Way::Gateway(gateway, token))),
        ("gateway, API key", bench(Way::Gateway(gateway, key))),
        ("gateway, short token", bench(Way::Gateway(gateway, short))),
        ("Envoy's transcoder", bench(Way::Envoy(envoy.address))),
    ];
    println!("{circumstances}; {ROUNDS} rounds of {calls} calls\n");
    println!(
        "| callers | way | calls a second | of gRPC | of Envoy | p50, ms | p99, ms |\n|---|---|---|---|---|---|---|"
    );
    for callers in CALLERS {
        let mut found = [const { Outcome::new() }; 5];
        for round in 0..=ROUNDS {
            for ((_, bench), outcome) in ways.iter().zip(&mut found) {
                if round == 0 {
                    bench
                        .round(callers, calls / WARM_UP, &mut Outcome::new())
                        .await?;
                } else {
                    bench.round(callers, calls, outcome).await?;
                }
            }
        }
        let [grpc, .., envoy] = found.each_ref().map(Outcome::rate);
        for ((name, _), outcome) in ways.iter().zip(&mut found) {
            outcome.times.sort();
            println!(
                "| {callers} | {name} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} |",
                outcome.rate(),
                outcome.rate() / grpc,
                outcome.rate() / envoy,
                percentile(&outcome.times, 50),
                percentile(&outcome.times, 99),
            );
        }
    }
    let [.., (_, envoy)] = &ways;
    cold(envoy, gateway, credentials).await?;
    let path = format!("/api/v1/allocations/{}", slice.id);
    principals::measure(system, gateway, &path).await
}

/// The first call with each credential, and the one after it, next to the call through Envoy.
async fn cold(
    envoy: &Bench<'_>,
    gateway: SocketAddr,
    credentials: Credentials,
) -> anyhow::Result<()> {
    println!("\n| first call, one caller | cold p50, ms | warm p50, ms | cold to Envoy |");
    println!("|---|---|---|---|");
    let kinds = [
        ("token", credentials.tokens),
        ("API key", credentials.keys),
        ("short token", credentials.short),
    ];
    for (name, all) in kinds {
        let mut through_envoy = envoy.caller().await?;
        let (mut first, mut second, mut peer) = (Vec::new(), Vec::new(), Vec::new());
        for credential in all {
            let way = Way::Gateway(gateway, credential);
            let bench = Bench { way, ..*envoy };
            let mut caller = bench.caller().await?;
            first.extend(bench.call(&mut caller, 1).await?);
            second.extend(bench.call(&mut caller, 1).await?);
            peer.extend(envoy.call(&mut through_envoy, 1).await?);
        }
        for times in [&mut first, &mut second, &mut peer] {
            times.sort();
        }
        let [first, second, peer] = [first, second, peer].map(|times| percentile(&times, 50));
        println!(
            "| {name} | {first:.2} | {second:.2} | {:.2} |",
            first / peer
        );
    }
    Ok(())
}

/// How a call gets to the service.
enum Way {
    Grpc(AllocationServiceClient<GrpcChannel>),
    Gateway(SocketAddr, String),
    Envoy(SocketAddr),
}

/// What all rounds of one way took.
struct Outcome {
    times: Vec<Duration>,
    /// From the first call of a round to the last answer, of all rounds.
    whole: Duration,
}

impl Outcome {
    const fn new() -> Self {
        Self {
            times: Vec::new(),
            whole: Duration::ZERO,
        }
    }

    fn rate(&self) -> f64 {
        self.times.len() as f64 / self.whole.as_secs_f64()
    }
}

struct Bench<'a> {
    system: &'a System<'a>,
    slice: &'a Slice<'a>,
    way: Way,
}

impl Bench<'_> {
    /// Callers that begin together and share the calls evenly.
    async fn round(
        &self,
        callers: usize,
        calls: usize,
        outcome: &mut Outcome,
    ) -> anyhow::Result<()> {
        let mut ready = Vec::new();
        for _ in 0..callers {
            ready.push(self.caller().await?);
        }
        let each = calls.div_ceil(callers);
        let begun = Instant::now();
        let times = try_join_all(ready.iter_mut().map(|caller| self.call(caller, each))).await?;
        outcome.whole += begun.elapsed();
        outcome.times.extend(times.into_iter().flatten());
        Ok(())
    }

    async fn caller(&self) -> anyhow::Result<Caller> {
        Ok(match &self.way {
            Way::Grpc(client) => Caller::Grpc(client.clone()),
            Way::Gateway(address, credential) => {
                Caller::Http(Connection::open(*address).await?, Some(credential.clone()))
            }
            Way::Envoy(address) => Caller::Http(Connection::open(*address).await?, None),
        })
    }

    async fn call(&self, caller: &mut Caller, calls: usize) -> anyhow::Result<Vec<Duration>> {
        let path = format!("/api/v1/allocations/{}", self.slice.id);
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            match caller {
                Caller::Grpc(client) => {
                    let mut request = Request::new(GetAllocationRequest {
                        allocation_id: self.slice.id.clone(),
                    });
                    let token = format!("Bearer {}", self.system.internal_token()?);
                    request
                        .metadata_mut()
                        .insert("authorization", token.parse()?);
                    let answer = client.get_allocation(request).await?.into_inner();
                    ensure!(answer.id == self.slice.id, "another allocation: {answer:?}");
                }
                Caller::Http(connection, token) => {
                    let answer = match token {
                        Some(token) => connection.read(&path, token).await?,
                        None => {
                            connection
                                .read(&path, &self.system.internal_token()?)
                                .await?
                        }
                    };
                    let text = std::str::from_utf8(&answer).context("text")?;
                    ensure!(text.contains(&self.slice.id), "another allocation: {text}");
                }
            }
            times.push(begun.elapsed());
        }
        Ok(times)
    }
}

/// Who calls. Without a token of its own a caller makes an internal one for every call, as the gateway does.
enum Caller {
    Grpc(AllocationServiceClient<GrpcChannel>),
    Http(Connection, Option<String>),
}
