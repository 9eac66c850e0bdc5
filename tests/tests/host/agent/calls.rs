//! What the control plane would ask of a lab host: images, leases, operations and their ends.
use std::time::Duration;

use gpuaas_dev::seed;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::host::{LabHost, USER, until};

/// An allocation on this host, with what it was granted.
pub struct Tenant {
    pub allocation: Uuid,
    pub slot: pb::SlotGrant,
    pub lease: String,
}

/// What a call was answered, `None` when the agent died before it could: a call with the same operation id says then
/// how far it got.
fn answered<T>(answer: Result<T, tonic::Status>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(status)
            if status.message().contains("transport error")
                || status.code() == tonic::Code::Unavailable =>
        {
            None
        }
        Err(status) => panic!("refused: {status}"),
    }
}

impl LabHost {
    /// A guest image of the lab, in the registry.
    pub async fn image(&self, slug: &str) -> pb::ImageRef {
        let images = seed::guest_images(&|_| {}).expect("guest images");
        let image = images
            .iter()
            .find(|image| image.slug == slug)
            .expect("an image of this name");
        let mut pushed = self
            .push(slug, std::fs::read(&image.file).expect("image file"))
            .await;
        let seconds = i64::from(image.boot_timeout_seconds);
        pushed.boot_timeout = Some(prost_types::Duration { seconds, nanos: 0 });
        pushed
    }

    /// Pushes bytes as a blob.
    pub async fn push(&self, name: &str, content: Vec<u8>) -> pb::ImageRef {
        use oci_client::client::{Certificate, CertificateEncoding, ClientConfig};
        let digest = format!("sha256:{}", hex::encode(Sha256::digest(&content)));
        let size_bytes = content.len() as u64;
        let reference = format!("{}/lab/{name}@{digest}", self.registry.host());
        let config = ClientConfig {
            tls_certs_only: vec![Certificate {
                encoding: CertificateEncoding::Pem,
                data: std::fs::read(self.registry.ca_file()).expect("ca"),
            }],
            ..ClientConfig::default()
        };
        let client = oci_client::Client::new(config);
        let parsed = reference.parse().expect("reference");
        client
            .push_blob(&parsed, content, &digest)
            .await
            .expect("push");
        pb::ImageRef {
            slug: name.to_owned(),
            digest,
            source_uri: format!("oci://{reference}"),
            size_bytes,
            boot_timeout: Some(prost_types::Duration {
                seconds: 120,
                nanos: 0,
            }),
            ..pb::ImageRef::default()
        }
    }

    /// Slot `index` as discovery proposes it, for generation `generation` of this test.
    pub async fn slot(&self, index: usize, generation: u64) -> pb::SlotGrant {
        let report = self
            .topology()
            .discover(pb::DiscoverRequest::default())
            .await
            .expect("discovery")
            .into_inner();
        let candidate = &report.candidates[index];
        let mut slot_id = *candidate
            .bindings
            .as_ref()
            .expect("bindings")
            .nvme_device
            .as_bytes()
            .last_chunk::<16>()
            .expect("an identity");
        slot_id[6] = 0x40 | (slot_id[6] & 0x0f);
        pb::SlotGrant {
            slot_id: Uuid::from_bytes(slot_id).to_string(),
            slot_index: candidate.slot_index,
            slot_class: candidate.slot_class.clone(),
            token: Some(pb::FencingToken {
                cell_epoch: 1,
                slot_generation: self.generation(generation),
                workflow_epoch: 1,
            }),
            bindings: candidate.bindings.clone(),
            ..pb::SlotGrant::default()
        }
    }

    /// Asks for a lease that outlasts a test.
    pub async fn acquire(
        &self,
        allocation: Uuid,
        slot: &pb::SlotGrant,
        purpose: pb::LeasePurpose,
    ) -> Result<pb::AcquireLeaseResponse, gpuaas_common::Error> {
        let duration = Duration::from_secs(300);
        self.acquire_for(allocation, slot, purpose, duration).await
    }

    /// Asks for a lease of so long.
    pub async fn acquire_for(
        &self,
        allocation: Uuid,
        slot: &pb::SlotGrant,
        purpose: pb::LeasePurpose,
        duration: Duration,
    ) -> Result<pb::AcquireLeaseResponse, gpuaas_common::Error> {
        let request = pb::AcquireLeaseRequest {
            allocation_id: allocation.to_string(),
            slots: vec![slot.clone()],
            shape: Some(pb::VmShape {
                vcpus: 1,
                memory_mib: 256,
                ..pb::VmShape::default()
            }),
            duration: prost_types::Duration::try_from(duration).ok(),
            purpose: purpose.into(),
        };
        Ok(self.leases().acquire_lease(request).await?.into_inner())
    }

    /// A new allocation that leased slot `index`.
    pub async fn tenant(&self, index: usize, generation: u64) -> Tenant {
        let allocation = Uuid::now_v7();
        let slot = self.slot(index, generation).await;
        let lease = self
            .leased(allocation, &slot, pb::LeasePurpose::Provision)
            .await;
        Tenant {
            allocation,
            slot,
            lease,
        }
    }

    /// Begins a provision.
    pub async fn provision(&self, tenant: &Tenant, image: pb::ImageRef) -> Uuid {
        let operation = Uuid::now_v7();
        let request = self.provision_request(tenant, operation, image);
        until("provision to begin", async || {
            answered(self.vms().provision(request.clone()).await)
        })
        .await;
        operation
    }

    pub fn provision_request(
        &self,
        tenant: &Tenant,
        operation: Uuid,
        image: pb::ImageRef,
    ) -> pb::ProvisionRequest {
        let key =
            std::fs::read_to_string(self.client_key.with_extension("pub")).expect("public key");
        pb::ProvisionRequest {
            operation_id: operation.to_string(),
            lease_id: tenant.lease.clone(),
            allocation_id: tenant.allocation.to_string(),
            image: Some(image),
            guest_user: USER.to_owned(),
            ssh_public_keys: vec![key.trim().to_owned()],
            hostname: "guest".to_owned(),
            budget: Some(prost_types::Duration {
                seconds: 600,
                nanos: 0,
            }),
            network_group: String::new(),
            region_code: "lab-region".to_owned(),
            user_data: String::new(),
        }
    }

    /// The id of a lease that must be granted.
    pub async fn leased(
        &self,
        allocation: Uuid,
        slot: &pb::SlotGrant,
        purpose: pb::LeasePurpose,
    ) -> String {
        let granted = self.acquire(allocation, slot, purpose).await;
        let granted = granted.unwrap_or_else(|error| panic!("no lease: {error}"));
        granted.lease.expect("a lease").lease_id
    }

    /// Begins a release under a fresh lease.
    pub async fn release(&self, tenant: &Tenant) -> Uuid {
        let lease_id = self
            .leased(tenant.allocation, &tenant.slot, pb::LeasePurpose::Release)
            .await;
        let operation = Uuid::now_v7();
        let request = pb::ReleaseRequest {
            operation_id: operation.to_string(),
            lease_id,
            allocation_id: tenant.allocation.to_string(),
            graceful_timeout: Some(prost_types::Duration {
                seconds: 30,
                nanos: 0,
            }),
            budget: Some(prost_types::Duration {
                seconds: 300,
                nanos: 0,
            }),
        };
        until("release to begin", async || {
            answered(self.vms().release(request.clone()).await)
        })
        .await;
        operation
    }

    /// Begins a clean-up as a repair does.
    pub async fn clean_up(&self, tenant: &Tenant) -> Uuid {
        let lease_id = self
            .leased(tenant.allocation, &tenant.slot, pb::LeasePurpose::Repair)
            .await;
        let operation = Uuid::now_v7();
        let request = pb::CleanUpRequest {
            operation_id: operation.to_string(),
            lease_id,
            allocation_id: tenant.allocation.to_string(),
            budget: Some(prost_types::Duration {
                seconds: 300,
                nanos: 0,
            }),
        };
        self.vms().clean_up(request).await.expect("clean-up begins");
        operation
    }

    /// Begins a repair with a new generation of the slot.
    pub async fn repair(&self, tenant: &mut Tenant) -> Uuid {
        if let Some(token) = &mut tenant.slot.token {
            token.slot_generation += 1;
        }
        let lease_id = self
            .leased(tenant.allocation, &tenant.slot, pb::LeasePurpose::Repair)
            .await;
        let operation = Uuid::now_v7();
        let request = pb::RepairSlotRequest {
            operation_id: operation.to_string(),
            lease_id,
            allocation_id: tenant.allocation.to_string(),
            budget: Some(prost_types::Duration {
                seconds: 300,
                nanos: 0,
            }),
        };
        self.vms()
            .repair_slot(request)
            .await
            .expect("repair begins");
        operation
    }

    /// The operation once it has ended; the agent may be away for a while.
    pub async fn ended(&self, operation: Uuid) -> pb::HostOperation {
        until("the operation to end", async || {
            let request = pb::GetOperationRequest {
                operation_id: operation.to_string(),
            };
            let found = self.vms().get_operation(request).await.ok()?.into_inner();
            (found.state() != pb::OperationState::Running).then_some(found)
        })
        .await
    }

    /// The operation, which must have succeeded.
    pub async fn succeeded(&self, operation: Uuid) -> pb::HostOperation {
        let ended = self.ended(operation).await;
        assert_eq!(
            ended.state(),
            pb::OperationState::Succeeded,
            "{ended:#?}\n{}",
            self.log()
        );
        ended
    }

    /// The operation's failure, which it must have.
    pub async fn failed(&self, operation: Uuid) -> pb::OperationFailure {
        let ended = self.ended(operation).await;
        assert_eq!(ended.state(), pb::OperationState::Failed, "{ended:#?}");
        ended.failure.expect("a failure")
    }
}

/// Bindings of a grant.
pub fn bindings(slot: &mut pb::SlotGrant) -> &mut SlotBindings {
    slot.bindings.as_mut().expect("bindings")
}
