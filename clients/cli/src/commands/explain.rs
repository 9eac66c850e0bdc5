//! `explain`: where a launch would fit now, and what removes the other nodes.
use super::launch::only_region;
use super::{Session, given};
use crate::api::parse;
use crate::failure::Failure;
use crate::model::PlacementExplanation;
use crate::output::{print_json, print_table};

#[derive(Debug, clap::Args)]
pub struct Flags {
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

impl Flags {
    /// What is asked about, as a query.
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

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: Flags, project: Option<String>) -> Result<(), Failure> {
    let mut query = flags.query(session).await?;
    query.extend(given([("project_id", project)]));
    let answer = session.api.get(&["availability:explain"], &query).await?;
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    print_explanation(&parse(&answer)?);
    Ok(())
}

/// An explanation as a sentence and a table.
pub fn print_explanation(found: &PlacementExplanation) {
    println!(
        "{} GPU of {} in {} would fit on {} of {} nodes.",
        found.gpu_count, found.sku, found.region_code, found.nodes_fit, found.nodes
    );
    if found.removed.is_empty() {
        return;
    }
    println!();
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
