//! A launch request: parsed in a fixed order, hashed, then checked against the SKU and the image.
//!
//! Parsing and checking are separate on purpose: a replay of an idempotency key needs only the parsed request, and
//! must be answered although the SKU or image has changed since (P4).

use gpuaas_common::time::from_proto_time;
use gpuaas_common::user_data::{self, UserData};
use gpuaas_common::value::{DnsLabel, ImageSlug, ParseError};
use gpuaas_placement::decision::GpuCount;
use gpuaas_proto::gpuaas::allocation::v1::{CreateAllocationRequest, Wait};
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::{Image, ImageStatus};
use gpuaas_proto::gpuaas::scheduler::v1::{PlacementConstraints, Sku};
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::FieldError;
use super::fields::{self, Labels};
use super::ssh_keys::SshKeys;

/// Marks in the hash of a request, which no label can be.
const LABELS: &str = "\0labels";
const PLACEMENT: &str = "\0placement";
/// The field of the time of release.
pub const RELEASE_TIME: &str = "auto_release_time";

/// A create request whose every field is legal by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateRequest {
    /// Name of the allocation.
    pub name: DnsLabel,
    pub region: DnsLabel,
    pub sku: DnsLabel,
    pub gpu_count: GpuCount,
    pub image: ImageSlug,
    /// Keys of the guest user.
    pub ssh_keys: SshKeys,
    pub labels: Labels,
    /// The shape, when one of its two fields requests it.
    pub shape: Option<RequestedShape>,
    /// Placement constraints; the ledger checks the ids in them.
    pub placement: Option<PlacementConstraints>,
    /// Until when it may be queued; the ledger's clock judges it.
    pub wait_until: Option<prost_types::Timestamp>,
    /// A release by the project is refused.
    pub termination_protection: bool,
    /// When the platform releases it.
    pub auto_release: Option<Timestamp>,
    /// For the VM's cloud-init.
    pub user_data: Option<UserData>,
}

/// A shape with the field it came by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedShape {
    pub shape: CapacityShape,
    /// `capacity_shape` or `scheduler_type`.
    pub field: &'static str,
}

/// A rule that a legal request breaks against the catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Refusal {
    pub reason: ErrorReason,
    pub field: &'static str,
    pub rule: String,
}

impl CreateRequest {
    /// Parses in the order name, region, SKU, GPU count, image, keys, labels, shape, wait, release time, user data; the first broken
    /// rule counts.
    ///
    /// # Errors
    /// The field and its rule.
    pub fn parse(request: &CreateAllocationRequest) -> Result<Self, FieldError> {
        let name = fields::parse("name", &request.name)?;
        let region = fields::parse("region_code", &request.region_code)?;
        let sku = fields::parse("sku", &request.sku)?;
        let gpu_count =
            GpuCount::new(request.gpu_count).ok_or_else(|| FieldError::required("gpu_count"))?;
        let image = fields::parse("image", &request.image)?;
        let ssh_keys = SshKeys::parse(&request.ssh_public_keys, &request.ssh_key_names)?;
        let labels = Labels::parse(&request.labels)?;
        let shape = parse_shape(request.capacity_shape, &request.scheduler_type)?;
        let wait_until = wait_until(request.wait.as_ref())?;
        let auto_release = auto_release(request)?;
        let user_data = UserData::optional(&request.user_data).map_err(|error: ParseError| {
            FieldError::invalid(user_data::FIELD, format!("must be {}", error.rule))
        })?;
        Ok(Self {
            user_data,
            termination_protection: request.termination_protection,
            auto_release,
            name,
            region,
            sku,
            gpu_count,
            image,
            ssh_keys,
            labels,
            shape,
            // empty constraints are none, so that they make no other request of the same key
            placement: request
                .placement
                .clone()
                .filter(|placement| *placement != PlacementConstraints::default()),
            wait_until,
        })
    }

    /// SHA-256 over everything in the request, with every part prefixed by its length: what one key must
    /// always come with.
    #[must_use]
    pub fn hash(&self, project_id: &str) -> [u8; 32] {
        self.digest(project_id, true)
    }

    /// The hash that the release before made, for keys from before the update. Labels had no mark of their own there, so that one
    /// could look like another part.
    #[must_use]
    pub fn former_hash(&self, project_id: &str) -> [u8; 32] {
        self.digest(project_id, false)
    }

    fn digest(&self, project_id: &str, marked: bool) -> [u8; 32] {
        let mut hasher = Sha256::new();
        let mut part = |text: &str| {
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(text.as_bytes());
        };
        part(project_id);
        part(self.name.as_str());
        part(self.region.as_str());
        part(self.sku.as_str());
        part(&self.gpu_count.to_string());
        part(self.image.as_str());
        part(&self.ssh_keys.lines().len().to_string());
        self.ssh_keys.lines().iter().for_each(|line| part(line));
        part(
            self.shape
                .map_or("", |requested| requested.shape.as_str_name()),
        );
        let labels = self.labels.as_map();
        // marked only where there are some, so that other requests keep their hashes
        if marked && !labels.is_empty() {
            part(LABELS);
            part(&labels.len().to_string());
        }
        for (key, value) in labels {
            part(key);
            part(value);
        }
        if let Some(placement) = &self.placement {
            if marked {
                part(PLACEMENT);
            }
            part(&placement.affinity);
            part(&placement.anti_affinity.len().to_string());
            placement.anti_affinity.iter().for_each(|id| part(id));
            part(&placement.anti_affinity_label);
            // hashed only when it is set, so that earlier requests keep their hashes
            if placement.require_prewarmed {
                part("require_prewarmed");
            }
            if !placement.affinity_label.is_empty() {
                part("affinity_label");
                part(&placement.affinity_label);
            }
        }
        if !self.ssh_keys.names().is_empty() {
            part("ssh_key_names");
            self.ssh_keys.names().iter().for_each(|name| part(name));
        }
        if let Some(until) = &self.wait_until {
            part("wait");
            part(&format!("{}.{}", until.seconds, until.nanos));
        }
        if self.termination_protection {
            part("termination_protection");
        }
        if let Some(time) = self.auto_release {
            part(RELEASE_TIME);
            part(&time.as_nanosecond().to_string());
        }
        if let Some(data) = &self.user_data {
            part(user_data::FIELD);
            part(data.as_str());
        }
        hasher.finalize().into()
    }

    /// Holds the request against its SKU and returns the shape it gets. Which GPU counts it is offered in is the ledger's to
    /// check.
    ///
    /// # Errors
    /// The SKU has another shape than requested, or no cloud-init for the user data.
    pub fn check_sku(&self, sku: &Sku) -> Result<CapacityShape, Refusal> {
        let offered = sku.capacity_shape();
        match self.shape {
            Some(requested) if requested.shape != offered => Err(Refusal {
                reason: ErrorReason::FieldInvalid,
                field: requested.field,
                rule: format!(
                    "must be {}, the shape of SKU {}",
                    shape_name(offered),
                    sku.code
                ),
            }),
            _ if self.user_data.is_some() && offered == CapacityShape::Baremetal => Err(Refusal {
                reason: ErrorReason::FieldInvalid,
                field: user_data::FIELD,
                rule: "must be left out: bare metal takes none".to_owned(),
            }),
            _ => Ok(offered),
        }
    }

    /// Holds the request against its image.
    ///
    /// # Errors
    /// The image is disabled, or the SKU cannot run it.
    pub fn check_image(&self, image: &Image) -> Result<(), Refusal> {
        check_image_of(self.sku.as_str(), image)
    }
}

/// Holds an image against the SKU of whoever boots it.
///
/// # Errors
/// The image is disabled, or the SKU cannot run it.
pub fn check_image_of(sku: &str, image: &Image) -> Result<(), Refusal> {
    if image.status() != ImageStatus::Active {
        return Err(Refusal {
            reason: ErrorReason::ImageNotActive,
            field: "image",
            rule: format!("must be an active image; {} is not", image.slug),
        });
    }
    if !image.compatible_skus.iter().any(|one| one == sku) {
        return Err(Refusal {
            reason: ErrorReason::ImageNotCompatible,
            field: "image",
            rule: format!(
                "must be an image that SKU {sku} can run; {} is not",
                image.slug
            ),
        });
    }
    Ok(())
}

/// Until when a request may be queued; none: it is not queued.
pub fn wait_until(wait: Option<&Wait>) -> Result<Option<prost_types::Timestamp>, FieldError> {
    let Some(wait) = wait else { return Ok(None) };
    match wait.deadline {
        Some(deadline) => Ok(Some(deadline)),
        None => Err(FieldError::required("wait.deadline")),
    }
}

/// The time of release that a launch asks for; the clock judges it later.
fn auto_release(request: &CreateAllocationRequest) -> Result<Option<Timestamp>, FieldError> {
    let Some(time) = &request.auto_release_time else {
        return Ok(None);
    };
    if request.termination_protection {
        let rule = "cannot be set together with termination_protection";
        return Err(FieldError::invalid(RELEASE_TIME, rule));
    }
    let time = from_proto_time(time);
    time.map(Some)
        .ok_or_else(|| FieldError::invalid(RELEASE_TIME, "must be a time"))
}

/// `scheduler_type` is the older name of the shape (B-13).
fn parse_shape(
    capacity_shape: i32,
    scheduler_type: &str,
) -> Result<Option<RequestedShape>, FieldError> {
    let by_shape = match CapacityShape::try_from(capacity_shape) {
        Ok(CapacityShape::Unspecified) => None,
        Ok(shape) => Some(shape),
        Err(_) => {
            return Err(FieldError::invalid(
                "capacity_shape",
                "must be baremetal or gpu_slice",
            ));
        }
    };
    let by_type = match scheduler_type {
        "" => None,
        "slice" => Some(CapacityShape::GpuSlice),
        "baremetal" => Some(CapacityShape::Baremetal),
        _ => {
            return Err(FieldError::invalid(
                "scheduler_type",
                "must be slice or baremetal",
            ));
        }
    };
    match (by_shape, by_type) {
        (Some(shape), Some(other)) if shape != other => Err(FieldError::invalid(
            "scheduler_type",
            "must agree with capacity_shape",
        )),
        (Some(shape), _) => Ok(Some(RequestedShape {
            shape,
            field: "capacity_shape",
        })),
        (None, Some(shape)) => Ok(Some(RequestedShape {
            shape,
            field: "scheduler_type",
        })),
        (None, None) => Ok(None),
    }
}

fn shape_name(shape: CapacityShape) -> &'static str {
    match shape {
        CapacityShape::GpuSlice => "gpu_slice",
        CapacityShape::Baremetal => "baremetal",
        CapacityShape::Unspecified => "unspecified",
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
