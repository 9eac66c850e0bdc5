//! What must hold after every test, whatever happened in it.
use gpuaas_common::client::Peers;
use gpuaas_proto::gpuaas::agent::v1::ListHoldsRequest;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use sqlx::Row as _;
use tonic::transport::{Certificate, Identity};

use crate::system::{Host, System};

/// Predicates over several schemas or in time: each query returns the rows that break it. Those of the ledger alone
/// are [`gpuaas_placement::audit`].
const PREDICATES: [(&str, &str); 2] = [
    (
        "usage intervals are the billable periods, once billing has read all",
        "SELECT coalesce(p.allocation_id, u.allocation_id)::text FROM placement.allocation_periods p
         FULL JOIN billing.usage_intervals u ON u.allocation_id = p.allocation_id AND u.started_at = p.started_at
         WHERE (SELECT position FROM billing.consumer_position) = (SELECT position FROM placement.outbox_head)
           AND (p.ended_at IS DISTINCT FROM u.ended_at OR p.id IS NULL OR u.allocation_id IS NULL)",
    ),
    (
        "a final allocation has no running workflow",
        "SELECT w.id::text FROM placement.workflows w JOIN placement.allocations a ON a.id = w.allocation_id
         WHERE w.state = 'running' AND w.kind IN ('provision', 'provision_node') AND a.state IN ('released', 'active', 'failed')
           AND w.created_at < clock_timestamp() - interval '30 seconds'",
    ),
];

impl System {
    /// After a test: ledger, host and hypervisor agree, and nothing is left over.
    ///
    /// # Panics
    /// Naming what is left.
    pub async fn assert_nothing_left(&self) {
        for host in &self.hosts {
            for index in 0..usize::from(host.lab.slots()) {
                self.wait_slot_on(host, index, "available").await;
            }
        }
        check(self).await;
        let leftovers = leftovers(self).await;
        assert!(leftovers.is_empty(), "left over: {leftovers:#?}");
    }
}

/// Checks every predicate.
///
/// # Panics
/// Naming the predicate and the rows that break it.
pub async fn check(system: &System) {
    let mut database = system.database().await;
    for (rule, query) in PREDICATES {
        let rows = sqlx::query(query)
            .fetch_all(&mut database)
            .await
            .unwrap_or_else(|error| panic!("{rule}: {error}"));
        let broken: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(broken.is_empty(), "broken: {rule}: {broken:?}");
    }
    sqlx::query("SET search_path TO placement")
        .execute(&mut database)
        .await
        .expect("search path");
    let report = gpuaas_placement::audit::ledger(&mut database)
        .await
        .expect("audit");
    let broken: Vec<_> = report.broken().collect();
    assert!(broken.is_empty(), "broken: {broken:#?}");
}

/// What idle hosts still have: holds, leases, domains, reservations, NVRAM, bytes on disks.
///
/// # Panics
/// When a host does not answer.
pub async fn leftovers(system: &System) -> Vec<String> {
    let mut left = Vec::new();
    for host in &system.hosts {
        let of_host = leftovers_of(system, host).await;
        left.extend(
            of_host
                .iter()
                .map(|what| format!("{}: {what}", host.lab.hostname())),
        );
    }
    left
}

async fn leftovers_of(system: &System, host: &Host) -> Vec<String> {
    let row =
        sqlx::query("SELECT agent_address, instance_id FROM placement.nodes WHERE id = $1::uuid")
            .bind(&host.node_id)
            .fetch_one(&mut system.database().await)
            .await
            .expect("the node");
    let (address, instance): (String, uuid::Uuid) = (row.get(0), row.get(1));
    let node = host.node_id.parse().expect("a uuid");
    let authority = system.stack.authority();
    let allocation = authority.service("allocation", &[]).expect("certificate");
    let read = |path: &std::path::Path| std::fs::read(path).expect("readable");
    let peers = Peers::new(
        [],
        Certificate::from_pem(read(&authority.authority().certificate)),
        Identity::from_pem(read(&allocation.certificate), read(&allocation.key)),
    )
    .and_hosts(Certificate::from_pem(read(&authority.host_root())));
    let channel = peers
        .host_channel(&address, &node, &instance)
        .expect("address");
    let seen = NodeSchedulerClient::new(channel)
        .list_holds(ListHoldsRequest {})
        .await
        .expect("the host answers")
        .into_inner();
    let mut left = Vec::new();
    left.extend(
        seen.holds
            .iter()
            .map(|h| format!("hold of slot {} by {}", h.slot_id, h.allocation_id)),
    );
    left.extend(
        seen.leases
            .iter()
            .map(|l| format!("lease {} of {}", l.lease_id, l.allocation_id)),
    );
    left.extend(
        seen.domains
            .iter()
            .map(|d| format!("domain {} ({})", d.name, d.state)),
    );
    left.extend(seen.reservations.iter().map(|r| format!("reservation {r}")));
    left.extend(
        seen.ingress
            .iter()
            .map(|set| format!("ingress mappings of {}", set.allocation_id)),
    );
    let listing = host
        .lab
        .exec("sh", &["-c", "ls /var/lib/libvirt/qemu/nvram"])
        .unwrap_or_default();
    left.extend(
        listing
            .split_whitespace()
            .map(|file| format!("nvram {file}")),
    );
    for index in 0..usize::from(host.lab.slots()) {
        let file = host.disk_file(index);
        if !crate::canary::is_zero(&file) {
            left.push(format!("bytes in {}", file.display()));
        }
    }
    left
}
