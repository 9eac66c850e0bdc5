//! `explain`: on how many nodes a launch fits now, with the unschedulable reasons of the others.
use serde::Deserialize;

use super::catalog::default_region;
use super::{Session, Side, given, place};
use crate::allocation::Among;
use crate::api::{parse, parse_all};
use crate::commands::catalog::Image;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;
use crate::reason::UnavailableReason;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlacementExplanation {
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub nodes: u32,
    pub nodes_fit: u32,
    pub removed: Vec<UnavailableReason>,
}

/// The size of a launch.
#[derive(Debug, clap::Args)]
pub struct Size {
    /// SKU; see: gpuaas skus.
    #[arg(long)]
    sku: String,
    /// GPUs per allocation.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    gpus: u32,
    /// Region [default: one where it fits now].
    #[arg(long)]
    region: Option<String>,
}

impl Size {
    /// The query parameters.
    ///
    /// # Errors
    /// There is no region to choose.
    pub async fn query(self, session: &Session) -> Result<Vec<(&'static str, String)>, Failure> {
        let region = match self.region {
            Some(region) => region,
            None => default_region(session, &self.sku, self.gpus).await?,
        };
        Ok(vec![
            ("region_code", region),
            ("sku", self.sku),
            ("gpu_count", self.gpus.to_string()),
        ])
    }
}

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    size: Size,
    /// Project, for its reserved capacity and its allocations [default: your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Image; see: gpuaas images.
    #[arg(long)]
    image: Option<String>,
    #[command(flatten)]
    placement: place::PlacementFlags,
}

impl Flags {
    /// The query parameters.
    ///
    /// # Errors
    /// An image or an allocation that does not exist, or no region to choose; for an operator, an allocation without its
    /// full id.
    pub async fn query(
        self,
        session: &Session,
        side: Side,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut query = self.size.query(session).await?;
        let digest = match self.image {
            Some(slug) => Some(digest_of(session, &slug).await?),
            None => None,
        };
        let project = project::given(&session.api, self.project).await?;
        let among = match side {
            Side::Member => Among::Project(project.as_deref()),
            Side::Operator => Among::All,
        };
        let constraints = self.placement.resolve(session, among).await?;
        query.extend(given([("project_id", project), ("image_digest", digest)]));
        query.extend(place::query(&constraints));
        Ok(query)
    }
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let query = flags.query(session, Side::Member).await?;
    let answer = session.api.get(&["availability:explain"], &query).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    print_explanation(&parse(&answer)?);
    Ok(())
}

/// The digest of an image.
async fn digest_of(session: &Session, slug: &str) -> Result<String, Failure> {
    let all: Vec<Image> = parse_all(&session.api.list(&["images"], &[], "images").await?)?;
    let found = all.into_iter().find(|image| image.slug == slug);
    found
        .map(|image| image.digest)
        .ok_or_else(|| Failure::Usage(format!("there is no image {slug}; see: gpuaas images")))
}

/// An explanation as a sentence and a table.
pub fn print_explanation(found: &PlacementExplanation) {
    say!(
        "{} GPU(s) of {} in {} fit on {} of {} nodes.",
        found.gpu_count,
        found.sku,
        found.region_code,
        found.nodes_fit,
        found.nodes
    );
    if found.removed.is_empty() {
        return;
    }
    say!("");
    let rows = found.removed.iter().map(|cause| {
        [
            cause.reason.clone(),
            cause.nodes.to_string(),
            cause.gpus.to_string(),
            cause.message.clone(),
        ]
    });
    print_table(["REASON", "NODES", "GPUS", "DETAILS"], rows.collect());
}
