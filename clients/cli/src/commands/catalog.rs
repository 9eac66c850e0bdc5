//! `sku`, `image`, `region`, `availability`: the catalog and the free capacity.
use gpuaas_proto::call::ImageListImages;
use gpuaas_proto::gpuaas::images::v1::{ListImagesRequest, ListImagesResponse};
use gpuaas_proto::gpuaas::inventory::v1::{ListRegionsRequest, ListRegionsResponse, Region};
use gpuaas_proto::gpuaas::scheduler::v1::{
    Availability, ListAvailabilityRequest, ListSkusRequest, Sku,
};

use super::select::{Selected, SelectedOf};
use crate::api::{Answer, Api};
use crate::api_failure::ApiFailure;
use crate::failure::Failure;
use crate::output::{aligned, print_json, print_table, size, word};
use crate::session::Session;
use crate::{project, suggest};

/// `sku`.
#[derive(Debug, clap::Subcommand)]
pub enum SkuCommand {
    /// List the SKUs.
    List(SelectedOf<ListSkusRequest>),
}

/// `image`.
#[derive(Debug, clap::Subcommand)]
pub enum ImageCommand {
    /// List the images.
    List(ImageFlags),
}

/// `region`.
#[derive(Debug, clap::Subcommand)]
pub enum RegionCommand {
    /// List the regions.
    List(SelectedOf<ListRegionsRequest>),
}

/// That a region is closed, with the operator's reason, without a full stop at the end.
fn closed_text(region: &Region) -> String {
    match region.unavailable_reason.trim_end_matches('.') {
        "" => format!("{} is closed; no reason was given", region.code),
        reason => format!("{} is closed: {reason}", region.code),
    }
}

async fn list_regions(
    api: &Api,
    selected: &Selected,
) -> Result<Answer<ListRegionsResponse>, Failure> {
    let request = ListRegionsRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListRegionsRequest::default()
    };
    api.call_all_pages(&request, "regions").await
}

/// All regions, closed ones too.
///
/// # Errors
/// See [`Failure`].
pub async fn all_regions(api: &Api) -> Result<Vec<Region>, Failure> {
    let found = list_regions(api, &Selected::default()).await?;
    Ok(found.message.regions)
}

/// All SKUs.
///
/// # Errors
/// See [`Failure`].
pub async fn all_skus(api: &Api) -> Result<Vec<Sku>, Failure> {
    let request = ListSkusRequest::default();
    Ok(api.call_all_pages(&request, "skus").await?.message.skus)
}

/// Advice for a region that is closed.
pub fn open_regions(all: &[Region]) -> String {
    let open: Vec<&str> = all
        .iter()
        .filter(|one| one.enabled)
        .map(|one| one.code.as_str())
        .collect();
    if open.is_empty() {
        return "No region is open. See: gpuaas region list".to_owned();
    }
    format!("Choose an open region with --region: {}", open.join(", "))
}

/// The closed ones of these, each with its reason.
fn closed_regions(all: &[Region]) -> String {
    let closed = all.iter().filter(|one| !one.enabled).map(closed_text);
    closed.collect::<Vec<_>>().join(". ")
}

/// `sku list`.
///
/// # Errors
/// See [`Failure`].
pub async fn skus(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let request = ListSkusRequest {
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListSkusRequest::default()
    };
    let found = session.api.call_all_pages(&request, "skus").await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let skus = found.message.skus;
    if skus.is_empty() && selected.narrows() {
        say!("No SKU matches the filter.");
        return Ok(());
    }
    if skus.is_empty() {
        say!("No SKUs yet. An administrator adds one: gpuaas admin sku set");
        return Ok(());
    }
    let prices = aligned(skus.iter().map(|sku| sku.price_per_gpu_hour.as_ref()));
    let rows = skus.iter().zip(prices).map(|(s, price)| {
        let counts: Vec<String> = s.allowed_gpu_counts.iter().map(u32::to_string).collect();
        let price = match &s.price_per_gpu_hour {
            _ if s.disabled() && s.reserved_gpus > 0 => {
                format!("not offered, {} GPU(s) reserved", s.reserved_gpus)
            }
            _ if s.disabled() => "not offered".to_owned(),
            Some(_) => price,
            None => "no price".to_owned(),
        };
        let mut shape = word(s.capacity_shape());
        if s.lab {
            shape.push_str(" (lab)");
        }
        [
            s.code.clone(),
            s.display_name.clone(),
            shape,
            counts.join(", "),
            price,
        ]
    });
    print_table(
        ["SKU", "NAME", "SHAPE", "GPU COUNTS", "PER GPU-HOUR"],
        rows.collect(),
    );
    Ok(())
}

#[derive(Debug, clap::Args)]
pub struct ImageFlags {
    /// Only images for this SKU.
    #[arg(long)]
    sku: Option<String>,
    #[command(flatten)]
    selected: SelectedOf<ListImagesRequest>,
}

/// `image list`.
///
/// # Errors
/// See [`Failure`].
pub async fn images(session: &Session, flags: ImageFlags) -> Result<(), Failure> {
    let ImageFlags { sku, selected } = flags;
    let request = ImageListImages(ListImagesRequest {
        sku: sku.unwrap_or_default(),
        filter: selected.filter(),
        order_by: selected.order_by(),
        ..ListImagesRequest::default()
    });
    let found = session.api.call_all_pages(&request, "images").await?;
    let empty = if selected.narrows() {
        "No image matches the filter."
    } else {
        "No active images. An administrator adds one: gpuaas admin image create"
    };
    print_images(session, found, empty);
    Ok(())
}

/// Images as table or JSON; `empty` is printed when there are none.
pub fn print_images(session: &Session, found: Answer<ListImagesResponse>, empty: &str) {
    if session.json() {
        print_json(&found.json);
        return;
    }
    let images = found.message.images;
    if images.is_empty() {
        say!("{empty}");
        return;
    }
    let rows = images.into_iter().map(|i| {
        let status = word(i.status());
        let digest: String = i.digest.chars().take(19).collect();
        let names: Vec<String> = i.readiness_checks.into_iter().map(|one| one.name).collect();
        [
            i.slug,
            i.display_name,
            status,
            size(i.size_bytes),
            i.compatible_skus.join(", "),
            names.join(", "),
            digest,
        ]
    });
    print_table(
        [
            "IMAGE", "NAME", "STATUS", "SIZE", "SKUS", "CHECKS", "DIGEST",
        ],
        rows.collect(),
    );
}

/// `region list`.
///
/// # Errors
/// See [`Failure`].
pub async fn regions(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let found = list_regions(&session.api, selected).await?;
    if session.json() {
        print_json(&found.json);
        return Ok(());
    }
    let regions = found.message.regions;
    if regions.is_empty() && selected.narrows() {
        say!("No region matches the filter.");
        return Ok(());
    }
    if regions.is_empty() {
        say!("No regions yet. An administrator adds one: gpuaas admin region set");
        return Ok(());
    }
    let rows = regions.into_iter().map(|r| {
        let state = if r.enabled {
            "enabled".to_owned()
        } else {
            format!("disabled: {}", r.unavailable_reason)
        };
        [
            r.code,
            r.display_name,
            state.trim_end_matches(": ").to_owned(),
        ]
    });
    print_table(["REGION", "NAME", "STATE"], rows.collect());
    Ok(())
}

/// The region of a launch that names none: the only enabled one, else the first where it fits now, else the first with
/// nodes of the SKU. A region that was just added therefore changes nothing.
///
/// # Errors
/// No region is enabled.
pub async fn default_region(session: &Session, sku: &str, gpus: u32) -> Result<String, Failure> {
    let all = all_regions(&session.api).await?;
    let closed = closed_regions(&all);
    let enabled: Vec<String> = all
        .into_iter()
        .filter(|r| r.enabled)
        .map(|r| r.code)
        .collect();
    match enabled.as_slice() {
        [one] if closed.is_empty() => return Ok(one.clone()),
        [one] => {
            note!("Region {one}: the only open one. Region {closed}.");
            return Ok(one.clone());
        }
        [] => return Err(no_region(&closed)),
        _ => {}
    }
    let request = ListAvailabilityRequest {
        sku: sku.to_owned(),
        ..ListAvailabilityRequest::default()
    };
    let found = session.api.call(&request).await?.message.availability;
    let (region, why) = best_region(&enabled, &found, gpus);
    note!(
        "Region {region}: {why}. Choose another one with --region: {}",
        enabled.join(", ")
    );
    if !closed.is_empty() {
        note!("Region {closed}.");
    }
    Ok(region)
}

/// The best of several regions, and why.
fn best_region(enabled: &[String], found: &[Availability], gpus: u32) -> (String, &'static str) {
    let any = |code: &String, is: &dyn Fn(&Availability) -> bool| {
        found.iter().any(|a| a.region_code == *code && is(a))
    };
    let fits = |code: &&String| any(code, &|a| a.fits > 0 && (gpus == 0 || a.gpu_count == gpus));
    // without any node of its class, a SKU has one reason, which names no node
    let has_nodes = |code: &&String| {
        any(code, &|a| {
            a.fits > 0 || a.reasons.iter().any(|reason| reason.nodes > 0)
        })
    };
    if let Some(code) = enabled.iter().find(fits) {
        return (code.clone(), "the SKU fits there now");
    }
    if let Some(code) = enabled.iter().find(has_nodes) {
        return (code.clone(), "it has nodes for the SKU");
    }
    (enabled[0].clone(), "the first one")
}

fn no_region(closed: &str) -> Failure {
    Failure::Usage(match closed {
        "" => "there is no region yet; see: gpuaas region list".to_owned(),
        closed => format!("no region is open. Region {closed}"),
    })
}

#[derive(Debug, clap::Args)]
pub struct AvailabilityFlags {
    /// Only this region.
    #[arg(long)]
    region: Option<String>,
    /// Only this SKU.
    #[arg(long)]
    sku: Option<String>,
    /// Include the reserved capacity of this project [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
}

/// `availability`.
///
/// # Errors
/// See [`Failure`].
pub async fn availability(session: &Session, flags: AvailabilityFlags) -> Result<(), Failure> {
    let AvailabilityFlags {
        region,
        sku,
        project,
    } = flags;
    let project = project::chosen(&session.api, project).await?;
    let request = ListAvailabilityRequest {
        region_code: region.unwrap_or_default(),
        sku: sku.unwrap_or_default(),
        project_id: project.unwrap_or_default(),
    };
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let found = answer.message.availability;
    if found.is_empty() {
        say!("No SKU is offered here. See: gpuaas sku list, gpuaas region list");
        return Ok(());
    }
    let rows = found.into_iter().map(|a| {
        let reasons: Vec<String> = a
            .reasons
            .iter()
            .map(|r| {
                if r.message.is_empty() {
                    r.reason.clone()
                } else {
                    format!("{} ({})", r.message, r.reason)
                }
            })
            .collect();
        [
            a.region_code,
            a.sku,
            a.gpu_count.to_string(),
            a.fits.to_string(),
            reasons.join("; "),
        ]
    });
    print_table(["REGION", "SKU", "GPUS", "FITS", "REASON"], rows.collect());
    Ok(())
}
/// A refused launch with the nearest name where SKU, image or region are unknown, and with what there is to know of a closed
/// region: `given` has them in this order.
pub async fn nearest_names(api: &Api, failure: Failure, given: [&str; 3]) -> Failure {
    let Failure::Api(mut error) = failure else {
        return failure;
    };
    let (names, given) = match error.reason.as_str() {
        "SKU_UNKNOWN" => {
            let all = all_skus(api).await.unwrap_or_default().into_iter();
            (all.map(|sku| sku.code).collect::<Vec<_>>(), given[0])
        }
        "IMAGE_UNKNOWN" => {
            let request = ImageListImages(ListImagesRequest::default());
            let found = api.call_all_pages(&request, "images").await;
            let all = found.unwrap_or_default().message.images.into_iter();
            (all.map(|image| image.slug).collect(), given[1])
        }
        "REGION_UNKNOWN" => {
            let all = all_regions(api).await.unwrap_or_default().into_iter();
            (all.map(|region| region.code).collect(), given[2])
        }
        "REGION_DISABLED" => return closed(api, error, given[2]).await,
        _ => return Failure::Api(error),
    };
    let nearest = suggest::nearest(given, names.iter().map(String::as_str));
    error.nearest = nearest.map(str::to_owned);
    Failure::Api(error)
}

/// A refusal for a closed region, with the operator's reason and the regions that are open.
async fn closed(api: &Api, mut error: Box<ApiFailure>, code: &str) -> Failure {
    let all = all_regions(api).await.unwrap_or_default();
    let region = all
        .iter()
        .find(|one| one.code.eq_ignore_ascii_case(code.trim()));
    // one that was opened since is no longer closed
    if let Some(region) = region.filter(|one| !one.enabled) {
        error.message = format!("Region {}.", closed_text(region));
        error
            .fields
            .retain(|(field, _)| !field.ends_with("region_code"));
        error.advice = Some(open_regions(&all));
    }
    Failure::Api(error)
}
