//! Placement constraints as flags, as part of a request and as text.
use gpuaas_proto::gpuaas::scheduler::v1::PlacementConstraints;

use crate::allocation::{self, Among};
use crate::failure::Failure;
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct PlacementFlags {
    /// Same node as this allocation (name or id; `gpuaas admin explain` needs the full id).
    #[arg(long, value_name = "ALLOCATION")]
    affinity: Option<String>,
    /// Same node as an allocation of the project with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    affinity_label: Option<String>,
    /// Not the node of this allocation (name or id; `gpuaas admin explain` needs the full id); repeatable.
    #[arg(long, value_name = "ALLOCATION")]
    anti_affinity: Vec<String>,
    /// No node that has an allocation of the project with this label.
    #[arg(long, value_name = "KEY=VALUE")]
    anti_affinity_label: Option<String>,
    /// Only a node that has the image cached, for a faster start.
    #[arg(long)]
    require_prewarmed: bool,
}

impl PlacementFlags {
    /// The constraints that were given, with names resolved to ids; none without any.
    ///
    /// # Errors
    /// A name that no allocation has.
    pub async fn resolve(
        self,
        session: &Session,
        among: Among<'_>,
    ) -> Result<Option<PlacementConstraints>, Failure> {
        let mut constraints = PlacementConstraints {
            affinity_label: self.affinity_label.unwrap_or_default(),
            anti_affinity_label: self.anti_affinity_label.unwrap_or_default(),
            require_prewarmed: self.require_prewarmed,
            ..PlacementConstraints::default()
        };
        if let Some(given) = self.affinity {
            constraints.affinity = allocation::resolve(&session.api, among, &given).await?;
        }
        for given in self.anti_affinity {
            let id = allocation::resolve(&session.api, among, &given).await?;
            constraints.anti_affinity.push(id);
        }
        Ok(Some(constraints).filter(|given| *given != PlacementConstraints::default()))
    }
}

/// Placement constraints as text; empty without any.
pub fn text(constraints: &PlacementConstraints) -> String {
    let mut parts = Vec::new();
    if !constraints.affinity.is_empty() {
        parts.push(format!("affinity to {}", constraints.affinity));
    }
    if !constraints.affinity_label.is_empty() {
        parts.push(format!("affinity to {}", constraints.affinity_label));
    }
    if !constraints.anti_affinity.is_empty() {
        parts.push(format!(
            "anti-affinity to {}",
            constraints.anti_affinity.join(" and ")
        ));
    }
    if !constraints.anti_affinity_label.is_empty() {
        parts.push(format!(
            "anti-affinity to {}",
            constraints.anti_affinity_label
        ));
    }
    if constraints.require_prewarmed {
        parts.push("image cached".to_owned());
    }
    parts.join(", ")
}
