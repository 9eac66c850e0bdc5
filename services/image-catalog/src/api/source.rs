//! Asks the registry for an image and says to the administrator what is wrong with it.
use std::sync::Arc;

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;

use super::Api;
use crate::domain::source::Source;
use crate::registry::{RegistryError, Resolved, Unverified};

const FIELD: &str = "source_uri";

impl Api {
    /// A source from a registry that is allowed: the catalog calls no other host, whatever is asked of it.
    pub(super) fn parse_source(&self, uri: &str) -> Result<Source, Error> {
        if uri.is_empty() {
            return Err(Error::required(FIELD));
        }
        let source =
            Source::parse(uri).map_err(|error| Error::invalid(FIELD, error.to_string()))?;
        if !self
            .allowed_registries
            .iter()
            .any(|allowed| allowed == source.registry())
        {
            let rule = match self.allowed_registries.as_slice() {
                [] => "no registry is allowed; set image_catalog.allowed_registries".to_owned(),
                allowed => format!("the registry must be one of {}", allowed.join(", ")),
            };
            return Err(Error::invalid(FIELD, rule));
        }
        Ok(source)
    }

    /// What is published there, checked byte by byte if so configured (E-28).
    pub(super) async fn published(&self, source: &Source) -> Result<Resolved, Unverified> {
        let resolved = self.registry.resolve(source).await?;
        if self.verify_on_create {
            self.verifications.verify(&self.registry, &resolved).await?;
        }
        Ok(resolved)
    }
}

/// What an administrator is told.
pub(super) fn refusal(source: &Source, unverified: Unverified) -> Error {
    match unverified {
        Unverified::Failed(error) => registry_error(source, error),
        Unverified::Reading => Error::new(
            Code::Unavailable,
            ErrorReason::ImageBeingVerified,
            format!(
                "the content published at {source} is being read and checked; repeat the request with the same idempotency key"
            ),
        ),
        Unverified::TooMany => Error::new(
            Code::Unavailable,
            ErrorReason::Overloaded,
            "too many images are being verified; try again",
        ),
    }
}

fn registry_error(source: &Source, error: Arc<RegistryError>) -> Error {
    match &*error {
        RegistryError::Missing => Error::invalid(
            FIELD,
            format!("nothing is published at {source}; push the image first"),
        ),
        RegistryError::NotAnImage(cause) => Error::invalid(FIELD, cause.to_string()),
        RegistryError::Corrupt { .. } | RegistryError::Size { .. } => Error::new(
            Code::FailedPrecondition,
            ErrorReason::ImageDigestMismatch,
            format!("the content published at {source} is damaged; push the image again"),
        )
        .field(
            FIELD,
            "must name an artifact whose content matches its digest",
        )
        .source(error),
        RegistryError::Refused(_) => Error::new(
            Code::FailedPrecondition,
            ErrorReason::FieldInvalid,
            format!("the registry {} refuses access", source.registry()),
        )
        .field(FIELD, "must be readable by the image catalog")
        .source(error),
        RegistryError::Unavailable(_) => {
            Error::unavailable(&format!("the registry {}", source.registry()), error)
                .field(FIELD, "must be reachable")
        }
        RegistryError::Protocol(_) | RegistryError::Settings(_) | RegistryError::File(_) => {
            Error::internal(error)
        }
    }
}
