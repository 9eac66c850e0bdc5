//! What a first start puts into the system, through the public API only.
//!
//! Everything is looked up before it is made, so that a second start changes nothing: regions, SKUs, prices, quota,
//! images, the lab node with its approved slots, and one first slice.

mod api;
mod images;
mod names;
mod node;
mod slice;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::process;
use crate::stack::{Progress, Stack};

pub use crate::stack::REGION;

pub use api::{Api, list, string};
pub use images::{add_debian, add_rescue, guest_images};
pub use names::{DEAD_IMAGE, DEBIAN_IMAGE, H200_SKU, IMAGE, LAB_SKU, RESCUE_IMAGE, Tokens};
pub use node::seed_one as lab_host;
pub use slice::{FirstSlice, first_slice};

/// File that tells the command line tool where the API and the tokens are.
pub fn profile_file(root: &Path) -> PathBuf {
    root.join("profile.toml")
}

/// Creates organisation, project and principals and writes their tokens; returns the project's id.
///
/// # Errors
/// The gateway's program refuses.
pub fn principals(stack: &Stack) -> Result<String> {
    let tokens = Tokens::of(&stack.options().root);
    crate::paths::ensure_dir(&stack.options().root.join("tokens"))?;
    let printed = process::output(
        Command::new(stack.program("gpuaas-gateway"))
            .arg("--config")
            .arg(stack.config_file("gateway"))
            .arg("bootstrap")
            .arg("--admin-token-file")
            .arg(&tokens.admin)
            .arg("--user-token-file")
            .arg(&tokens.user),
    )?;
    let profile = format!(
        "api = \"{}\"\ntoken_file = \"tokens/user\"\nadmin_token_file = \"tokens/admin\"\nidentity_file = \"ssh/id_ed25519\"\n",
        stack.api_url()
    );
    crate::paths::write_with_mode(
        &profile_file(&stack.options().root),
        profile.as_bytes(),
        0o644,
    )?;
    let line = printed.lines().last().unwrap_or_default();
    let summary: Value =
        serde_json::from_str(line).map_err(|error| Error::other(error.to_string()))?;
    Ok(string(&summary["project_id"]).to_owned())
}

/// A SKU of the first catalogue.
#[derive(Debug, Clone)]
pub struct SeedSku {
    /// Its code.
    pub code: &'static str,
    /// What is put under that code, as the HTTP API takes it.
    pub body: Value,
    /// Price per GPU and hour, in billionths of a US dollar.
    pub nanos_per_gpu_hour: u64,
    /// GPUs of it that the first project may hold.
    pub quota_gpus: u32,
}

/// What a first start offers: the lab's slice, and the H200 slice with its tuned profile (B-05, B-08, B-09).
#[must_use]
pub fn skus() -> [SeedSku; 2] {
    [
        SeedSku {
            code: LAB_SKU,
            body: json!({"display_name": "Lab slice (emulated, no GPU)", "capacity_shape": "gpu_slice",
                   "slot_class": "lab", "allowed_gpu_counts": [1, 2],
                   "profile": {"name": "lab_1c_256m", "vcpus_per_gpu": 1, "memory_mib_per_gpu": 256}}),
            nanos_per_gpu_hour: 120_000_000,
            quota_gpus: 8,
        },
        SeedSku {
            code: H200_SKU,
            body: json!({"display_name": "H200 SXM slice", "capacity_shape": "gpu_slice",
                   "slot_class": "h200_sxm", "allowed_gpu_counts": [1, 2, 4, 8],
                   "profile": {"name": "h200_1g_24c_64g", "vcpus_per_gpu": 24, "memory_mib_per_gpu": 65536,
                               "hugepages": true}}),
            nanos_per_gpu_hour: 2_490_000_000,
            quota_gpus: 8,
        },
    ]
}

/// Puts regions, SKUs, prices and quota in place.
///
/// # Errors
/// What the API answered.
pub async fn catalogue(admin: &Api, project: &str, progress: Progress<'_>) -> Result<()> {
    let regions = admin.get("/api/v1/regions?page_size=500").await?;
    for (code, desired) in [
        (REGION, json!({"display_name": "Lab", "enabled": true})),
        (
            "lab-2",
            json!({"display_name": "Lab, second site", "enabled": false,
                   "unavailable_reason": "This site is being built."}),
        ),
    ] {
        if !list(&regions["regions"])
            .iter()
            .any(|region| region["code"] == code)
        {
            admin
                .put(
                    &format!("/api/v1/admin/regions/{code}"),
                    &format!("seed-region-{code}"),
                    &desired,
                )
                .await?;
            progress(&format!("region {code} added"));
        }
    }
    let existing_skus = admin.get("/api/v1/skus?page_size=500").await?;
    for seeded in skus() {
        let SeedSku {
            code,
            body,
            nanos_per_gpu_hour: nanos,
            quota_gpus,
        } = seeded;
        let existing = list(&existing_skus["skus"])
            .iter()
            .find(|sku| sku["code"] == code);
        if existing.is_none() {
            admin
                .put(
                    &format!("/api/v1/admin/skus/{code}"),
                    &format!("seed-sku-{code}"),
                    &body,
                )
                .await?;
            let quota = json!({ "max_gpus": quota_gpus });
            let path = format!("/api/v1/admin/projects/{project}/quotas/{code}");
            admin
                .put(&path, &format!("seed-quota-{code}"), &quota)
                .await?;
            progress(&format!("SKU {code} added"));
        }
        let prices = admin
            .get(&format!("/api/v1/admin/prices?sku={code}"))
            .await?;
        if list(&prices["price_versions"]).is_empty() {
            let (units, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
            let price = json!({"sku": code, "price_per_gpu_hour":
                {"currency_code": "USD", "units": units.to_string(), "nanos": nanos}});
            admin
                .post(
                    "/api/v1/admin/prices",
                    &format!("seed-price-{code}"),
                    &price,
                )
                .await?;
            progress(&format!("price of {code} published"));
        }
    }
    Ok(())
}

/// Everything up to a host that offers: principals, catalogue, images, the enrolled node and its approved slots.
/// Starts the lab host on the way, since its agent needs a token to enrol with.
///
/// # Errors
/// What a part or the API answered.
pub async fn all(stack: &Stack, progress: Progress<'_>) -> Result<()> {
    let project = principals(stack)?;
    let admin = Api::new(&stack.api_url(), &Tokens::of(&stack.options().root).admin)?;
    catalogue(&admin, &project, progress).await?;
    images::seed(stack, &admin, progress).await?;
    if stack.options().lab {
        node::seed(stack, &admin, progress).await?;
    }
    Ok(())
}
