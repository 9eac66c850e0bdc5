//! The scheduler as a process of its own, called by gRPC as the allocation service and the gateway call it.
use anyhow::Context as _;
use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::identity::TokenMinter;
use gpuaas_dev::process::Process;
use gpuaas_dev::stack::{Kind, Stack};
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{Image, ReserveRequest};
use gpuaas_proto::gpuaas::scheduler::v1::ListAvailabilityRequest;
use gpuaas_proto::gpuaas::scheduler::v1::availability_service_client::AvailabilityServiceClient;
use std::time::Instant;
use tonic::Request;
use tonic::transport::{Certificate, Identity};
use uuid::Uuid;

use crate::{PROJECTS, SKU};

const SCHEDULER: &str = "scheduler";

/// A scheduler that runs.
pub struct Served {
    /// Its process.
    pub process: Process,
    placement: PlacementServiceClient<GrpcChannel>,
    availability: AvailabilityServiceClient<GrpcChannel>,
    minter: TokenMinter,
}

impl Served {
    /// Starts it on the stack's database.
    pub async fn start(stack: &Stack) -> anyhow::Result<Self> {
        let kind = Kind::find(SCHEDULER)?;
        stack.up_with(&[kind], &|line| eprintln!("{line}")).await?;
        let part = stack.service(kind, 1)?;
        let channel = |caller: &str| {
            let own = stack.authority().service(caller, &[])?;
            let authority = stack.authority().authority();
            let url = format!("https://{}", kind.address(stack.options().instance, 1));
            let peers = Peers::new(
                [(SCHEDULER.to_owned(), url)],
                Certificate::from_pem(std::fs::read(authority.certificate)?),
                Identity::from_pem(std::fs::read(own.certificate)?, std::fs::read(own.key)?),
            );
            anyhow::Ok(peers.channel(SCHEDULER)?)
        };
        let key = stack.authority().signing_key("internal-token")?.private;
        Ok(Self {
            process: part.running().context("the scheduler does not run")?,
            placement: PlacementServiceClient::new(channel("allocation")?),
            availability: AvailabilityServiceClient::new(channel("gateway")?),
            minter: TokenMinter::from_pem(&std::fs::read_to_string(key)?)?,
        })
    }

    /// Reserves one GPU for one of the projects.
    pub async fn reserve(&self) -> anyhow::Result<Uuid> {
        let unique = Uuid::new_v4();
        let project_id = Uuid::from_u128(unique.as_u128() % PROJECTS);
        let unique = unique.simple().to_string();
        let request = ReserveRequest {
            principal: "user:bench".into(),
            idempotency_key: unique.clone(),
            request_hash: vec![7; 32],
            project_id: project_id.to_string(),
            name: format!("a-{unique}"),
            region_code: "r".into(),
            sku: SKU.into(),
            gpu_count: 1,
            image: Some(Image {
                slug: "ubuntu".into(),
                ..Image::default()
            }),
            ssh_public_keys: vec!["ssh-ed25519 AAAA bench".into()],
            ..ReserveRequest::default()
        };
        let reserved = self.placement.clone().reserve(request).await?.into_inner();
        Ok(reserved.allocation_id.parse()?)
    }

    /// Asks what can be had; milliseconds.
    pub async fn availability(&self) -> anyhow::Result<f64> {
        let now = jiff::Timestamp::now().as_second();
        let token = self
            .minter
            .mint(SCHEDULER, "user:bench", &[], false, now)
            .context("a token")?;
        let mut request = Request::new(ListAvailabilityRequest {
            sku: SKU.into(),
            ..ListAvailabilityRequest::default()
        });
        let token = format!("Bearer {token}");
        request
            .metadata_mut()
            .insert("authorization", token.parse()?);
        let began = Instant::now();
        let answer = self.availability.clone().list_availability(request).await?;
        anyhow::ensure!(
            answer
                .into_inner()
                .availability
                .iter()
                .any(|row| row.fits > 0),
            "the fleet has no room"
        );
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }
}
