//! The image catalog: what a slice can boot, and which node holds it.
//!
//! It owns schema `images` (E-01 to E-06). The gateway calls it for users (`ImageService`) and administrators
//! (`ImageAdminService`), allocation for `ImageCatalogService`. Images are OCI artifacts in the platform registry
//! (E-15): the catalog resolves a reference to digests once, checks the content against them, and pins it, so that
//! an image never changes under its name. The content of a large image is read between the calls that ask for it
//! ([`registry::Verifications`]). `gpuaas-image-push` publishes such artifacts.
pub mod api;
pub mod domain;
pub mod registry;
pub mod store;

use std::path::PathBuf;
use std::time::Duration;

use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminServiceServer;
use gpuaas_proto::gpuaas::images::v1::image_service_server::ImageServiceServer;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogServiceServer;
use serde::Deserialize;

use crate::api::Api;
use crate::registry::{Registry, Verifications};

/// How long a call waits until an image is read, well below what a call may take: who asks for a larger one repeats the call.
const PATIENCE: Duration = Duration::from_secs(10);

/// Section `[image_catalog]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Certificates (PEM) that a registry must be signed by; the system's without it.
    pub registry_ca_file: Option<PathBuf>,
    /// Registries that images may come from, "host" or "host:port". The catalog calls no other.
    pub allowed_registries: Vec<String>,
    /// Read the whole image and check its digest before it becomes active. Nodes check it again in any case.
    pub verify_on_create: bool,
    /// Seconds after which a registry that sends nothing has failed.
    pub registry_timeout_seconds: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            registry_ca_file: None,
            allowed_registries: Vec::new(),
            verify_on_create: true,
            registry_timeout_seconds: 20,
        }
    }
}

/// Runs the service until `shutdown`.
///
/// # Errors
/// Unusable settings, or a server that cannot listen.
pub async fn run(ctx: Context, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let read_timeout = Duration::from_secs(config.registry_timeout_seconds.max(1));
    let api = Api {
        pool: ctx.database()?,
        scheduler: ctx.peers.channel("scheduler")?,
        registry: Registry::new(config.registry_ca_file.as_deref(), read_timeout)?,
        allowed_registries: config.allowed_registries,
        verify_on_create: config.verify_on_create,
        verifications: Verifications::new(PATIENCE),
    };
    Server::new(&ctx)
        .add(ImageServiceServer::new(api.clone()))
        .add(ImageAdminServiceServer::new(api.clone()))
        .add(ImageCatalogServiceServer::new(api))
        .run(shutdown)
        .await
}
