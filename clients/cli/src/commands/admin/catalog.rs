//! Regions, SKUs, prices, images.
use reqwest::Method;
use serde_json::{Value, json};

use super::{Session, done};
use crate::api::parse;
use crate::commands::{catalog as listed, catalog::print_images, given};
use crate::failure::Failure;
use crate::output::{Money, money, parse_money, print_json, print_table, time};

#[derive(Debug, clap::Subcommand)]
pub enum Region {
    /// List the regions.
    List,
    /// Create or replace a region.
    Put {
        /// A DNS label.
        code: String,
        /// Display name [default: the present one; for a new region its code].
        #[arg(long)]
        name: Option<String>,
        /// Show the region, but accept no allocations.
        #[arg(long)]
        disabled: bool,
        /// Why it is disabled, shown to users.
        #[arg(long, default_value = "", requires = "disabled")]
        reason: String,
    },
}

pub async fn region(session: &Session, command: Region) -> Result<(), Failure> {
    let Region::Put {
        code,
        name,
        disabled,
        reason,
    } = command
    else {
        return listed::regions(session).await;
    };
    let name = match name {
        Some(name) => name,
        None => present_name(session, &code)
            .await?
            .unwrap_or_else(|| code.clone()),
    };
    let body = json!({ "display_name": name, "enabled": !disabled, "unavailable_reason": reason });
    let answer = session
        .api
        .change(
            Method::PUT,
            &["admin", "regions", &code],
            &body,
            &session.key,
        )
        .await?;
    done(
        session,
        &answer,
        &format!(
            "Region {code} is {}.",
            if disabled { "disabled" } else { "enabled" }
        ),
    );
    Ok(())
}

/// The display name that a region has, so that closing it in a hurry neither needs nor loses it.
async fn present_name(session: &Session, code: &str) -> Result<Option<String>, Failure> {
    let all = session.api.list(&["regions"], &[], "regions").await?;
    let region = all.iter().find(|region| region["code"] == code);
    let name = region.and_then(|region| region["display_name"].as_str());
    Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
}

#[derive(Debug, clap::Subcommand)]
pub enum Sku {
    /// List the SKUs, with those that have no price yet.
    List,
    /// Create or replace a SKU.
    Put(SkuFlags),
}

#[derive(Debug, clap::Args)]
pub struct SkuFlags {
    /// Slug, for example h200-sxm-slice.
    code: String,
    /// Display name.
    #[arg(long, default_value = "")]
    name: String,
    /// gpu_slice or baremetal.
    #[arg(long, default_value = "gpu_slice")]
    shape: String,
    /// Slot class of the SKU, for example h200_sxm or lab.
    #[arg(long, value_name = "CLASS")]
    slot_class: String,
    /// Allowed GPU counts of an allocation, for example 1,2,4.
    #[arg(long, value_delimiter = ',', required = true, value_name = "COUNTS")]
    gpu_counts: Vec<u32>,
    /// Name of the VM profile, for example h200_1g_24c_64g.
    #[arg(long, value_name = "NAME")]
    profile: String,
    /// Virtual CPUs per GPU.
    #[arg(long, value_name = "COUNT")]
    vcpus: u32,
    /// Memory per GPU in MiB.
    #[arg(long, value_name = "MIB")]
    memory: u32,
    /// Back the memory with hugepages.
    #[arg(long)]
    hugepages: bool,
}

pub async fn sku(session: &Session, command: Sku) -> Result<(), Failure> {
    let Sku::Put(flags) = command else {
        return listed::skus(session).await;
    };
    let body = json!({
        "display_name": flags.name,
        "capacity_shape": flags.shape,
        "slot_class": flags.slot_class,
        "allowed_gpu_counts": flags.gpu_counts,
        "profile": {
            "name": flags.profile,
            "vcpus_per_gpu": flags.vcpus,
            "memory_mib_per_gpu": flags.memory,
            "hugepages": flags.hugepages,
        },
    });
    let answer = session
        .api
        .change(
            Method::PUT,
            &["admin", "skus", &flags.code],
            &body,
            &session.key,
        )
        .await?;
    done(
        session,
        &answer,
        &format!(
            "SKU {} is saved. It is offered once it has a price: gpuaas admin price create --sku {}",
            flags.code, flags.code
        ),
    );
    Ok(())
}

#[derive(Debug, clap::Subcommand)]
pub enum Price {
    /// Publish a price for new allocations.
    Create {
        /// The SKU.
        #[arg(long)]
        sku: String,
        /// Price per GPU-hour, for example "2.50 EUR".
        #[arg(long, value_name = "AMOUNT")]
        amount: String,
    },
    /// List all price versions, newest first.
    List {
        /// Only this SKU.
        #[arg(long)]
        sku: Option<String>,
    },
}

pub async fn price(session: &Session, command: Price) -> Result<(), Failure> {
    match command {
        Price::Create { sku, amount } => {
            let parsed = parse_money(&amount).ok_or_else(|| {
                Failure::Usage(format!(
                    "--amount {amount:?} must be a number and a currency, for example \"2.50 EUR\""
                ))
            })?;
            let body = json!({ "sku": sku, "price_per_gpu_hour": parsed });
            let answer = session
                .api
                .change(Method::POST, &["admin", "prices"], &body, &session.key)
                .await?;
            done(
                session,
                &answer,
                &format!("{sku} now costs {amount} per GPU-hour."),
            );
        }
        Price::List { sku } => {
            let found = session
                .api
                .list(
                    &["admin", "prices"],
                    &given([("sku", sku)]),
                    "price_versions",
                )
                .await?;
            print_prices(session, &found)?;
        }
    }
    Ok(())
}

fn print_prices(session: &Session, found: &[Value]) -> Result<(), Failure> {
    if session.json() {
        print_json(&json!({ "price_versions": found }));
        return Ok(());
    }
    if found.is_empty() {
        say!(
            "No prices yet. Publish one: gpuaas admin price create --sku SKU --amount \"2.50 EUR\""
        );
        return Ok(());
    }
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for price in found {
        let amount: Option<Money> = parse(&price["price_per_gpu_hour"])?;
        rows.push([
            text(price, "sku"),
            money(amount.as_ref()),
            time(text(price, "effective_time").parse().ok()),
            text(price, "id"),
        ]);
    }
    print_table(["SKU", "PER GPU-HOUR", "FROM", "ID"], rows);
    Ok(())
}

#[derive(Debug, clap::Subcommand)]
pub enum Image {
    /// Add an image. It becomes active once it is in the registry.
    Create(ImageFlags),
    /// List images of every status.
    List,
    /// Activate or disable an image.
    SetStatus {
        /// The image.
        slug: String,
        /// active or disabled.
        #[arg(value_parser = ["active", "disabled"])]
        status: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct ImageFlags {
    /// Lowercase letters, digits, '.' and '-'.
    slug: String,
    /// oci://host/namespace/name:tag or …@sha256:….
    #[arg(long, value_name = "URI")]
    source: String,
    /// Compatible SKU; repeatable.
    #[arg(long = "sku", required = true, value_name = "SKU")]
    skus: Vec<String>,
    /// Display name.
    #[arg(long, default_value = "")]
    name: String,
    /// How the guest gets its GPU drivers.
    #[arg(long, default_value = "none", value_parser = ["none", "cloud_init", "preinstalled"])]
    drivers: String,
    /// Maximum seconds from start to a working login.
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    boot_timeout: u32,
    /// Create it disabled.
    #[arg(long)]
    disabled: bool,
}

pub async fn image(session: &Session, command: Image) -> Result<(), Failure> {
    match command {
        Image::Create(flags) => {
            let body = json!({
                "slug": flags.slug,
                "display_name": flags.name,
                "driver_strategy": flags.drivers,
                "source_uri": flags.source,
                "compatible_skus": flags.skus,
                "boot_timeout_seconds": flags.boot_timeout,
                "disabled": flags.disabled,
            });
            let answer = session
                .api
                .change(Method::POST, &["admin", "images"], &body, &session.key)
                .await?;
            let status = answer["status"].as_str().unwrap_or_default().to_owned();
            done(
                session,
                &answer,
                &format!("Image {} is {status}.", flags.slug),
            );
        }
        Image::List => {
            let found = session
                .api
                .list(&["admin", "images"], &[], "images")
                .await?;
            print_images(
                session,
                &found,
                "No images yet. Add one: gpuaas admin image create",
            )?;
        }
        Image::SetStatus { slug, status } => {
            let verb = format!("{slug}:setStatus");
            let answer = session
                .api
                .change(
                    Method::POST,
                    &["admin", "images", &verb],
                    &json!({ "status": status }),
                    &session.key,
                )
                .await?;
            done(session, &answer, &format!("Image {slug} is {status}."));
        }
    }
    Ok(())
}
