//! What the contract itself must keep, read from its descriptors.
use std::collections::{HashSet, VecDeque};

use gpuaas_gateway::contract::access::{Audience, access_of, http_rule_of, is_host_sensitive};
use gpuaas_gateway::contract::route::Lookup;
use gpuaas_gateway::routes;
use http::Method;
use prost_reflect::{FileDescriptor, Kind, MessageDescriptor, MethodDescriptor};

fn methods() -> Vec<MethodDescriptor> {
    let pool = gpuaas_proto::pool();
    pool.services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .collect()
}

#[test]
fn every_rpc_declares_who_may_call_it_and_for_what() {
    let missing: Vec<_> = methods()
        .iter()
        .filter(|m| access_of(m).is_none())
        .map(|m| m.full_name().to_owned())
        .collect();
    assert!(
        missing.is_empty(),
        "without a complete access option: {missing:?}"
    );
}

#[test]
fn service_rpcs_name_their_callers_and_others_name_none() {
    for method in methods() {
        let access = access_of(&method).expect("declared");
        assert_eq!(
            access.audience == Audience::Service,
            !access.callers.is_empty(),
            "{}",
            method.full_name()
        );
    }
}

#[test]
fn only_user_and_admin_rpcs_have_http_and_all_of_them_do() {
    for method in methods() {
        let access = access_of(&method).expect("declared");
        assert_eq!(
            access.audience.is_public(),
            http_rule_of(&method).is_some(),
            "{}",
            method.full_name()
        );
    }
}

fn is_private(package: &str) -> bool {
    package.starts_with("gpuaas.agent.") || package.starts_with("gpuaas.internal.")
}

/// H-24: the contract is in the proto files.
#[test]
fn h_14_public_packages_never_import_private_ones() {
    fn private_import(file: &FileDescriptor) -> Option<String> {
        file.dependencies().find_map(|import| {
            is_private(import.package_name())
                .then(|| import.name().to_owned())
                .or_else(|| private_import(&import))
        })
    }
    for file in gpuaas_proto::pool().files() {
        if file.package_name().starts_with("gpuaas.") && !is_private(file.package_name()) {
            assert_eq!(private_import(&file), None, "{}", file.name());
        }
    }
}

/// A path of fields to something host-sensitive, if a message reaches one.
fn sensitive_path(start: &MessageDescriptor) -> Option<String> {
    let mut seen = HashSet::from([start.full_name().to_owned()]);
    let mut queue = VecDeque::from([(start.clone(), start.name().to_owned())]);
    while let Some((message, path)) = queue.pop_front() {
        for field in message.fields() {
            let here = format!("{path}.{}", field.name());
            if is_host_sensitive(&field) {
                return Some(here);
            }
            if let Kind::Message(inner) = field.kind()
                && seen.insert(inner.full_name().to_owned())
            {
                queue.push_back((inner, here));
            }
        }
    }
    None
}

///
#[test]
fn c_21_no_user_method_reaches_a_host_sensitive_field() {
    let mut checked = 0;
    for method in methods()
        .iter()
        .filter(|m| access_of(m).is_some_and(|a| a.audience == Audience::User))
    {
        assert_eq!(
            sensitive_path(&method.input()),
            None,
            "request of {}",
            method.full_name()
        );
        assert_eq!(
            sensitive_path(&method.output()),
            None,
            "answer of {}",
            method.full_name()
        );
        checked += 1;
    }
    assert!(checked > 5, "the user's methods were found");
}

#[test]
fn h_14_the_search_for_sensitive_fields_finds_one_where_there_is_one() {
    let slot = gpuaas_proto::pool()
        .get_message_by_name("gpuaas.inventory.v1.ListResourceSlotsResponse")
        .expect("exists");
    assert_eq!(
        sensitive_path(&slot).as_deref(),
        Some("ListResourceSlotsResponse.slots.bindings")
    );
}

#[test]
fn reads_are_get_and_everything_else_is_a_mutation() {
    for route in routes().expect("served").routes() {
        let name = route.method.name();
        let reads = [
            "Get", "List", "Watch", "Explain", "Audit", "Plan", "Suggest", "Export", "Compare",
            "Read",
        ]
        .iter()
        .any(|verb| name.starts_with(verb));
        assert_eq!(
            reads,
            route.http_method == Method::GET,
            "{}",
            route.method.full_name()
        );
    }
}

#[test]
fn all_paths_are_versioned_and_admin_paths_are_for_admins() {
    for route in routes().expect("served").routes() {
        assert!(route.pattern.starts_with("/api/v1/"), "{}", route.pattern);
        let admin = route.pattern.starts_with("/api/v1/admin/");
        assert_eq!(
            admin,
            route.access.audience == Audience::Admin,
            "{}",
            route.pattern
        );
    }
}

/// H-06: the short form names the same route. H-16: routes of slots.
#[test]
fn h_01_h_02_h_03_documented_routes_exist() {
    let table = routes().expect("served");
    for (method, path, rpc) in [
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/slice-topology/discovery",
            "DiscoverTopology",
        ),
        (
            Method::GET,
            "/api/v1/admin/nodes/n1/slice-topology/discovery",
            "GetTopologyDiscovery",
        ),
        (
            Method::GET,
            "/api/v1/admin/nodes/n1/resource-slots",
            "ListResourceSlots",
        ),
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/resource-slots:approve",
            "ApproveResourceSlots",
        ),
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/resource-slots/s1:disable",
            "DisableResourceSlot",
        ),
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/resource-slots/s1:repair",
            "RepairResourceSlot",
        ),
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/comparison/a1:correct",
            "CorrectComparison",
        ),
        (
            Method::POST,
            "/api/v1/admin/nodes/n1/partitions/6:deactivate",
            "DeactivatePartition",
        ),
        (Method::POST, "/api/v1/allocations", "CreateAllocation"),
        (
            Method::POST,
            "/api/v1/allocations/a1:release",
            "ReleaseAllocation",
        ),
        (
            Method::GET,
            "/api/v1/allocations/a1/timeline",
            "ListTimeline",
        ),
        (
            Method::GET,
            "/api/v1/admin/allocations/a1",
            "GetAllocationDetail",
        ),
    ] {
        match table.lookup(&method, path) {
            Lookup::Found(route, _) => assert_eq!(route.method.name(), rpc, "{method} {path}"),
            other => panic!("{method} {path}: {other:?}"),
        }
    }
}

/// G-04, L-01, L-02, L-03.
#[test]
fn h_23_no_fractional_shape_is_offered() {
    let shapes = gpuaas_proto::pool()
        .get_enum_by_name("gpuaas.common.v1.CapacityShape")
        .expect("exists");
    assert_eq!(
        gpuaas_proto::words::enum_value_names(&shapes),
        ["baremetal", "gpu_slice"]
    );
}

#[test]
fn methods_of_services_and_hosts_are_unknown_paths() {
    let table = routes().expect("served");
    for method in methods()
        .iter()
        .filter(|m| access_of(m).is_some_and(|a| !a.audience.is_public()))
    {
        let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
        assert!(
            matches!(table.lookup(&Method::POST, &path), Lookup::Unknown),
            "{path}"
        );
    }
}
