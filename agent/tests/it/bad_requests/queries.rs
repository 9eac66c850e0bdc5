//! Ids of queries, repairs and ingress mappings.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
use tonic::Response;

use super::world::{OWN, World};
use super::{bad_texts, invalid, refused};

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
