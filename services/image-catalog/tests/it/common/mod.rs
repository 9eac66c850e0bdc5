//! What the tests of the catalog share: a real database, a real registry, a scheduler that knows one SKU.
pub mod scheduler;

use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_common::identity::{Caller, PlatformRole};
use gpuaas_dev::postgres::TestDb;
use gpuaas_dev::registry::TestRegistry;
use gpuaas_image_catalog::api::Api;
use gpuaas_image_catalog::domain::image::{DriverStrategy as Strategy, Status};
use gpuaas_image_catalog::domain::source::Source;
use gpuaas_image_catalog::registry::{Pushed, Registry, Resolved, Verifications};
use gpuaas_image_catalog::store::images::NewImage;
use gpuaas_proto::gpuaas::common::v1::DriverStrategy;
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminService;
use gpuaas_proto::gpuaas::images::v1::{
    CreateImageRequest, Image, ImageStatus, SetImageStatusRequest,
};
use sqlx::PgPool;
use tonic::Request;
use uuid::Uuid;

pub const ROLE: &str = "gpuaas_images";
pub const SKU: &str = "lab-slice";

pub struct World {
    /// Dropped with the world.
    _db: TestDb,
    pub pool: PgPool,
    pub registry: TestRegistry,
    pub api: Api,
    pub files: tempfile::TempDir,
}

impl World {
    pub async fn new() -> Self {
        let db = TestDb::create().await;
        let pool = db.pool(ROLE).await;
        let registry = tokio::task::spawn_blocking(TestRegistry::start)
            .await
            .expect("registry");
        let client = Registry::new(Some(registry.server().ca_file()), Duration::from_secs(10))
            .expect("client");
        let api = Api {
            pool: pool.clone(),
            scheduler: scheduler::channel(&[SKU, "h200-sxm-slice"]).await,
            registry: client,
            allowed_registries: vec![registry.server().host()],
            verify_on_create: true,
            // a busy machine takes its time
            verifications: Verifications::new(Duration::from_mins(1)),
        };
        Self {
            _db: db,
            pool,
            registry,
            api,
            files: tempfile::tempdir().expect("temp dir"),
        }
    }

    /// A file whose bytes depend on `seed`, a bit more than two chunks of an upload.
    pub fn file(&self, seed: u8) -> PathBuf {
        let path = self.files.path().join(format!("image-{seed}.raw"));
        let bytes: Vec<u8> = (0..9_000_001u32)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed)
            .collect();
        std::fs::write(&path, bytes).expect("write");
        path
    }

    pub fn uri(&self, name: &str) -> String {
        format!(
            "oci://{}/slice-guest-images/{name}",
            self.registry.server().host()
        )
    }

    pub async fn push(&self, file: &Path, name: &str) -> Pushed {
        let target = Source::parse(&self.uri(name)).expect("a source");
        self.api.registry.push(file, &target).await.expect("pushed")
    }

    pub fn request(&self, slug: &str, source_uri: &str) -> CreateImageRequest {
        CreateImageRequest {
            slug: slug.to_owned(),
            display_name: String::new(),
            driver_strategy: DriverStrategy::None.into(),
            source_uri: source_uri.to_owned(),
            compatible_skus: vec![SKU.to_owned()],
            boot_timeout_seconds: 0,
            disabled: false,
            readiness_checks: Vec::new(),
        }
    }

    pub async fn create(&self, key: &str, request: CreateImageRequest) -> Result<Image, Error> {
        let answer = self.api.create_image(as_admin(key, request)).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    pub async fn set_status(
        &self,
        key: &str,
        request: SetImageStatusRequest,
    ) -> Result<Image, Error> {
        let answer = self.api.set_image_status(as_admin(key, request)).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    /// What is published there.
    pub async fn resolved(&self, name: &str) -> Resolved {
        let source = Source::parse(&self.uri(name)).expect("a source");
        self.api.registry.resolve(&source).await.expect("published")
    }

    pub fn new_image(&self, slug: &str, resolved: &Resolved) -> NewImage {
        NewImage {
            slug: slug.parse().expect("a slug"),
            display_name: slug.to_owned(),
            status: Status::Active,
            driver_strategy: Strategy::None,
            source: resolved.source.clone(),
            resolved: Some(resolved.clone()),
            compatible_skus: vec![SKU.to_owned()],
            boot_timeout_seconds: 60,
            readiness_checks: Vec::new(),
        }
    }

    pub async fn count(&self, table: &'static str) -> i64 {
        let statement = match table {
            "os_images" => "SELECT count(*) FROM os_images",
            "audit" => "SELECT count(*) FROM audit",
            "idempotency" => "SELECT count(*) FROM idempotency",
            other => panic!("no statement for {other}"),
        };
        sqlx::query_scalar(statement)
            .fetch_one(&self.pool)
            .await
            .expect("count")
    }
}

/// A request as the server's access layer hands it over.
pub fn as_admin<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller {
        principal: "user:root".to_owned(),
        projects: vec![Uuid::now_v7()],
        platform_role: Some(PlatformRole::Admin),
        action: None,
        request_id: "r-1".to_owned(),
        idempotency_key: (!key.is_empty()).then(|| key.to_owned()),
    });
    request
}

/// The first field an error names.
pub fn field(error: &Error) -> &str {
    error
        .fields()
        .first()
        .map_or("", |(field, _)| field.as_str())
}

pub fn status(slug: &str, status: ImageStatus) -> SetImageStatusRequest {
    SetImageStatusRequest {
        slug: slug.to_owned(),
        status: status.into(),
        ..SetImageStatusRequest::default()
    }
}
