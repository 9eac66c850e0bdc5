//! Bad input of hosts and of approvals: a typed answer, nothing changed, counted.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1::{
    HostAddress, HostDevices, HostDisk, HostFunction, ReadinessReport,
};
use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::inventory::v1::HeartbeatRequest;
use prost::Message as _;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};

use crate::host::{Host, evidence, good, seconds_ago};
use crate::ready::Ready;
use crate::world::{World, refused};

/// Sends bytes as they are, whatever message they are of.
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = ();
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(into, &item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        let left = bytes::Buf::remaining(from);
        bytes::Buf::advance(from, left);
        Ok(Some(()))
    }
}

async fn send(host: &Host, message: Vec<u8>) -> Result<tonic::Response<()>, Status> {
    let mut client = tonic::client::Grpc::new(host.channel());
    client.ready().await.expect("a connection");
    let path = PathAndQuery::from_static("/gpuaas.internal.inventory.v1.HostService/Heartbeat");
    client.unary(Request::new(message), path, Bytes).await
}

fn heartbeat_of(report: ReadinessReport) -> Vec<u8> {
    let request = HeartbeatRequest {
        boot_id: "boot-1".into(),
        agent_version: "80d8a259".into(),
        readiness: Some(report),
        agent_address: "127.0.0.1:1".into(),
        ..HeartbeatRequest::default()
    };
    request.encode_to_vec()
}

fn uptime(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn with_devices(change: impl FnOnce(&mut HostDevices)) -> ReadinessReport {
    let mut devices = HostDevices {
        functions: vec![HostFunction {
            pci_address: "0000:1b:00.0".into(),
            driver: "vfio-pci".into(),
            numa_node: Some(0),
            ..HostFunction::default()
        }],
        disks: vec![HostDisk {
            identity: "/dev/disk/by-id/nvme-eui.000000000000000100a075244a103331".into(),
            bytes: 1 << 40,
            ..HostDisk::default()
        }],
        addresses: vec![HostAddress {
            interface: "ovsbr0".into(),
            ip: "10.100.0.1".into(),
            ..HostAddress::default()
        }],
        ..HostDevices::default()
    };
    change(&mut devices);
    ReadinessReport {
        devices: Some(devices),
        observed_uptime: uptime(1000),
        ..good()
    }
}

/// All that a host's message could change.
async fn state(world: &World) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT to_jsonb(n)::text FROM inventory.nodes n
         UNION ALL SELECT to_jsonb(i)::text FROM inventory.host_instances i
         UNION ALL SELECT to_jsonb(e)::text FROM inventory.node_evidence e
         UNION ALL SELECT to_jsonb(b)::text FROM inventory.host_beats b
         UNION ALL SELECT to_jsonb(s)::text FROM inventory.ledger_sync s ORDER BY 1",
    )
    .fetch_all(&world.owner().await)
    .await
    .expect("rows")
}

type Row = (&'static str, Vec<u8>, ErrorReason, &'static str);

fn field(name: &'static str, report: ReadinessReport, field: &'static str) -> Row {
    (name, heartbeat_of(report), ErrorReason::FieldInvalid, field)
}

fn rows() -> Vec<Row> {
    let whole = heartbeat_of(with_devices(|_| ()));
    let truncated = whole[..whole.len() - 7].to_vec();
    let many = |count: u32| {
        (0..count).map(|n| format!("0000:{:02x}:{:02x}.{}", n >> 8, (n >> 3) & 31, n & 7))
    };
    vec![
        ("truncated", truncated, ErrorReason::BodyMalformed, ""),
        ("no message", vec![0xff; 64], ErrorReason::BodyMalformed, ""),
        ("50 MB", vec![0; 50 << 20], ErrorReason::BodyTooLarge, ""),
        field(
            "a newer schema",
            ReadinessReport {
                schema_version: 1_000,
                ..with_devices(|_| ())
            },
            "readiness.schema_version",
        ),
        field(
            "ten thousand devices",
            with_devices(|devices| {
                devices.functions = many(10_000)
                    .map(|pci_address| HostFunction {
                        pci_address,
                        ..HostFunction::default()
                    })
                    .collect();
            }),
            "readiness.devices.functions",
        ),
        field(
            "a device twice",
            with_devices(|devices| devices.functions.push(devices.functions[0].clone())),
            "readiness.devices.functions[1]",
        ),
        field(
            "no PCI address",
            with_devices(|devices| devices.functions[0].pci_address = "0000:1b:00.0/../..".into()),
            "readiness.devices.functions[0].pci_address",
        ),
        field(
            "a driver that is a path",
            with_devices(|devices| devices.functions[0].driver = "../../etc".into()),
            "readiness.devices.functions[0].driver",
        ),
        field(
            "an impossible NUMA node",
            with_devices(|devices| devices.functions[0].numa_node = Some(u32::MAX)),
            "readiness.devices.functions[0].numa_node",
        ),
        field(
            "a disk by a path that escapes",
            with_devices(|devices| {
                devices.disks[0].identity =
                    "/dev/disk/by-id/nvme-eui.00/../../../etc/shadow".into();
            }),
            "readiness.devices.disks[0].identity",
        ),
        field(
            "a disk by its kernel name",
            with_devices(|devices| devices.disks[0].identity = "/dev/nvme0n1".into()),
            "readiness.devices.disks[0].identity",
        ),
        field(
            "a disk of sixteen exabytes",
            with_devices(|devices| devices.disks[0].bytes = u64::MAX),
            "readiness.devices.disks[0].bytes",
        ),
        field(
            "an escape sequence",
            with_devices(|devices| devices.disks[0].uses = vec!["\u{1b}[2J".into()]),
            "readiness.devices.disks[0].uses",
        ),
        field(
            "no address",
            with_devices(|devices| devices.addresses[0].ip = "10.100.0.300".into()),
            "readiness.devices.addresses[0].ip",
        ),
        field(
            "no MAC",
            with_devices(|devices| devices.addresses[0].mac = "01:00:5e:00:00:01".into()),
            "readiness.devices.addresses[0].mac",
        ),
        field(
            "no allocation",
            with_devices(|devices| devices.unprotected_allocations = vec!["vm-1".into()]),
            "readiness.devices.unprotected_allocations",
        ),
        field(
            "a drifted disk that is a path",
            ReadinessReport {
                drifted_disks: vec!["/etc/passwd".into()],
                ..good()
            },
            "readiness.drifted_disks",
        ),
        field(
            "more hugepages than any host has",
            ReadinessReport {
                hugepages_1g_free: u32::MAX,
                ..good()
            },
            "readiness.hugepages_1g_free",
        ),
        field(
            "an impossible time",
            ReadinessReport {
                observed_time: Some(prost_types::Timestamp {
                    seconds: i64::MAX,
                    nanos: -1,
                }),
                ..good()
            },
            "readiness.observed_time",
        ),
        field(
            "a host that runs since before its start",
            ReadinessReport {
                observed_uptime: uptime(-1),
                ..good()
            },
            "readiness.observed_uptime",
        ),
        field(
            "a check without a name",
            ReadinessReport {
                evidence: vec![evidence("", EvidenceStatus::Pass)],
                ..good()
            },
            "readiness.evidence[0].check",
        ),
        field(
            "more checks than there are",
            ReadinessReport {
                evidence: vec![evidence("kvm", EvidenceStatus::Pass); 10_000],
                ..good()
            },
            "readiness.evidence",
        ),
        field(
            "a profile without end",
            ReadinessReport {
                host_profile: "p".repeat(1000),
                ..good()
            },
            "readiness.host_profile",
        ),
        (
            "older than the last",
            heartbeat_of(ReadinessReport {
                observed_uptime: uptime(999),
                observed_time: Some(seconds_ago(0)),
                ..with_devices(|devices| devices.disks.clear())
            }),
            ErrorReason::ReportStale,
            "",
        ),
    ]
}

#[tokio::test]
async fn bad_reports_get_a_typed_answer_change_nothing_and_are_counted() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    host.heartbeat(with_devices(|_| ())).await.expect("taken");
    world.all_pushed().await;
    for (name, message, reason, field) in rows() {
        let before = (
            state(&world).await,
            world.refusals("Heartbeat", reason.as_str_name()),
        );
        let error = Error::from(send(&host, message).await.expect_err(name));
        assert_eq!(error.reason(), reason, "{name}: {error}");
        let fields: Vec<&str> = error.fields().iter().map(|one| one.0.as_str()).collect();
        let expected: Vec<&str> = Some(field).into_iter().filter(|f| !f.is_empty()).collect();
        assert_eq!(fields, expected, "{name}");
        let after = (
            state(&world).await,
            world.refusals("Heartbeat", reason.as_str_name()),
        );
        assert_eq!(after.0, before.0, "{name} changed something");
        assert!(after.1 > before.1, "{name} is not counted");
    }
    // what is good goes on to be taken in
    host.heartbeat(with_devices(|_| ())).await.expect("taken");
}

#[tokio::test]
async fn a_09_a_report_of_an_earlier_instance_or_of_another_node_changes_nothing_of_a_node() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let earlier = Host::enrol(&world, &node.id).await;
    let current = Host::enrol(&world, &node.id).await;
    current.send_heartbeat().await;
    let other = world.create_node("n2").await;
    let foreign = Host::enrol(&world, &other.id).await;
    world.all_pushed().await;
    let before = state(&world).await;
    let counted = world.refusals("Heartbeat", ErrorReason::PeerNotAllowed.as_str_name());
    let error = refused(earlier.heartbeat(good()).await);
    assert_eq!(error.reason(), ErrorReason::PeerNotAllowed);
    assert_eq!(state(&world).await, before);
    assert!(world.refusals("Heartbeat", ErrorReason::PeerNotAllowed.as_str_name()) > counted);
    // a host speaks for the node of its certificate and for no other
    foreign.send_heartbeat().await;
    assert!(world.status(&other.id).await.schedulable);
    let of_node = |rows: Vec<String>| -> Vec<String> {
        rows.into_iter()
            .filter(|row| row.contains(&node.id) && !row.contains(&other.id))
            .collect()
    };
    assert_eq!(of_node(state(&world).await), of_node(before));
}

#[tokio::test]
async fn the_order_of_reports_is_that_of_the_hosts_own_clock_since_its_start() {
    let world = World::start().await;
    let node = world.create_node("n1").await;
    let host = Host::enrol(&world, &node.id).await;
    let at = |seconds, ago| ReadinessReport {
        observed_uptime: uptime(seconds),
        observed_time: Some(seconds_ago(ago)),
        ..good()
    };
    host.heartbeat(at(100, 0)).await.expect("first");
    // its wall clock was set back: that is no older report
    host.heartbeat(at(110, 60)).await.expect("newer");
    // the same again: an answer was lost
    host.heartbeat(at(110, 60)).await.expect("the same");
    let error = refused(host.heartbeat(at(105, 0)).await);
    assert_eq!(error.reason(), ErrorReason::ReportStale);
    // after a restart the clock begins anew
    let request = HeartbeatRequest {
        boot_id: "boot-2".into(),
        agent_version: "80d8a259".into(),
        readiness: Some(at(5, 0)),
        agent_address: "127.0.0.1:1".into(),
        ..HeartbeatRequest::default()
    };
    send(&host, request.encode_to_vec())
        .await
        .expect("another boot");
    // an agent of a release before has no such clock
    host.send_heartbeat().await;
}

#[tokio::test]
async fn a_58_approvals_of_what_changed_since_it_was_read_change_nothing_and_are_counted() {
    let (ready, first) = Ready::start(|_| {}).await;
    let counted = || {
        let reason = ErrorReason::DiscoveryStale.as_str_name();
        ready.world.refusals("ApproveResourceSlots", reason)
    };
    let second = ready.inspect("d2").await;
    let before = counted();
    let superseded = ready.approve("a1", &first, &[0]).await;
    let superseded = superseded.expect_err("superseded");
    assert_eq!(superseded.reason(), ErrorReason::DiscoveryStale);
    ready.assert_nothing().await;
    assert!(counted() > before);

    // the disk was mounted since
    let before = counted();
    let mounted = with_uses(&["loop0 is mounted at /mnt"]);
    ready.host.heartbeat(mounted).await.expect("taken");
    let error = ready.approve("a2", &second, &[0, 1]).await;
    let error = error.expect_err("mounted");
    assert_eq!(error.reason(), ErrorReason::DiscoveryStale);
    assert_eq!(error.fields()[0].0, "candidates[0].nvme_device");
    assert!(error.message().contains("/mnt"), "{error}");
    ready.assert_nothing().await;
    assert!(counted() > before);

    ready.host.heartbeat(with_uses(&[])).await.expect("taken");
    ready
        .approve("a3", &second, &[0, 1])
        .await
        .expect("approved");
}

/// A report in which the first of two lab disks is in use.
fn with_uses(uses: &[&str]) -> ReadinessReport {
    let disk = |index: u32| HostDisk {
        identity: format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{index}"),
        bytes: 1 << 30,
        ..HostDisk::default()
    };
    let first = HostDisk {
        uses: uses.iter().map(|text| (*text).to_owned()).collect(),
        ..disk(0)
    };
    ReadinessReport {
        devices: Some(HostDevices {
            disks: vec![first, disk(1)],
            ..HostDevices::default()
        }),
        observed_time: Some(gpuaas_common::time::proto_time(jiff::Timestamp::now())),
        ..good()
    }
}

#[tokio::test]
async fn what_a_host_said_before_a_discovery_says_nothing_against_it() {
    let (ready, discovery) = Ready::start(|_| {}).await;
    let before = ReadinessReport {
        observed_time: Some(seconds_ago(60)),
        ..with_uses(&["loop0 is mounted at /mnt"])
    };
    ready.host.heartbeat(before).await.expect("taken");
    ready
        .approve("a1", &discovery, &[0, 1])
        .await
        .expect("the discovery is of later");
}
