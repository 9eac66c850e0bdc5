//! Benchmarks of the pure pieces that every request or every placement runs through.
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use gpuaas_billing::domain::money::{Currency, line_amount, money_of};
use gpuaas_gateway::contract::route::Lookup;
use gpuaas_gateway::json::write::{Defaults, write_message};
use gpuaas_gateway::policy::{Asked, Policies, Resource, Who};
use gpuaas_gateway::store::{NO_GUARDRAILS, Role, Scope};
use gpuaas_gateway::transcode::request::bind;
use gpuaas_load_tests::{create_body, fleet, image, page_of_allocations};
use gpuaas_placement::decision::{Fleet, GpuCount, Request, Rules};
use gpuaas_placement::model::SlotClass;
use http::Method;
use prost::Message as _;
use prost_reflect::DynamicMessage;

fn placement(c: &mut Criterion) {
    let mut group = c.benchmark_group("placement");
    let rules = Rules::default();
    for nodes in [10, 100, 1000, 10_000] {
        let fleet = Fleet::of(&fleet(nodes));
        group.throughput(Throughput::Elements(nodes.into()));
        for gpu_count in [1, 4] {
            let request = Request {
                gpu_count: GpuCount::new(gpu_count).expect("at least one"),
                slot_class: SlotClass::H200Sxm,
                hugepages_1g: 180,
                image: image(),
                prewarmed: false,
            };
            assert!(
                fleet.rank(&rules, &request).fits() > 0,
                "the fleet has room"
            );
            let id = BenchmarkId::new(format!("decide {gpu_count} of"), nodes);
            group.bench_with_input(id, &fleet, |b, fleet| {
                b.iter(|| fleet.rank(&rules, black_box(&request)));
            });
            let id = BenchmarkId::new(format!("count fits of {gpu_count} on"), nodes);
            group.bench_with_input(id, &fleet, |b, fleet| {
                b.iter(|| fleet.count_fits(black_box(&request)));
            });
        }
    }
    group.finish();
}

fn money(c: &mut Criterion) {
    let currency = Currency::parse("EUR").expect("a currency");
    c.bench_function("money/one statement line", |b| {
        b.iter(|| {
            let nanos = line_amount(
                black_box(8),
                black_box(86_400_123_457),
                black_box(2_500_000_001),
            );
            money_of(&currency, nanos.expect("fits"))
        });
    });
}

fn transcoder(c: &mut Criterion) {
    let routes = gpuaas_gateway::routes().expect("the contract has routes");
    let path = "/api/v1/allocations";
    let Lookup::Found(create, variables) = routes.lookup(&Method::POST, path) else {
        panic!("no route for {path}");
    };
    let body = create_body();
    let mut group = c.benchmark_group("transcoder");
    group.throughput(Throughput::Elements(1));
    group.bench_function("find a route", |b| {
        b.iter(|| {
            let found = routes.lookup(
                &Method::GET,
                black_box("/api/v1/allocations/0192f0c1-2d3e-7001-8000-000000000001"),
            );
            assert!(matches!(found, Lookup::Found(..)));
        });
    });
    group.bench_function("JSON body to message", |b| {
        b.iter(|| bind(create, &variables, None, black_box(body.as_bytes())).expect("binds"));
    });

    let descriptor = gpuaas_proto::pool()
        .get_message_by_name("gpuaas.allocation.v1.ListAllocationsResponse")
        .expect("in the contract");
    for count in [1, 50] {
        let wire = page_of_allocations(count).encode_to_vec();
        group.throughput(Throughput::Elements(count.into()));
        group.bench_with_input(
            BenchmarkId::new("message to JSON, page of", count),
            &wire,
            |b, wire| {
                b.iter(|| {
                    let message = DynamicMessage::decode(descriptor.clone(), wire.as_slice())
                        .expect("decodes");
                    write_message(&message, Defaults::Write).to_text()
                });
            },
        );
    }
    group.finish();
}

/// What the edge decides for each action of each caller in each project, once in seconds.
fn policies(c: &mut Criterion) {
    let routes = gpuaas_gateway::routes().expect("the contract has routes");
    let policies = Policies::open(None, &routes).expect("the embedded policies");
    let (project, organisation) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
    let in_project = |role| Resource::Project {
        id: project,
        organisation,
        role: Some(role),
        has_grant: false,
        guardrails: &NO_GUARDRAILS,
        asked: Asked::default(),
    };
    let who = |scopes| Who {
        name: "user:alice",
        platform_role: None,
        scopes,
        by_key: false,
    };
    let mut group = c.benchmark_group("policies");
    group.throughput(Throughput::Elements(1));
    for (name, who, action, resource) in [
        (
            "a member launches",
            who(None),
            "allocation.create",
            in_project(Role::Member),
        ),
        (
            "a viewer may not",
            who(None),
            "allocation.create",
            in_project(Role::Viewer),
        ),
        (
            "a key lists",
            who(Some([Scope::Read].as_slice())),
            "allocation.list",
            in_project(Role::Owner),
        ),
        (
            "the catalogue is read",
            who(None),
            "sku.list",
            Resource::Platform,
        ),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| policies.decide(black_box(who), black_box(action), resource));
        });
    }
    group.finish();
}

criterion_group!(benches, placement, money, transcoder, policies);
criterion_main!(benches);
