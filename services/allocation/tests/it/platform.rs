//! Scheduler and allocation as running services, called as the gateway calls them.

use std::net::{Ipv4Addr, SocketAddr};

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::identity::TokenMinter;
use gpuaas_common::{CancellationToken, Error};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::allocation_admin_service_client::AllocationAdminServiceClient;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use tonic::Request;
use uuid::Uuid;

use crate::world::{KEY, World, answers};

/// Scheduler and allocation as services, and the gateway's way to them.
pub struct Platform {
    pub world: World,
    minter: TokenMinter,
    pub users: AllocationServiceClient<GrpcChannel>,
    pub admins: AllocationAdminServiceClient<GrpcChannel>,
    /// What the scheduler's `/metrics` shows.
    scheduler: prometheus::Registry,
    _down: tokio_util::sync::DropGuard,
}

pub fn port() -> SocketAddr {
    (
        Ipv4Addr::LOCALHOST,
        gpuaas_dev::ports::free().expect("a port"),
    )
        .into()
}

impl Platform {
    pub async fn start() -> Self {
        let world = World::start().await;
        Self::of(world, gpuaas_scheduler::Config::default(), World::config()).await
    }

    /// The services with these settings, on a world that is there.
    pub async fn of(
        mut world: World,
        scheduling: gpuaas_scheduler::Config,
        config: gpuaas_allocation::Config,
    ) -> Self {
        let (scheduler, allocation) = (port(), port());
        world
            .peers
            .insert("scheduler".into(), format!("https://{scheduler}"));
        world
            .peers
            .insert("allocation".into(), format!("https://{allocation}"));
        let down = CancellationToken::new();
        let context = world.context("scheduler", "scheduler", scheduler);
        let registry = context.registry.clone();
        tokio::spawn(gpuaas_scheduler::run(
            context,
            gpuaas_scheduler::Config {
                queue_poll_seconds: 0.1,
                ..scheduling
            },
            down.clone(),
        ));
        let context = world.context("allocation", "allocation", allocation);
        tokio::spawn(gpuaas_allocation::run(context, config, down.clone()));
        answers(scheduler).await;
        answers(allocation).await;
        let channel = world
            .context("gateway", "gateway", port())
            .peers
            .channel("allocation")
            .expect("a channel");
        let key = world.authority.signing_key("token").expect("a key").private;
        let pem = std::fs::read_to_string(key).expect("a file");
        Self {
            minter: TokenMinter::from_pem(&pem).expect("a minter"),
            users: AllocationServiceClient::new(channel.clone()),
            admins: AllocationAdminServiceClient::new(channel),
            scheduler: registry,
            world,
            _down: down.drop_guard(),
        }
    }

    /// The same by a connection of its own: what nobody reads on one keeps no other waiting.
    pub fn apart(&self) -> AllocationServiceClient<GrpcChannel> {
        let context = self.world.context("gateway", "gateway", port());
        AllocationServiceClient::new(context.peers.channel("allocation").expect("a channel"))
    }

    /// A request as the gateway sends it for a person.
    pub fn as_person<T>(
        &self,
        message: T,
        principal: &str,
        project: Uuid,
        admin: bool,
        key: Option<&str>,
    ) -> Request<T> {
        let now = jiff::Timestamp::now().as_second();
        let token = self
            .minter
            .mint("allocation", principal, &[project], admin, now)
            .expect("a token");
        let mut request = Request::new(message);
        request.metadata_mut().insert(
            "authorization",
            format!("Bearer {token}").parse().expect("ascii"),
        );
        request
            .metadata_mut()
            .insert("x-request-id", "req-1".parse().expect("ascii"));
        if let Some(key) = key {
            request
                .metadata_mut()
                .insert("x-idempotency-key", key.parse().expect("ascii"));
        }
        request
    }

    pub fn user<T>(&self, message: T, key: Option<&str>) -> Request<T> {
        self.as_person(message, "user:test", self.world.project, false, key)
    }

    pub fn admin<T>(&self, message: T, key: Option<&str>) -> Request<T> {
        self.as_person(message, "user:root", Uuid::now_v7(), true, key)
    }

    pub async fn create(
        &self,
        request: pb::CreateAllocationRequest,
        key: &str,
    ) -> Result<pb::Allocation, Error> {
        let answer = self
            .users
            .clone()
            .create_allocation(self.user(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    }

    pub async fn get(&self, id: &str) -> pb::Allocation {
        let request = pb::GetAllocationRequest {
            allocation_id: id.into(),
        };
        self.users
            .clone()
            .get_allocation(self.user(request, None))
            .await
            .expect("the allocation")
            .into_inner()
    }

    pub async fn release(&self, id: &str, key: &str) -> Result<pb::Allocation, Error> {
        let request = pb::ReleaseAllocationRequest {
            allocation_id: id.into(),
        };
        let answer = self
            .users
            .clone()
            .release_allocation(self.user(request, Some(key)))
            .await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    }

    /// The value that the scheduler's `/metrics` show for a metric with these labels.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.scheduler.gather());
        let wanted = |line: &&str| {
            let has = |(key, value): &(&str, &str)| line.contains(&format!("{key}=\"{value}\""));
            line.starts_with(&format!("{name}{{")) && labels.iter().all(has)
        };
        let text = text.expect("encodes");
        let value = text.lines().find(wanted)?.rsplit(' ').next()?;
        value.parse().ok()
    }

    /// Rows that any effect would add to.
    pub async fn rows(&self) -> Vec<i64> {
        let mut counts = Vec::new();
        for sql in [
            "SELECT count(*) FROM placement.allocations",
            "SELECT count(*) FROM placement.claims",
            "SELECT count(*) FROM placement.workflows",
            "SELECT count(*) FROM placement.outbox",
            "SELECT count(*) FROM placement.idempotency",
            "SELECT count(*) FROM placement.timeline",
            "SELECT count(*) FROM placement.slots WHERE status = 'available'",
        ] {
            counts.push(
                sqlx::query_scalar(sql)
                    .fetch_one(&self.world.owner)
                    .await
                    .expect("a count"),
            );
        }
        counts
    }
}

pub fn good(name: &str) -> pb::CreateAllocationRequest {
    pb::CreateAllocationRequest {
        name: name.into(),
        region_code: "lab-1".into(),
        sku: "lab-slice".into(),
        gpu_count: 1,
        image: "lab-mini".into(),
        ssh_public_keys: vec![KEY.into()],
        ..pb::CreateAllocationRequest::default()
    }
}
