//! `CreateImage`: parse, check against registry and SKUs, write once.
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::text::is_deceptive;
use gpuaas_common::{Error, audit, readiness};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::{CreateImageRequest, Image};
use gpuaas_proto::gpuaas::internal::scheduler::v1::GetSkuRequest;
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_client::PlacementServiceClient;
use tonic::Code;

use super::source::refusal;
use super::{Api, parse_slug, to_proto};
use crate::domain::image::{
    DEFAULT_BOOT_TIMEOUT_SECONDS, DriverStrategy, MAX_BOOT_TIMEOUT_SECONDS, MAX_DISPLAY_NAME,
    MAX_SKUS, Status,
};
use crate::registry::Resolved;
use crate::store::images::{self, NewImage};
use gpuaas_common::value::ImageSlug;

const METHOD: &str = "CreateImage";

impl Api {
    pub(super) async fn create(
        &self,
        caller: &Caller,
        request: &CreateImageRequest,
    ) -> Result<Image, Error> {
        let scope = Scope {
            principal: &caller.principal,
            method: METHOD,
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(request);
        let mut image = self.parse(request)?;

        let mut connection = self.pool.acquire().await?;
        let lookup = idempotency::lookup(&mut connection, scope, &hash).await?;
        let existing = images::get(&mut *connection, image.slug.as_str()).await?;
        drop(connection);
        match (lookup, existing) {
            (Lookup::Replay { .. }, Some(existing)) => return Ok(to_proto(&existing)),
            (Lookup::Fresh, Some(_)) => {
                return self.created_meanwhile(scope, &hash, &image.slug).await;
            }
            (_, None) => {}
        }
        self.check_skus(&image.compatible_skus).await?;
        // nothing is written before: who is told to repeat the call does so with this key
        image.resolved = self.resolve(&image).await?;

        let mut tx = self.pool.begin().await?;
        let Some(row) = images::insert(&mut tx, &image).await? else {
            drop(tx);
            return self.created_meanwhile(scope, &hash, &image.slug).await;
        };
        idempotency::record(&mut tx, scope, &hash, &row.slug).await?;
        let made = to_proto(&row);
        let detail = serde_json::json!({
            "status": row.status().as_str(), "source_uri": row.source_uri, "digest": row.digest_sha256,
        });
        audit::record(
            &mut tx,
            audit::Entry {
                principal: &caller.principal,
                action: "image.create",
                resource: "image",
                resource_id: &row.slug,
                request_id: &caller.request_id,
                detail: audit::with_digests(detail, None, Some(&made)),
            },
        )
        .await?;
        tx.commit().await?;
        tracing::info!(
            image_slug = row.slug,
            status = row.status().as_str(),
            source_uri = row.source_uri,
            "create image"
        );
        Ok(made)
    }

    /// The slug is there and the key was not yet, when this call looked: an image of before, another call, or this very call
    /// sent twice.
    async fn created_meanwhile(
        &self,
        scope: Scope<'_>,
        hash: &[u8],
        slug: &ImageSlug,
    ) -> Result<Image, Error> {
        let mut connection = self.pool.acquire().await?;
        let lookup = idempotency::lookup(&mut connection, scope, hash).await?;
        drop(connection);
        match lookup {
            Lookup::Replay { .. } => Ok(to_proto(&self.image(slug).await?)),
            Lookup::Fresh => Err(exists(slug)),
        }
    }

    /// A disabled image may be a placeholder for an artifact that is published later (E-07).
    async fn resolve(&self, image: &NewImage) -> Result<Option<Resolved>, Error> {
        match self.published(&image.source).await {
            Ok(resolved) => Ok(Some(resolved)),
            Err(why) if why.is_missing() && image.status == Status::Disabled => Ok(None),
            Err(why) => Err(refusal(&image.source, why)),
        }
    }

    fn parse(&self, request: &CreateImageRequest) -> Result<NewImage, Error> {
        let slug = parse_slug("slug", &request.slug)?;
        let display_name = match request.display_name.trim() {
            "" => slug.to_string(),
            name if name.chars().count() > MAX_DISPLAY_NAME || name.contains(is_deceptive) => {
                let rule = format!(
                    "must be at most {MAX_DISPLAY_NAME} characters without control characters"
                );
                return Err(Error::invalid("display_name", rule));
            }
            name => name.to_owned(),
        };
        let driver_strategy =
            DriverStrategy::from_wire(request.driver_strategy()).ok_or_else(|| {
                Error::invalid(
                    "driver_strategy",
                    "must be one of none, cloud_init, preinstalled",
                )
            })?;
        let boot_timeout_seconds = match request.boot_timeout_seconds {
            0 => DEFAULT_BOOT_TIMEOUT_SECONDS,
            seconds if seconds > MAX_BOOT_TIMEOUT_SECONDS => {
                let rule = format!("must be at most {MAX_BOOT_TIMEOUT_SECONDS}");
                return Err(Error::invalid("boot_timeout_seconds", rule));
            }
            seconds => seconds,
        };
        Ok(NewImage {
            slug,
            display_name,
            status: if request.disabled {
                Status::Disabled
            } else {
                Status::Active
            },
            driver_strategy,
            source: self.parse_source(&request.source_uri)?,
            resolved: None,
            compatible_skus: parse_skus(&request.compatible_skus)?,
            boot_timeout_seconds,
            readiness_checks: readiness::parse(&request.readiness_checks)
                .map_err(|wrong| Error::invalid(wrong.field, wrong.rule))?,
        })
    }

    /// G-03: SKUs are data of the scheduler.
    async fn check_skus(&self, skus: &[String]) -> Result<(), Error> {
        let mut client = PlacementServiceClient::new(self.scheduler.clone());
        for code in skus {
            let request = GetSkuRequest { code: code.clone() };
            match client.get_sku(request).await {
                Ok(_) => {}
                Err(status) if status.code() == Code::NotFound => {
                    let message = format!("there is no SKU {code:?}");
                    return Err(Error::new(Code::NotFound, ErrorReason::SkuUnknown, message)
                        .field("compatible_skus", "must be codes of existing SKUs"));
                }
                Err(status) => return Err(status.into()),
            }
        }
        Ok(())
    }
}

fn parse_skus(skus: &[String]) -> Result<Vec<String>, Error> {
    let field = "compatible_skus";
    if skus.is_empty() {
        return Err(Error::required(field));
    }
    let mut unique = skus.to_vec();
    unique.sort();
    unique.dedup();
    if unique.len() != skus.len() {
        return Err(Error::invalid(field, "must not repeat a SKU"));
    }
    if unique.len() > MAX_SKUS || unique.iter().any(String::is_empty) {
        return Err(Error::invalid(
            field,
            format!("must be at most {MAX_SKUS} codes of SKUs"),
        ));
    }
    Ok(unique)
}

fn exists(slug: &ImageSlug) -> Error {
    let message = format!(
        "an image {slug:?} exists already; it was not changed",
        slug = slug.as_str()
    );
    Error::new(Code::AlreadyExists, ErrorReason::AlreadyExists, message)
        .field("slug", "must be new")
}
