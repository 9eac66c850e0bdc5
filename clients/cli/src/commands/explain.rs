//! `explain`: where a launch would fit now, and what removes the other nodes.
use super::catalog::only_region;
use super::{Session, Side, given, place};
use crate::api::{parse, parse_all};
use crate::failure::Failure;
use crate::model::{Image, PlacementExplanation};
use crate::output::{print_json, print_table};
use crate::resolve::Among;

/// What one launch would ask for.
#[derive(Debug, clap::Args)]
pub struct Size {
    /// What to launch; see: gpuaas skus.
    #[arg(long)]
    sku: String,
    /// How many GPUs.
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    gpus: u32,
    /// Where [default: the only enabled region].
    #[arg(long)]
    region: Option<String>,
}

impl Size {
    /// What is asked about, as a query.
    ///
    /// # Errors
    /// There is no region to choose.
    pub async fn query(self, session: &Session) -> Result<Vec<(&'static str, String)>, Failure> {
        let region = match self.region {
            Some(region) => region,
            None => only_region(session).await?,
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
    /// For this project, with what is reserved for it and its allocations [default: your only one].
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// What it would boot; see: gpuaas images.
    #[arg(long)]
    image: Option<String>,
    #[command(flatten)]
    place: place::Where,
}

impl Flags {
    /// What is asked about, as a query.
    ///
    /// # Errors
    /// An image or an allocation that there is not, or no region to choose; for an operator, an allocation that is not
    /// named by its whole id.
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
        let among = match side {
            Side::Member => Among::Project(self.project.as_deref()),
            Side::Operator => Among::All,
        };
        let said = self.place.said(session, among).await?;
        query.extend(given([
            ("project_id", self.project),
            ("image_digest", digest),
        ]));
        query.extend(place::query(&said));
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
        "{} GPU of {} in {} would fit on {} of {} nodes.",
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
    print_table(
        ["CONSTRAINT", "NODES REMOVED", "GPUS", "WHY"],
        rows.collect(),
    );
}
