//! Another certificate for a host instance: before the last one expires, or after, by proof of its key.
use gpuaas_common::audit;
use gpuaas_common::error::{Error, Result};
use gpuaas_common::identity::Peer;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    RenewByKeyRequest, RenewRequest, RenewResponse,
};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Hosts, text};
use crate::authority::{CertificateError, HostKey, Issued};
use crate::domain::renewal::{LatestCertificate, by_key, not_current};
use crate::store::enrolment::{self, NewCertificate};

/// Longest certificate signing request in bytes.
const MAX_CSR: usize = 16 * 1024;

/// Who renews: a host instance, as its certificate or its request identifies it.
#[derive(Clone, Copy)]
struct Instance {
    node_id: Uuid,
    id: Uuid,
}

impl Hosts {
    /// Renewal by a certificate that is still valid: TLS has proven the instance.
    pub(super) async fn renew_as(
        &self,
        peer: &Peer,
        request: RenewRequest,
    ) -> Result<RenewResponse> {
        let Peer::Host {
            node_id,
            instance_id,
        } = peer
        else {
            return Err(not_current());
        };
        let key = self.host_key(&request.csr_pem)?;
        let instance = Instance {
            node_id: *node_id,
            id: *instance_id,
        };
        self.certify_again(instance, &key, "certificate", |held| {
            held.map(drop).ok_or_else(not_current)
        })
        .await
    }

    /// Renewal by the key alone: its certificate has expired.
    pub(super) async fn renew_with_key(&self, request: RenewByKeyRequest) -> Result<RenewResponse> {
        let instance = Instance {
            node_id: gpuaas_common::id::parse("node_id", &request.node_id)?,
            id: gpuaas_common::id::parse("instance_id", &request.instance_id)?,
        };
        let key = self.host_key(&request.csr_pem)?;
        let digest = key.digest();
        self.certify_again(instance, &key, "key", |held| by_key(held, &digest))
            .await
    }

    async fn certify_again(
        &self,
        instance: Instance,
        key: &HostKey,
        proof: &str,
        admit: impl FnOnce(Option<&LatestCertificate>) -> Result<()>,
    ) -> Result<RenewResponse> {
        let grace = f64::from(self.0.config.host_certificate_grace_days) * 86_400.0;
        let mut tx = self.0.pool.begin().await?;
        let held = enrolment::lock_current(&mut tx, instance.node_id, instance.id, grace).await?;
        admit(held.as_ref())?;
        let issued = self
            .recertify(&mut tx, instance.node_id, instance.id, key)
            .await?;
        let node = instance.node_id.to_string();
        let detail = serde_json::json!({ "instance_id": instance.id, "proof": proof });
        // of the certificate that it gets
        let detail = audit::with_digests(detail, None, Some(&issued.chain_pem));
        let entry = audit::Entry {
            principal: &format!("node:{node}"),
            action: "host.renew",
            resource: "node",
            resource_id: &node,
            request_id: "",
            detail,
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(node_id = %instance.node_id, instance_id = %instance.id, proof, "renew certificate of host");
        Ok(RenewResponse {
            certificate_pem: issued.chain_pem,
            ca_pem: self.0.trust_pem.clone(),
            expire_time: Some(proto_time(issued.expire_time)),
        })
    }

    /// Signs a key for an instance that is there, and stores that. The node's row is locked by the caller.
    pub(super) async fn recertify(
        &self,
        conn: &mut PgConnection,
        node_id: Uuid,
        instance_id: Uuid,
        key: &HostKey,
    ) -> Result<Issued> {
        let issued = self.sign(node_id, instance_id, key)?;
        enrolment::set_certificate(conn, instance_id, &certificate(&issued, key)).await?;
        Ok(issued)
    }

    /// The key of a request, or the field's error.
    pub(super) fn host_key(&self, csr_pem: &str) -> Result<HostKey> {
        text("csr_pem", csr_pem, MAX_CSR)?;
        HostKey::parse(csr_pem)
            .map_err(|error| Error::invalid("csr_pem", error.to_string()).source(error))
    }

    pub(super) fn sign(
        &self,
        node_id: Uuid,
        instance_id: Uuid,
        key: &HostKey,
    ) -> Result<Issued, CertificateError> {
        let (serial, now) = (Uuid::new_v4(), jiff::Timestamp::now());
        self.0
            .authority
            .issue(key, &node_id, &instance_id, serial, now)
    }
}

/// What is stored of a certificate.
pub(super) fn certificate(issued: &Issued, key: &HostKey) -> NewCertificate {
    NewCertificate {
        digest: issued.digest,
        expire_time: issued.expire_time,
        key_digest: key.digest(),
    }
}
