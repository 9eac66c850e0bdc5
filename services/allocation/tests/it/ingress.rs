//! Ingress mappings: requested over gRPC, carried to the real core of an agent, and gone with what they lead to. The packet filter
//! itself is tried on the lab host (`tests/tests/host/ingress.rs`).
use std::time::Duration;

use gpuaas_allocation::reconcile;
use gpuaas_common::Error;
use gpuaas_common::client::GrpcChannel;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::agent::v1 as host;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::IngressMappingState as State;
use gpuaas_proto::gpuaas::allocation::v1::ingress_service_client::IngressServiceClient;
use gpuaas_proto::gpuaas::common::v1::IngressProtocol;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::board::Board;
use crate::platform::{Platform, good, port};
use crate::world::World;

const ADDRESS: &str = "203.0.113.7";
const TIMEOUT: Duration = Duration::from_secs(20);

/// The service as the gateway calls it.
struct Ingress<'a> {
    platform: &'a Platform,
    client: IngressServiceClient<GrpcChannel>,
}

impl<'a> Ingress<'a> {
    fn of(platform: &'a Platform) -> Self {
        let context = platform.world.context("gateway", "gateway", port());
        let channel = context.peers.channel("allocation").expect("a channel");
        let client = IngressServiceClient::new(channel);
        Self { platform, client }
    }

    async fn create_with(
        &self,
        allocation_id: &str,
        key: &str,
        change: impl FnOnce(&mut pb::IngressMappingConfig),
    ) -> Result<pb::IngressMapping, Error> {
        let mut config = pb::IngressMappingConfig {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 443,
            ..pb::IngressMappingConfig::default()
        };
        change(&mut config);
        let request = pb::CreateIngressMappingRequest {
            allocation_id: allocation_id.to_owned(),
            config: Some(config),
        };
        let request = self.platform.user(request, Some(key));
        Ok(self
            .client
            .clone()
            .create_ingress_mapping(request)
            .await?
            .into_inner())
    }

    async fn create(&self, id: Uuid, key: &str) -> pb::IngressMapping {
        let made = self.create_with(&id.to_string(), key, |_| {}).await;
        made.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn list(&self, id: Uuid) -> Vec<pb::IngressMapping> {
        let request = pb::ListIngressMappingsRequest {
            allocation_id: id.to_string(),
            ..Default::default()
        };
        let request = self.platform.user(request, None);
        let listed = self.client.clone().list_ingress_mappings(request).await;
        listed.expect("listed").into_inner().ingress_mappings
    }

    /// The lists of a TCP mapping, and of a UDP one at the same port that was made after it.
    async fn selects(&self, id: Uuid, [tcp, udp]: [&str; 2]) {
        let select = async |filter: &str, order_by: &str| {
            let request = pb::ListIngressMappingsRequest {
                allocation_id: id.to_string(),
                filter: filter.into(),
                order_by: order_by.into(),
                ..Default::default()
            };
            let request = self.platform.user(request, None);
            let listed = self.client.clone().list_ingress_mappings(request).await;
            listed.map(|listed| listed.into_inner().ingress_mappings)
        };
        let page = async |page_token: String| {
            let request = pb::ListIngressMappingsRequest {
                allocation_id: id.to_string(),
                page_size: 1,
                page_token,
                ..Default::default()
            };
            let request = self.platform.user(request, None);
            let listed = self.client.clone().list_ingress_mappings(request).await;
            let page = listed.expect("a page").into_inner();
            let found = page.ingress_mappings.into_iter().map(|one| one.id);
            (found.collect::<Vec<_>>(), page.next_page_token)
        };
        let (first, next) = page(String::new()).await;
        assert_eq!(first, [tcp]);
        assert_eq!(page(next).await, (vec![udp.to_owned()], String::new()));
        let cases: [(&str, &str, &[&str]); 5] = [
            ("", "", &[tcp, udp]),
            ("", "protocol desc, vm_port", &[udp, tcp]),
            ("protocol = udp", "", &[udp]),
            (
                "state = active AND NOT expire_time:*",
                "create_time desc",
                &[udp, tcp],
            ),
            (
                "external_port < 30000 OR failure:*",
                "external_port, state, creator",
                &[],
            ),
        ];
        for (filter, order_by, expected) in cases {
            let found = select(filter, order_by).await.expect(filter);
            let found: Vec<_> = found.iter().map(|one| one.id.as_str()).collect();
            assert_eq!(found, expected, "{filter} by {order_by}");
        }
        for (filter, order_by, field) in [("node_id:*", "", "filter"), ("", "failure", "order_by")]
        {
            let error = Error::from(select(filter, order_by).await.expect_err("refused"));
            assert_eq!(error.fields()[0].0, field);
        }
    }

    async fn delete(&self, mapping: &pb::IngressMapping) -> Result<pb::IngressMapping, Error> {
        self.delete_by(mapping, &mapping.id).await
    }

    async fn delete_by(
        &self,
        mapping: &pb::IngressMapping,
        key: &str,
    ) -> Result<pb::IngressMapping, Error> {
        let request = pb::DeleteIngressMappingRequest {
            allocation_id: mapping.allocation_id.clone(),
            ingress_mapping_id: mapping.id.clone(),
        };
        let request = self.platform.user(request, Some(key));
        Ok(self
            .client
            .clone()
            .delete_ingress_mapping(request)
            .await?
            .into_inner())
    }

    /// The mappings once they are so.
    async fn until(
        &self,
        id: Uuid,
        what: &str,
        so: impl Fn(&[pb::IngressMapping]) -> bool,
    ) -> Vec<pb::IngressMapping> {
        until(what, TIMEOUT, async || {
            let listed = self.list(id).await;
            so(&listed).then_some(listed)
        })
        .await
    }

    async fn until_active(&self, id: Uuid) -> Vec<pb::IngressMapping> {
        let active = |one: &pb::IngressMapping| state(one) == State::Active;
        self.until(id, "active", |all| {
            !all.is_empty() && all.iter().all(active)
        })
        .await
    }
}

fn state(mapping: &pb::IngressMapping) -> State {
    mapping.status.as_ref().expect("a status").state()
}

fn external_port(mapping: &pb::IngressMapping) -> u32 {
    mapping.status.as_ref().expect("a status").external_port
}

async fn active(platform: &Platform, name: &str) -> Uuid {
    let made = platform.create(good(name), name).await.expect("launched");
    let id = made.id.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform.world.until_idle(id).await;
    id
}

/// The reconciler's visit.
async fn visit(world: &World) {
    let deps = world.deps(world.pool.clone(), World::config());
    reconcile::node(&deps, world.node_id)
        .await
        .expect("compared");
}

/// Gives ports to the platform, which hears of it with the next visit.
async fn give(world: &World, owned: Option<&'static str>) {
    world.host_gone().await;
    world.host.give_ingress(owned.map(|ports| (ADDRESS, ports)));
    world.host_up().await;
    visit(world).await;
}

/// External ports that the host leads to the VM of an allocation.
async fn on_host(world: &World, id: Uuid) -> Vec<u32> {
    let held = world.holds().await;
    let of = held
        .ingress
        .iter()
        .find(|one| one.allocation_id == id.to_string());
    of.map_or_else(Vec::new, |one| {
        one.rules.iter().map(|rule| rule.external_port).collect()
    })
}

/// D-80
#[tokio::test]
async fn j_13_an_ingress_mapping_is_carried_to_the_host_and_ends_with_its_deletion_its_expiry_and_its_allocation()
 {
    let platform = Platform::start().await;
    let world = &platform.world;
    give(world, Some("30000-30009")).await;
    let ingress = Ingress::of(&platform);
    let id = active(&platform, "served").await;

    let made = ingress.create(id, "one").await;
    assert_eq!(state(&made), State::Pending);
    assert_eq!(made.creator, "user:test");
    let status = made.status.clone().expect("a status");
    assert_eq!(status.external_address, ADDRESS);
    assert!(
        (30_000..=30_009).contains(&status.external_port),
        "{status:?}"
    );
    let again = ingress.create(id, "one").await;
    assert_eq!(again.id, made.id, "one key, one mapping");
    let chosen = ingress
        .create_with(&id.to_string(), "two", |config| {
            config.protocol = IngressProtocol::Udp.into();
            config.external_port = external_port(&made);
            config.source_cidrs = vec!["198.51.100.0/24".into()];
        })
        .await
        .expect("another protocol");
    ingress.until_active(id).await;
    assert_eq!(on_host(world, id).await.len(), 2);
    ingress.selects(id, [&made.id, &chosen.id]).await;

    // a host that lost what it was told, and one that was told by nobody, are brought to what the ledger says
    let forged = forged(world, id).await;
    world.set_ingress(forged).await.expect("set");
    assert_eq!(on_host(world, id).await, [30_009]);
    visit(world).await;
    assert_eq!(on_host(world, id).await.len(), 2);

    let deleted = ingress.delete(&chosen).await.expect("deleted");
    assert_eq!(state(&deleted), State::Deleting);
    ingress.until(id, "one mapping", |all| all.len() == 1).await;
    assert_eq!(on_host(world, id).await, [external_port(&made)]);
    let again = ingress.delete(&chosen).await.expect("replayed");
    assert_eq!(state(&again), State::Deleting);
    let gone = ingress.delete_by(&chosen, "other").await;
    assert_eq!(gone.expect_err("gone").code(), Code::NotFound);

    let soon = jiff::Timestamp::now() + Duration::from_secs(5);
    let expires = gpuaas_common::time::proto_time(soon);
    let brief = ingress
        .create_with(&id.to_string(), "brief", |config| {
            config.expire_time = Some(expires);
        })
        .await
        .expect("made");
    ingress
        .until(id, "expired", |all| {
            all.iter().all(|one| one.id != brief.id)
        })
        .await;
    assert!(jiff::Timestamp::now() >= soon);
    assert_eq!(on_host(world, id).await, [external_port(&made)]);

    platform
        .release(&id.to_string(), "release")
        .await
        .expect("released");
    world.until_state(id, "released").await;
    assert_eq!(on_host(world, id).await, [0; 0]);
    assert!(ingress.list(id).await.is_empty());
    let audit: Vec<(String, String)> = sqlx::query_as(
        "SELECT principal, action FROM placement.audit WHERE resource = 'ingress_mapping' ORDER BY at",
    )
    .fetch_all(&world.owner)
    .await
    .expect("the audit");
    let by_user = |action: &str| ("user:test".to_owned(), format!("ingress_mapping.{action}"));
    let expired = (
        "service:allocation".to_owned(),
        "ingress_mapping.expire".to_owned(),
    );
    assert_eq!(
        audit,
        [
            by_user("create"),
            by_user("create"),
            by_user("delete"),
            by_user("create"),
            expired
        ]
    );
}

/// What somebody with the right tokens tells the host behind the ledger's back.
async fn forged(world: &World, id: Uuid) -> host::SetIngressRequest {
    let held = world.holds().await;
    let of = held
        .ingress
        .iter()
        .find(|one| one.allocation_id == id.to_string());
    let mut ingress = of.expect("mappings").clone();
    ingress.rules.truncate(1);
    ingress.rules[0].external_port = 30_009;
    let own = |hold: &&host::Hold| hold.allocation_id == id.to_string();
    let tokens = held.holds.iter().filter(own).map(|hold| host::SlotToken {
        slot_id: hold.slot_id.clone(),
        token: hold.token,
    });
    host::SetIngressRequest {
        ingress: Some(ingress),
        tokens: tokens.collect(),
    }
}

#[tokio::test]
async fn l_16_without_an_owner_of_address_and_ports_there_is_no_ingress() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let ingress = Ingress::of(&platform);
    visit(world).await;
    let id = active(&platform, "served").await;
    let refused = ingress
        .create_with(&id.to_string(), "off", |_| {})
        .await
        .expect_err("off");
    assert_eq!(
        (refused.code(), refused.reason()),
        (Code::FailedPrecondition, ErrorReason::IngressOff)
    );
    assert!(
        refused.message().contains("agent.ingress.address"),
        "{refused}"
    );

    give(world, Some("30000-30009")).await;
    let made = ingress.create(id, "on").await;
    ingress.until_active(id).await;
    // the operator takes the port back
    give(world, Some("30020-30029")).await;
    // a platform that has not heard of it yet may ask the host before, which refuses
    let taken = "The operator of the host has taken this address or port back.";
    let failed = |all: &[pb::IngressMapping]| {
        let says = |one: &pb::IngressMapping| one.status.as_ref().map(|now| now.failure.clone());
        all.iter()
            .all(|one| state(one) == State::Failed && says(one).as_deref() == Some(taken))
    };
    ingress.until(id, "failed", failed).await;
    assert_eq!(on_host(world, id).await, [0; 0]);
    // and gives it again
    give(world, Some("30000-30029")).await;
    let listed = ingress.until_active(id).await;
    assert_eq!(external_port(&listed[0]), external_port(&made));
    assert_eq!(on_host(world, id).await, [external_port(&made)]);
}

#[tokio::test]
async fn p6_a_host_takes_ingress_from_nobody_but_the_holder_of_its_slots() {
    let platform = Platform::start().await;
    let world = &platform.world;
    give(world, Some("30000-30009")).await;
    let ingress = Ingress::of(&platform);
    let id = active(&platform, "served").await;
    ingress.create(id, "one").await;
    ingress.until_active(id).await;
    let before = on_host(world, id).await;
    let good = forged(world, id).await;
    let refused = async |change: fn(&mut host::SetIngressRequest)| {
        let mut request = good.clone();
        change(&mut request);
        let error = world.set_ingress(request).await.expect_err("refused");
        (
            error.reason(),
            error.fields().first().map(|(field, _)| field.clone()),
        )
    };
    let behind = refused(|request| {
        let token = request.tokens[0].token.as_mut().expect("a token");
        token.slot_generation -= 1;
    });
    assert_eq!(behind.await.0, ErrorReason::Fenced);
    let late = refused(|request| request.ingress.as_mut().expect("given").version -= 1);
    assert_eq!(late.await.0, ErrorReason::Fenced);
    let anothers = refused(|request| {
        request.ingress.as_mut().expect("given").allocation_id = Uuid::now_v7().to_string();
    });
    assert_eq!(anothers.await.0, ErrorReason::LeaseRequired);
    let outside =
        refused(|request| request.ingress.as_mut().expect("given").rules[0].external_port = 22);
    assert_eq!(
        outside.await,
        (ErrorReason::FieldInvalid, Some("external_port".to_owned()))
    );
    assert_eq!(on_host(world, id).await, before);
}

#[tokio::test]
async fn j_13_a_mapping_that_cannot_be_is_refused_with_the_field_and_the_rule() {
    let platform = Platform::start().await;
    let world = &platform.world;
    give(world, Some("30000-30001")).await;
    let ingress = Ingress::of(&platform);
    let id = active(&platform, "served").await;
    let text = id.to_string();

    type Break = fn(&mut pb::IngressMappingConfig);
    let breaks: [(&str, Break); 6] = [
        ("config.protocol", |config| config.protocol = 0),
        ("config.vm_port", |config| config.vm_port = 70_000),
        ("config.external_port", |config| config.external_port = 22),
        ("config.external_port", |config| {
            config.external_port = 30_002;
        }),
        ("config.source_cidrs", |config| {
            config.source_cidrs = vec!["198.51.100.1/24".into()];
        }),
        ("config.expire_time", |config| {
            config.expire_time = Some(prost_types::Timestamp {
                seconds: 1,
                nanos: 0,
            });
        }),
    ];
    for (number, (field, change)) in breaks.into_iter().enumerate() {
        let refused = ingress
            .create_with(&text, &format!("bad-{number}"), change)
            .await;
        let refused = refused.expect_err(field);
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert_eq!(refused.fields()[0].0, field, "{refused}");
    }
    // of another project
    let request = pb::CreateIngressMappingRequest {
        allocation_id: text.clone(),
        config: Some(pb::IngressMappingConfig {
            protocol: IngressProtocol::Tcp.into(),
            vm_port: 22,
            ..pb::IngressMappingConfig::default()
        }),
    };
    let request = platform.as_person(request, "user:other", Uuid::now_v7(), false, Some("k"));
    let foreign = ingress.client.clone().create_ingress_mapping(request).await;
    let foreign = Error::from(foreign.expect_err("foreign"));
    assert_eq!(foreign.reason(), ErrorReason::AllocationNotFound);

    // each port once, and no more than there are
    let first = ingress.create(id, "first").await;
    let taken = ingress
        .create_with(&text, "taken", |config| {
            config.external_port = external_port(&first);
        })
        .await
        .expect_err("taken");
    assert_eq!(taken.code(), Code::AlreadyExists);
    assert_eq!(taken.fields()[0].0, "config.external_port");
    ingress.create(id, "second").await;
    let none = ingress
        .create_with(&text, "third", |_| {})
        .await
        .expect_err("none left");
    assert_eq!(none.reason(), ErrorReason::NoCapacity);
    ingress.until_active(id).await;

    platform.release(&text, "release").await.expect("released");
    let late = ingress
        .create_with(&text, "late", |_| {})
        .await
        .expect_err("released");
    assert_eq!(late.reason(), ErrorReason::StateConflict);
}

#[tokio::test]
async fn an_allocation_and_a_project_have_so_many_mappings_and_no_more() {
    let config = gpuaas_allocation::Config {
        ingress_per_allocation: 2,
        ingress_per_project: 3,
        ..World::config()
    };
    let world = World::start().await;
    let platform = Platform::of(world, gpuaas_scheduler::Config::default(), config).await;
    give(&platform.world, Some("30000-30009")).await;
    let ingress = Ingress::of(&platform);
    let (one, two) = (
        active(&platform, "one").await,
        active(&platform, "two").await,
    );
    ingress.create(one, "1").await;
    ingress.create(one, "2").await;
    let quota = async |id: Uuid, key: &str| {
        let refused = ingress
            .create_with(&id.to_string(), key, |_| {})
            .await
            .expect_err("too many");
        assert_eq!(refused.reason(), ErrorReason::Quota, "{refused}");
        refused.metadata()["quota"].clone()
    };
    assert_eq!(quota(one, "3").await, "ingress_mappings_per_allocation");
    ingress.create(two, "4").await;
    assert_eq!(quota(two, "5").await, "ingress_mappings_per_project");
}

#[tokio::test]
async fn a_mapping_whose_host_is_away_has_failed_and_is_carried_when_it_is_back() {
    let platform = Platform::start().await;
    let world = &platform.world;
    give(world, Some("30000-30009")).await;
    let ingress = Ingress::of(&platform);
    let id = active(&platform, "served").await;
    world.host_gone().await;
    ingress.create(id, "one").await;
    let failed = |all: &[pb::IngressMapping]| state(&all[0]) == State::Failed;
    let listed = ingress.until(id, "failed", failed).await;
    let failure = listed[0]
        .status
        .as_ref()
        .map(|status| status.failure.as_str());
    assert_eq!(
        failure,
        Some("The host does not answer. The platform tries again.")
    );
    world.host_up().await;
    sqlx::query("UPDATE placement.ingress_mappings SET retry_at = now()")
        .execute(&world.owner)
        .await
        .expect("due");
    ingress.until_active(id).await;
    assert_eq!(on_host(world, id).await.len(), 1);
}

#[tokio::test]
async fn bare_metal_has_no_ingress() {
    let Board { world, .. } = Board::start().await;
    let config = gpuaas_allocation::Config {
        baremetal: gpuaas_allocation::config::BaremetalExecutor::Simulated,
        ..World::config()
    };
    let scheduling = gpuaas_scheduler::Config {
        baremetal: true,
        ..gpuaas_scheduler::Config::default()
    };
    let platform = Platform::of(world, scheduling, config).await;
    let request = pb::CreateAllocationRequest {
        sku: crate::board::NODE.into(),
        gpu_count: 8,
        image: "node-base".into(),
        ..good("node")
    };
    let made = platform.create(request, "node").await.expect("launched");
    platform
        .world
        .until_state(made.id.parse().expect("an id"), "active")
        .await;
    let ingress = Ingress::of(&platform);
    let refused = ingress
        .create_with(&made.id, "one", |_| {})
        .await
        .expect_err("bare metal");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.fields()[0].0, "allocation_id");
    assert!(
        refused.fields()[0].1.starts_with("must be a slice"),
        "{refused}"
    );
}
