//! `skus`, `images`, `regions`, `availability`: the catalog and the free capacity.
use serde::Deserialize;
use serde_json::{Value, json};

use super::select::Selected;
use super::{Session, given};
use crate::api::{Api, number, parse, parse_all};
use crate::failure::{ApiFailure, Failure};
use crate::output::{Money, aligned, bytes, print_json, print_table};
use crate::reason::UnavailableReason;
use crate::{project, suggest};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Region {
    pub code: String,
    pub display_name: String,
    pub enabled: bool,
    pub unavailable_reason: String,
}

impl Region {
    /// That it is closed, with the operator's reason, without a full stop at the end.
    pub fn closed(&self) -> String {
        match self.unavailable_reason.trim_end_matches('.') {
            "" => format!("{} is closed; no reason was given", self.code),
            reason => format!("{} is closed: {reason}", self.code),
        }
    }
}

/// All regions, closed ones too.
///
/// # Errors
/// See [`Failure`].
pub async fn all_regions(api: &Api) -> Result<Vec<Region>, Failure> {
    parse_all(&api.list(&["regions"], &[], "regions").await?)
}

/// Advice for a region that is closed.
pub fn open_regions(all: &[Region]) -> String {
    let open: Vec<&str> = all
        .iter()
        .filter(|one| one.enabled)
        .map(|one| one.code.as_str())
        .collect();
    if open.is_empty() {
        return "No region is open. See: gpuaas regions".to_owned();
    }
    format!("Choose an open region with --region: {}", open.join(", "))
}

/// The closed ones of these, each with its reason.
fn closed_regions(all: &[Region]) -> String {
    let closed = all.iter().filter(|one| !one.enabled).map(Region::closed);
    closed.collect::<Vec<_>>().join(". ")
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sku {
    pub code: String,
    pub display_name: String,
    pub capacity_shape: String,
    pub allowed_gpu_counts: Vec<u32>,
    pub price_per_gpu_hour: Option<Money>,
    pub lab: bool,
    pub disabled: bool,
    pub reserved_gpus: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Image {
    pub slug: String,
    pub display_name: String,
    pub status: String,
    #[serde(deserialize_with = "number")]
    pub size_bytes: i64,
    pub compatible_skus: Vec<String>,
    pub readiness_checks: Vec<NamedCheck>,
    pub digest: String,
}

/// A readiness check of an image.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NamedCheck {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Availability {
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub fits: u32,
    pub reasons: Vec<UnavailableReason>,
}

/// `skus`.
///
/// # Errors
/// See [`Failure`].
pub async fn skus(session: &Session, selected: &Selected) -> Result<(), Failure> {
    let query = selected.query();
    let found = session.api.list(&["skus"], &query, "skus").await?;
    if session.json() {
        print_json(&json!({ "skus": found }));
        return Ok(());
    }
    let skus: Vec<Sku> = parse_all(&found)?;
    if skus.is_empty() && selected.narrows() {
        say!("No SKU matches the filter.");
        return Ok(());
    }
    if skus.is_empty() {
        say!("No SKUs yet. An administrator adds one: gpuaas admin sku put");
        return Ok(());
    }
    let prices = aligned(skus.iter().map(|sku| sku.price_per_gpu_hour.as_ref()));
    let rows = skus.iter().zip(prices).map(|(s, price)| {
        let counts: Vec<String> = s.allowed_gpu_counts.iter().map(u32::to_string).collect();
        let price = match s.price_per_gpu_hour {
            _ if s.disabled && s.reserved_gpus > 0 => {
                format!("not offered, {} GPU(s) reserved", s.reserved_gpus)
            }
            _ if s.disabled => "not offered".to_owned(),
            Some(_) => price,
            None => "no price".to_owned(),
        };
        let shape = if s.lab {
            format!("{} (lab)", s.capacity_shape)
        } else {
            s.capacity_shape.clone()
        };
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
    selected: Selected,
}

/// `images`.
///
/// # Errors
/// See [`Failure`].
pub async fn images(session: &Session, flags: ImageFlags) -> Result<(), Failure> {
    let ImageFlags { sku, selected } = flags;
    let mut query = given([("sku", sku)]);
    query.extend(selected.query());
    let found = session.api.list(&["images"], &query, "images").await?;
    let empty = if selected.narrows() {
        "No image matches the filter."
    } else {
        "No active images. An administrator adds one: gpuaas admin image create"
    };
    print_images(session, &found, empty)
}

/// Images as table or JSON; `empty` is printed when there are none.
///
/// # Errors
/// See [`Failure`].
pub fn print_images(session: &Session, found: &[Value], empty: &str) -> Result<(), Failure> {
    if session.json() {
        print_json(&json!({ "images": found }));
        return Ok(());
    }
    let images: Vec<Image> = parse_all(found)?;
    if images.is_empty() {
        say!("{empty}");
        return Ok(());
    }
    let rows = images.into_iter().map(|i| {
        let digest: String = i.digest.chars().take(19).collect();
        let names: Vec<String> = i.readiness_checks.into_iter().map(|one| one.name).collect();
        [
            i.slug,
            i.display_name,
            i.status,
            bytes(i.size_bytes),
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
    Ok(())
}

/// `regions`.
///
/// # Errors
/// See [`Failure`].
pub async fn regions(session: &Session) -> Result<(), Failure> {
    let found = session.api.list(&["regions"], &[], "regions").await?;
    if session.json() {
        print_json(&json!({ "regions": found }));
        return Ok(());
    }
    let regions: Vec<Region> = parse_all(&found)?;
    if regions.is_empty() {
        say!("No regions yet. An administrator adds one: gpuaas admin region put");
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
    let query = [("sku", sku.to_owned())];
    let answer = session.api.get(&["availability"], &query).await?;
    let found: Vec<Availability> = parse(
        answer
            .get("availability")
            .unwrap_or(&Value::Array(Vec::new())),
    )?;
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
        "" => "there is no region yet; see: gpuaas regions".to_owned(),
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
    /// Include the reserved capacity of this project [default: your only one].
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
    let query = given([
        ("region_code", region),
        ("sku", sku),
        ("project_id", project::given(&session.api, project).await?),
    ]);
    let answer = session.api.get(&["availability"], &query).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let found: Vec<Availability> = parse(
        answer
            .get("availability")
            .unwrap_or(&Value::Array(Vec::new())),
    )?;
    if found.is_empty() {
        say!("No SKU is offered here. See: gpuaas skus, gpuaas regions");
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
    let (list, key, given) = match error.reason.as_str() {
        "SKU_UNKNOWN" => ("skus", "code", given[0]),
        "IMAGE_UNKNOWN" => ("images", "slug", given[1]),
        "REGION_UNKNOWN" => ("regions", "code", given[2]),
        "REGION_DISABLED" => return closed(api, error, given[2]).await,
        _ => return Failure::Api(error),
    };
    if let Ok(found) = api.list(&[list], &[], list).await {
        let names = found.iter().filter_map(|one| one[key].as_str());
        error.nearest = suggest::nearest(given, names).map(str::to_owned);
    }
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
        error.message = format!("Region {}.", region.closed());
        error
            .fields
            .retain(|(field, _)| !field.ends_with("region_code"));
        error.advice = Some(open_regions(&all));
    }
    Failure::Api(error)
}
