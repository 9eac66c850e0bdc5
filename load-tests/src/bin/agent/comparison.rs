//! The comparison of ledger, host and hypervisor: what the host does for it, and the whole as an operator asks for it.
use std::time::{Duration, Instant};

use anyhow::Context as _;
use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_dev::process::Process;
use gpuaas_dev::seed::{Api, Tokens, list, string};
use gpuaas_load_tests::measure::{cpu_seconds, percentile};
use gpuaas_load_tests::system::{ALLOCATION, System};
use gpuaas_proto::gpuaas::agent::v1::ListHoldsRequest;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use tonic::transport::{Certificate, Identity};

/// Comparisons that are timed, after some that are not.
const TIMED: usize = 100;
const UNTIMED: usize = 5;

/// The host that is compared.
pub struct Compared {
    admin: Api,
    path: String,
    host: NodeSchedulerClient<GrpcChannel>,
    agent: Process,
}

/// How long it took, for one number of VMs.
pub struct Times {
    vms: usize,
    host: Vec<Duration>,
    /// Of the agent and the programs it ran, for one inspection by the host.
    cpu_ms: f64,
    whole: Vec<Duration>,
}

impl Compared {
    /// The one host of the system.
    ///
    /// # Errors
    /// The API does not answer; a certificate cannot be read.
    pub async fn of(system: &System<'_>, agent: &Process) -> anyhow::Result<Self> {
        let admin = Api::new(&system.stack.api_url(), &Tokens::of(system.root()).admin)?;
        let nodes = admin.get("/api/v1/admin/nodes").await?;
        let node = list(&nodes["nodes"]).first().context("no node")?;
        let id = string(&node["id"]);
        let instance = &node["status"]["instance"];
        let authority = system.stack.authority();
        // the one caller that a host accepts for it
        let caller = authority.service(ALLOCATION, &[])?;
        let peers = Peers::new(
            [],
            Certificate::from_pem(std::fs::read(&authority.authority().certificate)?),
            Identity::from_pem(
                std::fs::read(&caller.certificate)?,
                std::fs::read(&caller.key)?,
            ),
        )
        .and_hosts(Certificate::from_pem(std::fs::read(authority.host_root())?));
        let address = string(&instance["agent_address"]);
        let channel =
            peers.host_channel(address, &id.parse()?, &string(&instance["id"]).parse()?)?;
        Ok(Self {
            path: format!("/api/v1/admin/nodes/{id}/comparison"),
            admin,
            host: NodeSchedulerClient::new(channel),
            agent: agent.clone(),
        })
    }

    /// Compares it again and again, with so many VMs on it.
    ///
    /// # Errors
    /// The host or the API refuses; a VM is missing in the answer.
    pub async fn measure(&mut self, vms: usize) -> anyhow::Result<Times> {
        let mut times = Times {
            vms,
            host: Vec::new(),
            cpu_ms: 0.0,
            whole: Vec::new(),
        };
        let cpu = |agent: &Process| cpu_seconds(agent).context("the agent runs");
        let mut before = 0.0;
        for number in 0..UNTIMED + TIMED {
            if number == UNTIMED {
                before = cpu(&self.agent)?;
            }
            let begun = Instant::now();
            let seen = self.host.list_holds(ListHoldsRequest {}).await?;
            times.host.push(begun.elapsed());
            let domains = seen.into_inner().domains.len();
            anyhow::ensure!(domains == vms, "{domains} VMs of {vms}");
        }
        times.cpu_ms = (cpu(&self.agent)? - before) * 1000.0 / TIMED as f64;
        for _ in 0..UNTIMED + TIMED {
            let begun = Instant::now();
            self.admin.get(&self.path).await?;
            times.whole.push(begun.elapsed());
        }
        for all in [&mut times.host, &mut times.whole] {
            all.drain(..UNTIMED);
            all.sort();
        }
        Ok(times)
    }
}

/// Prints the table.
pub fn print(all: &[Times]) {
    println!(
        "\n| VMs | the host's part, p50, ms | p99 | agent's CPU, ms | the whole, p50, ms | p99 |\n|---|---|---|---|---|---|"
    );
    for Times {
        vms,
        host,
        cpu_ms,
        whole,
    } in all
    {
        let of = |times: &[Duration], percent| percentile(times, percent);
        println!(
            "| {vms} | {:.1} | {:.1} | {cpu_ms:.1} | {:.1} | {:.1} |",
            of(host, 50),
            of(host, 99),
            of(whole, 50),
            of(whole, 99)
        );
    }
}
