//! `explain`: on how many nodes a launch fits now, with the unschedulable reasons of the others.
use gpuaas_proto::call::ImageListImages;
use gpuaas_proto::gpuaas::images::v1::ListImagesRequest;
use gpuaas_proto::gpuaas::scheduler::v1::{ExplainPlacementRequest, PlacementExplanation};

use super::catalog::default_region;
use super::placement;
use crate::allocation::Among;
use crate::failure::Failure;
use crate::output::{print_json, print_table};
use crate::project;
use crate::session::{Session, Side};

/// The size of a launch.
#[derive(Debug, clap::Args)]
pub struct Size {
    /// SKU; see: gpuaas sku list.
    #[arg(long)]
    sku: String,
    /// GPUs per allocation.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    gpus: u32,
    /// Region [default: one where it fits now].
    #[arg(long)]
    region: Option<String>,
}

/// A size, and where it is launched.
pub struct SizeInRegion {
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
}

impl Size {
    /// The size in its region.
    ///
    /// # Errors
    /// There is no region to choose.
    pub async fn resolve(self, session: &Session) -> Result<SizeInRegion, Failure> {
        let region_code = match self.region {
            Some(region) => region,
            None => default_region(session, &self.sku, self.gpus).await?,
        };
        Ok(SizeInRegion {
            region_code,
            sku: self.sku,
            gpu_count: self.gpus,
        })
    }
}

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    size: Size,
    /// Project, for its reserved capacity and its allocations [default: that of the context, else your only one].
    #[arg(long, value_name = "PROJECT")]
    project: Option<String>,
    /// Image; see: gpuaas image list.
    #[arg(long)]
    image: Option<String>,
    #[command(flatten)]
    placement: placement::PlacementFlags,
}

impl Flags {
    /// The request.
    ///
    /// # Errors
    /// An image or an allocation that does not exist, or no region to choose; for an operator, an allocation without its
    /// full id.
    pub async fn request(
        self,
        session: &Session,
        side: Side,
    ) -> Result<ExplainPlacementRequest, Failure> {
        let size = self.size.resolve(session).await?;
        let image_digest = match self.image {
            Some(slug) => digest_of(session, &slug).await?,
            None => String::new(),
        };
        let project = match side {
            Side::Member => project::chosen(&session.api, self.project).await?,
            Side::Operator => project::given(&session.api, self.project).await?,
        };
        let among = match side {
            Side::Member => Among::Project(project.as_deref()),
            Side::Operator => Among::All,
        };
        let placement = self.placement.resolve(session, among).await?;
        Ok(ExplainPlacementRequest {
            region_code: size.region_code,
            sku: size.sku,
            gpu_count: size.gpu_count,
            project_id: project.unwrap_or_default(),
            image_digest,
            placement,
        })
    }
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags) -> Result<(), Failure> {
    let request = flags.request(session, Side::Member).await?;
    let answer = session.api.call(&request).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    print_explanation(&answer.message);
    Ok(())
}

/// The digest of an image.
async fn digest_of(session: &Session, slug: &str) -> Result<String, Failure> {
    let request = ImageListImages(ListImagesRequest::default());
    let listed = session.api.call_all_pages(&request, "images").await?;
    let mut images = listed.message.images.into_iter();
    let found = images.find(|image| image.slug == slug);
    found
        .map(|image| image.digest)
        .ok_or_else(|| Failure::Usage(format!("there is no image {slug}; see: gpuaas image list")))
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
