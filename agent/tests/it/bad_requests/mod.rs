//! Requests that no control plane of ours sends, over the agent's gRPC API: each is refused with its reason and its field, and
//! changes nothing.
mod world;

use std::fmt::Debug;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{IngressProtocol, ReadinessCheck, SlotBindings};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Code, Response, Status};

use self::world::{KEY, NEIGHBOUR, OWN, World, eui, repair, shell};
use crate::recorded::tree::CORNERS;

const MEGABYTE: usize = 1 << 20;

/// Texts that would lead out of a folder, end a string early, add an element to an XML document, a line to a file or a word to a
/// command, or fill a disk.
fn bad_texts() -> Vec<String> {
    let short = [
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/../../b",
        "a\0b",
        "a\nb",
        "'/><hostdev mode='subsystem'/><x y='",
        "\"><disk type='file'/>",
        "&lt;&#x0;]]>",
        "$(reboot)",
        "a b",
        "ä",
    ];
    let mut texts: Vec<String> = short.map(str::to_owned).into();
    texts.push("a".repeat(MEGABYTE));
    texts
}

/// What a refusal must name.
type Expected = (ErrorReason, &'static str);

fn invalid(field: &'static str) -> Expected {
    (ErrorReason::FieldInvalid, field)
}

fn refused<T: Debug>(what: &str, answer: Result<Response<T>, Status>, (reason, field): Expected) {
    let start: String = what.chars().take(120).collect();
    let status = match answer {
        Ok(answer) => panic!("{start}: accepted: {answer:?}"),
        Err(status) => status,
    };
    let error = Error::from(status);
    let fields: Vec<&str> = error.fields().iter().map(|(name, _)| &**name).collect();
    let named = Some(field).filter(|field| !field.is_empty());
    assert_eq!(
        (error.reason(), fields),
        (reason, Vec::from_iter(named)),
        "{start}: {error}"
    );
    assert!(error.message().len() < 1000, "{start}: it is echoed");
}

type Change<T> = Box<dyn Fn(&mut T, &str)>;

/// A field of a request with how it is set.
fn text<T>(field: &'static str, set: impl Fn(&mut T, &str) + 'static) -> (&'static str, Change<T>) {
    (field, Box::new(set))
}

fn of_slot(request: &mut pb::AcquireLeaseRequest) -> &mut SlotBindings {
    let slot = request.slots.first_mut().expect("a slot");
    slot.bindings.as_mut().expect("bindings")
}

fn lease_texts() -> Vec<(&'static str, Change<pb::AcquireLeaseRequest>)> {
    vec![
        text(
            "allocation_id",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                request.allocation_id = bad.into();
            },
        ),
        text("slot_id", |request: &mut pb::AcquireLeaseRequest, bad| {
            request.slots[0].slot_id = bad.into();
        }),
        text("slot_id", |request: &mut pb::AcquireLeaseRequest, bad| {
            request.slots[0].replaced_slot_ids = vec![bad.into()];
        }),
        text(
            "gpu_pci_address",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).gpu_pci_address = bad.into();
            },
        ),
        text(
            "fabric_vf_pci_address",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).fabric_vf_pci_address = bad.into();
            },
        ),
        text(
            "nvme_device",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).nvme_device = bad.into();
            },
        ),
        text(
            "nvme_device",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).nvme_device = format!("{}/{bad}", eui(0));
            },
        ),
        text(
            "management_mac",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).management_mac = bad.into();
            },
        ),
        text(
            "private_ip",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).private_ip = bad.into();
            },
        ),
        text(
            "destructive_wipe_policy",
            |request: &mut pb::AcquireLeaseRequest, bad| {
                of_slot(request).destructive_wipe_policy = bad.into();
            },
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p6_no_text_of_a_lease_is_taken_for_a_device_or_a_name() {
    let world = World::new().await;
    let before = world.snapshot().await;
    for (field, set) in lease_texts() {
        for bad in bad_texts() {
            let mut request = repair(OWN);
            set(&mut request, &bad);
            let answer = world.leases().acquire_lease(request).await;
            refused(&format!("{field} {bad}"), answer, invalid(field));
        }
    }
    assert_eq!(world.snapshot().await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p6_d_58_no_lease_has_what_is_the_hosts_or_a_neighbours() {
    type Row = (&'static str, Expected, fn(&mut pb::AcquireLeaseRequest));
    const HELD: Expected = (ErrorReason::LeaseHeld, "");
    const NO_DEVICE: Expected = (ErrorReason::DeviceMissing, "");
    let rows: &[Row] = &[
        ("the OS disk's controller as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = "0000:01:00.0".into();
        }),
        (
            "the OS disk's controller as function",
            NO_DEVICE,
            |request| {
                of_slot(request).fabric_vf_pci_address = "0000:01:00.0".into();
            },
        ),
        ("a data disk's controller as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = CORNERS[0].disk_address();
        }),
        ("a whole fabric card as function", NO_DEVICE, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[0].nic_address();
        }),
        ("a function as GPU", NO_DEVICE, |request| {
            of_slot(request).gpu_pci_address = CORNERS[0].function_address();
        }),
        ("a GPU as function", NO_DEVICE, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[0].gpu_address();
        }),
        ("the neighbour's GPU", HELD, |request| {
            of_slot(request).gpu_pci_address = CORNERS[1].gpu_address();
        }),
        ("the neighbour's GPU in capitals", HELD, |request| {
            of_slot(request).gpu_pci_address = CORNERS[1].gpu_address().to_uppercase();
        }),
        ("the neighbour's function", HELD, |request| {
            of_slot(request).fabric_vf_pci_address = CORNERS[1].function_address();
        }),
        ("the neighbour's function in capitals", HELD, |request| {
            let address = CORNERS[1].function_address().to_uppercase();
            of_slot(request).fabric_vf_pci_address = address;
        }),
        ("the neighbour's disk", HELD, |request| {
            of_slot(request).nvme_device = eui(1);
        }),
        ("the neighbour's slot", HELD, |request| {
            request.slots[0].slot_id = NEIGHBOUR.slot.to_string();
        }),
        ("the neighbour's slot beside the own", HELD, |request| {
            request.slots.extend(repair(NEIGHBOUR).slots);
        }),
        (
            "a disk by another link",
            invalid("nvme_device"),
            |request| {
                of_slot(request).nvme_device = "/dev/disk/by-path/pci-0000:01:00.0-nvme-1".into();
            },
        ),
        (
            "a disk by its kernel name",
            invalid("nvme_device"),
            |request| {
                of_slot(request).nvme_device = "/dev/nvme4n1".into();
            },
        ),
        (
            "a group address as MAC",
            invalid("management_mac"),
            |request| {
                of_slot(request).management_mac = "ff:ff:ff:ff:ff:ff".into();
            },
        ),
        ("a public address", invalid("private_ip"), |request| {
            of_slot(request).private_ip = "8.8.8.8".into();
        }),
        ("ten thousand slots", invalid("slots"), |request| {
            request.slots = vec![request.slots[0].clone(); 10_000];
        }),
        (
            "a megabyte of a class",
            invalid("slots.slot_class"),
            |request| {
                request.slots[0].slot_class = "a".repeat(MEGABYTE);
            },
        ),
        (
            "a megabyte of a claim mode",
            invalid("slots.bindings.fabric_claim_mode"),
            |request| {
                of_slot(request).fabric_claim_mode = "a".repeat(MEGABYTE);
            },
        ),
        (
            "ten thousand retired slots",
            invalid("slots.replaced_slot_ids"),
            |request| {
                request.slots[0].replaced_slot_ids = vec![OWN.slot.to_string(); 10_000];
            },
        ),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (what, expected, change) in rows {
        let mut request = repair(OWN);
        change(&mut request);
        let answer = world.leases().acquire_lease(request).await;
        refused(what, answer, *expected);
        assert_eq!(world.snapshot().await, before, "{what}");
    }
}

/// An address is judged before a VM, and not before a wipe: what a site has renumbered must be released all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_vm_has_an_address_of_its_host_or_of_a_neighbour() {
    const HELD: Expected = (ErrorReason::LeaseHeld, "");
    let world = World::new().await;
    let before = world.snapshot().await;
    for bad in ["10.100.0.1", "10.100.0.0", "10.100.0.255"] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        of_slot(&mut request).private_ip = bad.into();
        let answer = world.leases().acquire_lease(request).await;
        refused(bad, answer, HELD);
    }
    for (mac, ip) in [
        ("52:54:00:10:00:11", "10.100.0.10"),
        ("52:54:00:10:00:1A", "10.100.0.11"),
    ] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        of_slot(&mut request).management_mac = mac.into();
        of_slot(&mut request).private_ip = ip.into();
        let answer = world.leases().acquire_lease(request).await;
        refused("the neighbour's", answer, HELD);
    }
    for (vcpus, memory_mib, field) in [
        (0, 1024, "shape.vcpus"),
        (u32::MAX, 1024, "shape.vcpus"),
        (2, 0, "shape.memory_mib"),
        (2, u32::MAX, "shape.memory_mib"),
    ] {
        let mut request = repair(OWN);
        request.purpose = pb::LeasePurpose::Provision.into();
        request.shape = Some(pb::VmShape {
            vcpus,
            memory_mib,
            hugepages: false,
        });
        let answer = world.leases().acquire_lease(request).await;
        refused(field, answer, invalid(field));
    }
    assert_eq!(world.snapshot().await, before);
}

fn image(request: &mut pb::ProvisionRequest) -> &mut pb::ImageRef {
    request.image.as_mut().expect("an image")
}

fn provision_texts() -> Vec<(&'static str, Change<pb::ProvisionRequest>)> {
    vec![
        text("operation_id", |request: &mut pb::ProvisionRequest, bad| {
            request.operation_id = bad.into();
        }),
        text(
            "allocation_id",
            |request: &mut pb::ProvisionRequest, bad| {
                request.allocation_id = bad.into();
            },
        ),
        text("lease_id", |request: &mut pb::ProvisionRequest, bad| {
            request.lease_id = bad.into();
        }),
        text("image.slug", |request: &mut pb::ProvisionRequest, bad| {
            image(request).slug = bad.into();
        }),
        text("digest", |request: &mut pb::ProvisionRequest, bad| {
            image(request).digest = bad.into();
        }),
        text("digest", |request: &mut pb::ProvisionRequest, bad| {
            image(request).digest = format!("sha256:{bad}");
        }),
        text(
            "image.source_uri",
            |request: &mut pb::ProvisionRequest, bad| {
                image(request).source_uri = bad.into();
            },
        ),
        text(
            "image.source_uri",
            |request: &mut pb::ProvisionRequest, bad| {
                let hex = "0".repeat(64);
                image(request).source_uri = format!("oci://127.0.0.1:1/{bad}@sha256:{hex}");
            },
        ),
        text("guest_user", |request: &mut pb::ProvisionRequest, bad| {
            request.guest_user = bad.into();
        }),
        text("hostname", |request: &mut pb::ProvisionRequest, bad| {
            request.hostname = bad.into();
        }),
        text(
            "ssh_public_keys",
            |request: &mut pb::ProvisionRequest, bad| {
                request.ssh_public_keys = vec![bad.into()];
            },
        ),
        text(
            "ssh_public_keys",
            |request: &mut pb::ProvisionRequest, bad| {
                request.ssh_public_keys = vec![KEY.into(), format!("command=\"{bad}\" {KEY}")];
            },
        ),
        text(
            "network group",
            |request: &mut pb::ProvisionRequest, bad| {
                request.network_group = bad.into();
            },
        ),
        text("region_code", |request: &mut pb::ProvisionRequest, bad| {
            request.region_code = bad.into();
        }),
        text("image", |request: &mut pb::ProvisionRequest, bad| {
            image(request).readiness_checks = vec![ReadinessCheck {
                name: bad.into(),
                command: "true".into(),
                ..ReadinessCheck::default()
            }];
        }),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_launch_reaches_a_path_a_seed_or_a_domain() {
    type Row = (&'static str, &'static str, fn(&mut pb::ProvisionRequest));
    let rows: &[Row] = &[
        ("no image", "image", |request| request.image = None),
        ("the name of a file by digest", "image.slug", |request| {
            image(request).slug = "sha256-0".into();
        }),
        ("a hidden file", "image.slug", |request| {
            image(request).slug = ".part".into();
        }),
        (
            "an image larger than a host",
            "image.size_bytes",
            |request| {
                image(request).size_bytes = u64::MAX;
            },
        ),
        ("a file as source", "image.source_uri", |request| {
            image(request).source_uri = "file:///etc/shadow".into();
        }),
        ("no key", "ssh_public_keys", |request| {
            request.ssh_public_keys.clear();
        }),
        ("ten thousand keys", "ssh_public_keys", |request| {
            request.ssh_public_keys = vec![KEY.into(); 10_000];
        }),
        (
            "a key with a megabyte of a comment",
            "ssh_public_keys",
            |request| {
                request.ssh_public_keys = vec![format!("{KEY} {}", "a".repeat(MEGABYTE))];
            },
        ),
        ("a check with a megabyte of a command", "image", |request| {
            image(request).readiness_checks = vec![ReadinessCheck {
                name: "gpu".into(),
                command: "a".repeat(MEGABYTE),
                ..ReadinessCheck::default()
            }];
        }),
        ("a megabyte of user data", "user_data", |request| {
            request.user_data = "#".repeat(MEGABYTE);
        }),
        ("user data with a NUL", "user_data", |request| {
            request.user_data = "#!/bin/sh\n\0".into();
        }),
        ("ten thousand checks", "image", |request| {
            image(request).readiness_checks = vec![ReadinessCheck::default(); 10_000];
        }),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (field, set) in provision_texts() {
        for bad in bad_texts() {
            let mut request = world.provision();
            set(&mut request, &bad);
            let answer = world.vms().provision(request).await;
            refused(&format!("{field} {bad}"), answer, invalid(field));
        }
    }
    for (what, field, change) in rows {
        let mut request = world.provision();
        change(&mut request);
        refused(what, world.vms().provision(request).await, invalid(field));
    }
    // more than a message may have: the server reads no more of it
    let mut request = world.provision();
    request.hostname = "a".repeat(5 * MEGABYTE);
    let status = world.vms().provision(request).await.expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange, "{status}");
    assert_eq!(world.snapshot().await, before);

    // the same request as it should be is taken
    let begun = world.vms().provision(world.provision()).await;
    assert_eq!(begun.expect("begun").into_inner().kind, "provision");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_text_of_a_change_of_power_or_of_a_shell_is_believed() {
    type Row = (&'static str, &'static str, fn(&mut pb::PowerRequest));
    let rows: &[Row] = &[
        ("root", "guest_user", |request| {
            request.guest_user = "root".into();
        }),
        ("ten thousand host keys", "ssh_host_keys", |request| {
            request.ssh_host_keys = vec![KEY.into(); 10_000];
        }),
        ("a host key that is none", "ssh_host_keys", |request| {
            request.ssh_host_keys = vec!["../../id_ed25519".into()];
        }),
    ];
    let of_rescue: &[Row] = &[
        ("a slug that leads out", "image.slug", |request| {
            request.rescue_image.as_mut().expect("an image").slug = "../../up".into();
        }),
        ("a digest that leads out", "digest", |request| {
            request.rescue_image.as_mut().expect("an image").digest = "sha256:../../up".into();
        }),
        ("a host name of XML", "hostname", |request| {
            request.hostname = "<a/>".into();
        }),
        ("ten thousand keys", "ssh_public_keys", |request| {
            request.ssh_public_keys = vec![KEY.into(); 10_000];
        }),
    ];
    let world = World::new().await;
    let before = world.snapshot().await;
    for (what, field, change) in rows {
        let mut request = world.power();
        change(&mut request);
        for answer in [
            world.vms().start(request.clone()).await,
            world.vms().reboot(request.clone()).await,
            world.vms().rescue(request).await,
        ] {
            refused(what, answer, invalid(field));
        }
    }
    for (what, field, change) in of_rescue {
        let mut request = world.power();
        change(&mut request);
        refused(what, world.vms().rescue(request).await, invalid(field));
    }
    for (field, change) in shell_texts() {
        let mut start = shell();
        change(&mut start, "../<a/>\0");
        let answer = opened(&world, start).await;
        refused(field, answer.map(Response::new), invalid(field));
    }
    assert_eq!(world.snapshot().await, before);
}

/// The first answer to the start of a shell or tunnel.
async fn opened(
    world: &World,
    start: pb::TerminalStart,
) -> Result<Option<pb::OpenResponse>, Status> {
    let first = pb::OpenRequest {
        message: Some(pb::open_request::Message::Start(start)),
    };
    let stream = world.terminal().open(tokio_stream::once(first)).await;
    stream?.get_mut().message().await
}

/// A ledger, or whoever speaks for it, that names another port of a VM is not followed there.
#[tokio::test]
async fn p6_a_shell_or_tunnel_leads_to_no_other_port_than_ssh() {
    let world = World::new().await;
    let before = world.snapshot().await;
    for port in [1, 21, 23, 2222, 5432, 65_535] {
        let there = || pb::TerminalStart {
            target_port: port,
            ..shell()
        };
        let tunnel = pb::TerminalStart {
            ssh_tunnel: true,
            user: String::new(),
            ssh_host_keys: Vec::new(),
            size: None,
            term: String::new(),
            ..there()
        };
        for start in [there(), tunnel] {
            let answer = opened(&world, start).await;
            refused(
                &port.to_string(),
                answer.map(Response::new),
                invalid("target_port"),
            );
        }
    }
    assert_eq!(world.snapshot().await, before);
}

fn shell_texts() -> Vec<(&'static str, Change<pb::TerminalStart>)> {
    vec![
        text("session_id", |start: &mut pb::TerminalStart, bad| {
            start.session_id = bad.into();
        }),
        text("allocation_id", |start: &mut pb::TerminalStart, bad| {
            start.allocation_id = bad.into();
        }),
        text("target_host", |start: &mut pb::TerminalStart, bad| {
            start.target_host = bad.into();
        }),
        text("user", |start: &mut pb::TerminalStart, bad| {
            start.user = bad.into();
        }),
        text("term", |start: &mut pb::TerminalStart, bad| {
            start.term = bad.into();
        }),
        text("ssh_host_keys", |start: &mut pb::TerminalStart, bad| {
            start.ssh_host_keys = vec![bad.into()];
        }),
    ]
}

/// Ingress mappings with a bad text in each place that has one.
fn ingress_with(bad: &str) -> [(&'static str, pb::AllocationIngress); 3] {
    let good = pb::IngressRule {
        protocol: IngressProtocol::Tcp.into(),
        vm_port: 22,
        external_address: "203.0.113.7".into(),
        external_port: 30_000,
        source_cidrs: Vec::new(),
        expire_time: None,
    };
    let of = |allocation_id: &str, rule: pb::IngressRule| pb::AllocationIngress {
        allocation_id: allocation_id.into(),
        version: 1,
        rules: vec![rule],
    };
    let own = OWN.allocation.to_string();
    let address = pb::IngressRule {
        external_address: bad.into(),
        ..good.clone()
    };
    let sources = pb::IngressRule {
        source_cidrs: vec![bad.into()],
        ..good.clone()
    };
    [
        ("allocation_id", of(bad, good)),
        ("external_address", of(&own, address)),
        ("source_cidrs", of(&own, sources)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_id_of_a_query_or_a_repair_is_a_path() {
    let world = World::new().await;
    let before = world.snapshot().await;
    for bad in bad_texts() {
        let id = bad.clone();
        let request = pb::RemoveLeftoversRequest {
            allocation_id: id.clone(),
        };
        let answer = world.leases().remove_leftovers(request).await;
        refused(&bad, answer, invalid("allocation_id"));
        for (field, allocation_id, group) in [
            ("allocation_id", id.clone(), String::new()),
            ("network group", OWN.allocation.to_string(), id.clone()),
        ] {
            let network_group = Some(pb::NetworkGroup {
                allocation_id,
                group,
            });
            let request = pb::SetNetworkGroupRequest {
                network_group,
                version: 1,
            };
            let answer = world.leases().set_network_group(request).await;
            refused(&bad, answer, invalid(field));
        }
        for (field, ingress) in ingress_with(&bad) {
            let request = pb::SetIngressRequest {
                ingress: Some(ingress),
                tokens: Vec::new(),
            };
            let answer = world.leases().set_ingress(request).await;
            refused(&bad, answer, invalid(field));
        }
        let request = pb::ReadSerialLogRequest {
            allocation_id: id.clone(),
            ..pb::ReadSerialLogRequest::default()
        };
        let answer = world.vms().read_serial_log(request).await;
        refused(
            &bad,
            answer.map(|_| Response::new(())),
            invalid("allocation_id"),
        );
        let request = pb::ReadMetricsRequest {
            allocation_id: id.clone(),
            ..pb::ReadMetricsRequest::default()
        };
        let answer = world.vms().read_metrics(request).await;
        refused(&bad, answer, invalid("allocation_id"));
        let request = pb::GetOperationRequest { operation_id: id };
        let answer = world.vms().get_operation(request).await;
        refused(&bad, answer, invalid("operation_id"));
    }
    let request = pb::RenewLeaseRequest {
        lease_id: world.lease.clone(),
        tokens: vec![pb::SlotToken::default(); 10_000],
        ..pb::RenewLeaseRequest::default()
    };
    let answer = world.leases().renew_lease(request).await;
    refused("ten thousand tokens", answer, invalid("tokens"));
    assert_eq!(world.snapshot().await, before);
}
