//! Regions, SKUs, prices, images.
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use super::{Session, done};
use crate::api::parse;
use crate::commands::select::Selected;
use crate::commands::{catalog as listed, catalog::print_images, given};
use crate::failure::Failure;
use crate::output::{Money, aligned, parse_money, print_json, print_table, time};

#[derive(Debug, clap::Subcommand)]
pub enum Region {
    /// List the regions.
    List,
    /// Create a region, or change what is given of it.
    Put {
        /// A DNS label.
        code: String,
        /// Display name [default: the present one; for a new region its code].
        #[arg(long)]
        name: Option<String>,
        /// Show the region, but accept no allocations.
        #[arg(long, conflicts_with = "enabled")]
        disabled: bool,
        /// Accept allocations [default: as at present; a new region does].
        #[arg(long)]
        enabled: bool,
        /// Why it is disabled, shown to users [default: the present reason].
        #[arg(long, requires = "disabled")]
        reason: Option<String>,
    },
}

pub async fn region(session: &Session, command: Region) -> Result<(), Failure> {
    let Region::Put {
        code,
        name,
        disabled,
        enabled,
        reason,
    } = command
    else {
        return listed::regions(session).await;
    };
    let present = present(session, "regions", &code).await?;
    let text = |field: &str| present[field].as_str().unwrap_or_default().to_owned();
    let name = name.unwrap_or_else(|| match text("display_name") {
        none if none.is_empty() => code.clone(),
        name => name,
    });
    let is_open = enabled || (!disabled && present["enabled"].as_bool().unwrap_or(true));
    let reason = match is_open {
        true => String::new(),
        false => reason.unwrap_or_else(|| text("unavailable_reason")),
    };
    let body = json!({ "display_name": name, "enabled": is_open, "unavailable_reason": reason });
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
            if is_open { "enabled" } else { "disabled" }
        ),
    );
    Ok(())
}

/// A region or SKU as it is, so that a change in a hurry neither needs nor loses the rest of it; null for a new one.
async fn present(session: &Session, of: &str, code: &str) -> Result<Value, Failure> {
    let all = session.api.list(&[of], &[], of).await?;
    let found = all.into_iter().find(|one| one["code"] == code);
    Ok(found.unwrap_or_default())
}

#[derive(Debug, clap::Subcommand)]
pub enum Sku {
    /// List the SKUs, with those that have no price yet.
    List(Selected),
    /// Create or replace a SKU.
    Put(SkuFlags),
}

#[derive(Debug, clap::Args)]
pub struct SkuFlags {
    /// Slug, for example h200-sxm-slice.
    code: String,
    /// Display name [default: the present one; for a new SKU its code].
    #[arg(long)]
    name: Option<String>,
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
    /// Stop offering it: allocations keep what they have, queued launches of it end, and nobody launches more of it, except a
    /// project on the GPUs of its capacity reservations.
    #[arg(long)]
    disabled: bool,
    /// Offer it again [default: as it is; a new SKU is offered].
    #[arg(long, conflicts_with = "disabled")]
    enabled: bool,
}

pub async fn sku(session: &Session, command: Sku) -> Result<(), Failure> {
    let flags = match command {
        Sku::Put(flags) => flags,
        Sku::List(selected) => return listed::skus(session, &selected).await,
    };
    let present = present(session, "skus", &flags.code).await?;
    let name = match (flags.name, present["display_name"].as_str()) {
        (Some(name), _) => name,
        (None, Some(name)) if !name.is_empty() => name.to_owned(),
        _ => flags.code.clone(),
    };
    let was_disabled = present["disabled"] == true;
    let disabled = flags.disabled || (was_disabled && !flags.enabled);
    let body = json!({
        "display_name": name,
        "capacity_shape": flags.shape,
        "slot_class": flags.slot_class,
        "allowed_gpu_counts": flags.gpu_counts,
        "profile": {
            "name": flags.profile,
            "vcpus_per_gpu": flags.vcpus,
            "memory_mib_per_gpu": flags.memory,
            "hugepages": flags.hugepages,
        },
        "disabled": disabled,
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
    let code = &flags.code;
    done(
        session,
        &answer,
        &match disabled {
            true => format!(
                "SKU {code} is saved, and not offered any more.{}",
                still_reserved(&answer)
            ),
            false => format!(
                "SKU {code} is saved. It is offered once it has a price: gpuaas admin price create --sku {code}"
            ),
        },
    );
    Ok(())
}

/// What goes on holding GPUs of a SKU that is not offered any more.
fn still_reserved(sku: &Value) -> String {
    match sku["reserved_gpus"].as_u64().unwrap_or(0) {
        0 => String::new(),
        1 => {
            " Capacity reservations hold 1 GPU of it until they end: gpuaas admin reservations list"
                .to_owned()
        }
        gpus => format!(
            " Capacity reservations hold {gpus} GPUs of it until they end: gpuaas admin reservations list"
        ),
    }
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
    let of = |price: &Value| parse::<Option<Money>>(&price["price_per_gpu_hour"]);
    let prices: Vec<Option<Money>> = found.iter().map(of).collect::<Result<_, _>>()?;
    let cells = aligned(prices.iter().map(Option::as_ref));
    for (price, amount) in found.iter().zip(cells) {
        rows.push([
            text(price, "sku"),
            amount,
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
    /// JSON file with the readiness checks: a list of objects with name, command and, as needed, expected_text, min_lines,
    /// line_per_gpu, timeout_seconds.
    #[arg(long, value_name = "FILE")]
    readiness_checks: Option<PathBuf>,
    /// Create it disabled.
    #[arg(long)]
    disabled: bool,
}

/// Says so when an image for slices with GPUs names no readiness checks. It is there already: a catalog that does not answer
/// is no failure of the command.
async fn warn_unchecked(session: &Session, flags: &ImageFlags) {
    let Ok(skus) = session.api.list(&["skus"], &[], "skus").await else {
        return;
    };
    let has_gpus = |sku: &&Value| sku["lab"] != true && sku["capacity_shape"] == "gpu_slice";
    let code = |sku: &Value| sku["code"].as_str().map(str::to_owned);
    let skus: Vec<String> = skus.iter().filter(has_gpus).filter_map(code).collect();
    let of_image: Vec<&str> = flags
        .skus
        .iter()
        .filter(|sku| skus.contains(sku))
        .map(String::as_str)
        .collect();
    if !of_image.is_empty() {
        note!(
            "warning: {} names no readiness checks, and {} has GPUs: a VM counts as active although nothing has tried them. \
             Checks cannot be added later; register the image anew with --readiness-checks FILE.",
            flags.slug,
            of_image.join(", ")
        );
    }
}

/// The list in a file. What is in it is the API's to judge.
fn checks_of(file: &Path) -> Result<Value, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::Usage(format!(
            "cannot read the readiness checks in {}: {error}",
            file.display()
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let list: Vec<Value> = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    Ok(Value::Array(list))
}

pub async fn image(session: &Session, command: Image) -> Result<(), Failure> {
    match command {
        Image::Create(flags) => {
            let mut body = json!({
                "slug": flags.slug,
                "display_name": flags.name,
                "driver_strategy": flags.drivers,
                "source_uri": flags.source,
                "compatible_skus": flags.skus,
                "boot_timeout_seconds": flags.boot_timeout,
                "disabled": flags.disabled,
            });
            if let Some(file) = &flags.readiness_checks {
                body["readiness_checks"] = checks_of(file)?;
            }
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
            if flags.readiness_checks.is_none() {
                warn_unchecked(session, &flags).await;
            }
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
