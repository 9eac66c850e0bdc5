//! Regions, SKUs, prices, images.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_proto::call::ImageAdminListAllImages;
use gpuaas_proto::gpuaas::billing::v1::{
    CreatePriceVersionRequest, ListPriceVersionsRequest, ListPriceVersionsResponse,
};
use gpuaas_proto::gpuaas::common::v1::{CapacityShape, DriverStrategy};
use gpuaas_proto::gpuaas::images::v1::{
    CreateImageRequest, ImageStatus, ListImagesRequest, SetImageStatusRequest,
};
use gpuaas_proto::gpuaas::inventory::v1::{
    self as inventory, DeleteRegionRequest, ListRegionsRequest, PutRegionRequest,
};
use gpuaas_proto::gpuaas::scheduler::v1::{
    self as scheduler, ListSkusRequest, PutSkuRequest, RuntimeProfile,
};
use gpuaas_proto::json::{Enumeration as _, to_json};
use serde_json::Value;

use crate::api::Answer;
use crate::commands::select::{Read, Selected, SelectedOf};
use crate::commands::{catalog as listed, catalog::print_images};
use crate::failure::Failure;
use crate::output::{aligned, parse_money, print_json, print_table, time, word};
use crate::session::{Session, done};

#[derive(Debug, clap::Subcommand)]
pub enum Region {
    /// List the regions.
    List(SelectedOf<ListRegionsRequest>),
    /// Create a region, or change the given attributes.
    Set {
        /// A DNS label.
        code: String,
        /// Display name [default: unchanged; for a new region its code].
        #[arg(long)]
        name: Option<String>,
        /// Show the region, but accept no allocations.
        #[arg(long, conflicts_with = "enabled")]
        disabled: bool,
        /// Accept allocations [default: unchanged; a new region accepts them].
        #[arg(long)]
        enabled: bool,
        /// Reason why the region is disabled, shown to users [default: unchanged].
        #[arg(long, requires = "disabled")]
        reason: Option<String>,
        #[command(flatten)]
        read: Read,
    },
    /// Delete a region that was created by mistake. A region that ever had a node in service, an allocation or a capacity
    /// reservation cannot be deleted: disable it with set --disabled.
    Delete {
        /// Its code.
        code: String,
        /// Reason.
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        read: Read,
    },
}

pub async fn region(session: &Session, command: Region) -> Result<(), Failure> {
    let (code, name, disabled, enabled, reason, read) = match command {
        Region::List(selected) => return listed::regions(session, &selected).await,
        Region::Delete { code, reason, read } => {
            let request = DeleteRegionRequest {
                region_code: code.clone(),
                etag: read.etag,
                reason,
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(session, &answer.json, &format!("Region {code} is deleted."));
            return Ok(());
        }
        Region::Set {
            code,
            name,
            disabled,
            enabled,
            reason,
            read,
        } => (code, name, disabled, enabled, reason, read),
    };
    // as it is, so that a change in a hurry neither needs nor loses the rest of it
    let mut all = listed::all_regions(&session.api).await?.into_iter();
    let present = all.find(|one| one.code == code);
    let was_open = present.as_ref().is_none_or(|one| one.enabled);
    let present = present.unwrap_or_default();
    let name = name.unwrap_or(match present.display_name {
        none if none.is_empty() => code.clone(),
        name => name,
    });
    let is_open = enabled || (!disabled && was_open);
    let reason = match is_open {
        true => String::new(),
        false => reason.unwrap_or(present.unavailable_reason),
    };
    let region = inventory::Region {
        code: code.clone(),
        display_name: name,
        enabled: is_open,
        unavailable_reason: reason,
        etag: read.etag,
    };
    let request = PutRegionRequest {
        region: Some(region),
    };
    let answer = session.api.apply(&request, &session.key).await?;
    done(
        session,
        &answer.json,
        &format!(
            "Region {code} is {}.",
            if is_open { "enabled" } else { "disabled" }
        ),
    );
    Ok(())
}

#[derive(Debug, clap::Subcommand)]
pub enum Sku {
    /// List the SKUs, with those that have no price yet.
    List(SelectedOf<ListSkusRequest>),
    /// Create or replace a SKU.
    Set(SkuFlags),
}

#[derive(Debug, clap::Args)]
pub struct SkuFlags {
    /// Slug, for example h200-sxm-slice.
    code: String,
    /// Display name [default: unchanged; for a new SKU its code].
    #[arg(long)]
    name: Option<String>,
    /// gpu_slice or baremetal.
    #[arg(long, default_value = "gpu_slice", value_parser = ["gpu_slice", "baremetal"])]
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
    /// Bandwidth of a VM in each direction, in megabits per second, with any number of GPUs; 0: the setting of its host
    /// [default: unchanged].
    #[arg(long, value_name = "MBPS")]
    network_mbps: Option<u32>,
    /// Kilobytes that a VM may send or receive at once before its bandwidth is limited; 0: what the host's switch takes
    /// [default: unchanged].
    #[arg(long, value_name = "KB")]
    network_burst_kb: Option<u32>,
    /// Disable the SKU: existing allocations continue, queued launches end, and only projects with a capacity reservation
    /// can launch, on their reserved GPUs.
    #[arg(long)]
    disabled: bool,
    /// Enable the SKU [default: unchanged; a new SKU is enabled].
    #[arg(long, conflicts_with = "disabled")]
    enabled: bool,
    #[command(flatten)]
    read: Read,
}

pub async fn sku(session: &Session, command: Sku) -> Result<(), Failure> {
    let flags = match command {
        Sku::Set(flags) => flags,
        Sku::List(selected) => return listed::skus(session, &selected).await,
    };
    // as it is, so that a change in a hurry does not lose the rest of it
    let mut all = listed::all_skus(&session.api).await?.into_iter();
    let present = all.find(|one| one.code == flags.code).unwrap_or_default();
    let name = match (flags.name, present.display_name.as_str()) {
        (Some(name), _) => name,
        (None, "") => flags.code.clone(),
        (None, name) => name.to_owned(),
    };
    let disabled = flags.disabled || (present.disabled() && !flags.enabled);
    let shape = CapacityShape::of_word(&flags.shape).unwrap_or_default();
    let was = present.profile.unwrap_or_default();
    // 0 takes a limit away
    let limit = |flag: Option<u32>, was: Option<u32>| flag.or(was).filter(|limit| *limit > 0);
    let network_mbps = limit(flags.network_mbps, was.network_mbps);
    let sku = scheduler::Sku {
        code: flags.code.clone(),
        display_name: name,
        capacity_shape: shape.into(),
        slot_class: flags.slot_class,
        allowed_gpu_counts: flags.gpu_counts,
        profile: Some(RuntimeProfile {
            name: flags.profile,
            vcpus_per_gpu: flags.vcpus,
            memory_mib_per_gpu: flags.memory,
            hugepages: flags.hugepages,
            network_mbps,
            // an old burst goes with its limit
            network_burst_kb: match network_mbps {
                Some(_) => limit(flags.network_burst_kb, was.network_burst_kb),
                None => flags.network_burst_kb.filter(|burst| *burst > 0),
            },
        }),
        disabled: Some(disabled),
        etag: flags.read.etag,
        ..scheduler::Sku::default()
    };
    let request = PutSkuRequest { sku: Some(sku) };
    let answer = session.api.apply(&request, &session.key).await?;
    let code = &flags.code;
    done(
        session,
        &answer.json,
        &match disabled {
            true => format!(
                "SKU {code} is saved, and not offered any more.{}",
                still_reserved(answer.message.reserved_gpus)
            ),
            false => format!(
                "SKU {code} is saved. It is offered once it has a price: gpuaas admin price create --sku {code}"
            ),
        },
    );
    Ok(())
}

/// What goes on holding GPUs of a SKU that is not offered any more.
fn still_reserved(reserved_gpus: u32) -> String {
    match reserved_gpus {
        0 => String::new(),
        1 => {
            " Capacity reservations hold 1 GPU of it until they end: gpuaas admin reservation list"
                .to_owned()
        }
        gpus => format!(
            " Capacity reservations hold {gpus} GPUs of it until they end: gpuaas admin reservation list"
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
        #[command(flatten)]
        selected: SelectedOf<ListPriceVersionsRequest>,
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
            let request = CreatePriceVersionRequest {
                sku: sku.clone(),
                price_per_gpu_hour: Some(parsed),
            };
            let answer = session.api.apply(&request, &session.key).await?;
            done(
                session,
                &answer.json,
                &format!("{sku} now costs {amount} per GPU-hour."),
            );
        }
        Price::List { sku, selected } => {
            let request = ListPriceVersionsRequest {
                sku: sku.unwrap_or_default(),
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListPriceVersionsRequest::default()
            };
            let listed = session.api.call_all_pages(&request, "price_versions");
            print_prices(session, listed.await?, &selected);
        }
    }
    Ok(())
}

fn print_prices(session: &Session, listed: Answer<ListPriceVersionsResponse>, selected: &Selected) {
    if session.json() {
        print_json(&listed.json);
        return;
    }
    let found = listed.message.price_versions;
    if found.is_empty() && selected.narrows() {
        say!("No price matches the filter.");
        return;
    }
    if found.is_empty() {
        say!(
            "No prices yet. Publish one: gpuaas admin price create --sku SKU --amount \"2.50 EUR\""
        );
        return;
    }
    let cells = aligned(found.iter().map(|one| one.price_per_gpu_hour.as_ref()));
    let rows = found
        .into_iter()
        .zip(cells)
        .map(|(one, amount)| [one.sku, amount, time(one.effective_time), one.id]);
    print_table(["SKU", "PER GPU-HOUR", "FROM", "ID"], rows.collect());
}

/// Pause between two calls about an image that is being read, where the API asks for none.
const VERIFICATION_PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Subcommand)]
pub enum Image {
    /// Add an image. It becomes active once it is in the registry; waits until its content is verified.
    Create(ImageFlags),
    /// List images of every status.
    List(SelectedOf<ListImagesRequest>),
    /// Activate or disable an image.
    SetStatus {
        /// The image.
        slug: String,
        /// active or disabled.
        #[arg(value_parser = ["active", "disabled"])]
        status: String,
        #[command(flatten)]
        read: Read,
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
    /// JSON file with the readiness checks: a list of objects with name, command and optionally expected_text, min_lines,
    /// line_per_gpu, timeout_seconds.
    #[arg(long, value_name = "FILE")]
    readiness_checks: Option<PathBuf>,
    /// Create the image disabled.
    #[arg(long)]
    disabled: bool,
}

/// Says so when an image for slices with GPUs names no readiness checks. It is there already: a catalog that does not answer
/// is no failure of the command.
async fn warn_unchecked(session: &Session, flags: &ImageFlags) {
    let Ok(skus) = listed::all_skus(&session.api).await else {
        return;
    };
    let skus = skus.into_iter();
    let skus = skus.filter(|sku| !sku.lab && sku.capacity_shape() == CapacityShape::GpuSlice);
    let skus: Vec<String> = skus.map(|sku| sku.code).collect();
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

/// Repeats a change while the catalog reads the content of the image, which takes longer than a call. The catalog ends every
/// reading, and with it this.
async fn once_verified<T>(change: impl AsyncFn() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut is_first = true;
    loop {
        let wait = match change().await {
            Err(Failure::Api(error)) if error.is_being_verified() => error.retry_after,
            done => return done,
        };
        if std::mem::take(&mut is_first) {
            note!(
                "Verifying the content of the image in the registry. A large image takes minutes."
            );
        }
        tokio::time::sleep(wait.unwrap_or(VERIFICATION_PAUSE)).await;
    }
}

pub async fn image(session: &Session, command: Image) -> Result<(), Failure> {
    match command {
        Image::Create(flags) => {
            let drivers = DriverStrategy::of_word(&flags.drivers).unwrap_or_default();
            let request = CreateImageRequest {
                slug: flags.slug.clone(),
                display_name: flags.name.clone(),
                driver_strategy: drivers.into(),
                source_uri: flags.source.clone(),
                compatible_skus: flags.skus.clone(),
                boot_timeout_seconds: flags.boot_timeout,
                disabled: flags.disabled,
                ..CreateImageRequest::default()
            };
            let mut body = to_json(&request);
            if let Some(file) = &flags.readiness_checks {
                body["readiness_checks"] = checks_of(file)?;
            }
            let answer = once_verified(async || {
                let body = body.clone();
                session.api.apply_body(&request, body, &session.key).await
            })
            .await?;
            let status = word(answer.message.status());
            let sentence = format!("Image {} is {status}.", flags.slug);
            done(session, &answer.json, &sentence);
            if flags.readiness_checks.is_none() {
                warn_unchecked(session, &flags).await;
            }
        }
        Image::List(selected) => {
            let request = ImageAdminListAllImages(ListImagesRequest {
                filter: selected.filter(),
                order_by: selected.order_by(),
                ..ListImagesRequest::default()
            });
            let found = session.api.call_all_pages(&request, "images").await?;
            let empty = if selected.narrows() {
                "No image matches the filter."
            } else {
                "No images yet. Add one: gpuaas admin image create"
            };
            print_images(session, found, empty);
        }
        Image::SetStatus { slug, status, read } => {
            let sentence = format!("Image {slug} is {status}.");
            let status = ImageStatus::of_word(&status).unwrap_or_default();
            let request = SetImageStatusRequest {
                slug,
                status: status.into(),
                etag: read.etag,
            };
            let answer =
                once_verified(async || session.api.apply(&request, &session.key).await).await?;
            done(session, &answer.json, &sentence);
        }
    }
    Ok(())
}
