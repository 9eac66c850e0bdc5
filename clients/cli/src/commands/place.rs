//! Placement constraints as flags, as part of a request and as text.
use serde_json::{Map, Value, json};

use super::Session;
use crate::allocation::{self, Among, Placement};
use crate::failure::Failure;

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
    /// The constraints that were given, with names resolved to ids.
    ///
    /// # Errors
    /// A name that no allocation has.
    pub async fn resolve(
        self,
        session: &Session,
        among: Among<'_>,
    ) -> Result<Map<String, Value>, Failure> {
        let mut constraints = Map::new();
        if let Some(given) = self.affinity {
            let id = allocation::resolve(&session.api, among, &given).await?;
            constraints.insert("affinity".to_owned(), json!(id));
        }
        let mut avoided = Vec::new();
        for given in self.anti_affinity {
            avoided.push(allocation::resolve(&session.api, among, &given).await?);
        }
        if !avoided.is_empty() {
            constraints.insert("anti_affinity".to_owned(), json!(avoided));
        }
        for (name, label) in [
            ("affinity_label", self.affinity_label),
            ("anti_affinity_label", self.anti_affinity_label),
        ] {
            constraints.extend(label.map(|label| (name.to_owned(), json!(label))));
        }
        if self.require_prewarmed {
            constraints.insert("require_prewarmed".to_owned(), json!(true));
        }
        Ok(constraints)
    }
}

/// Constraints as the parts of a query.
pub fn query(constraints: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let text = |value: &Value| value.as_str().map_or(value.to_string(), str::to_owned);
    let mut parts = Vec::new();
    for name in [
        "placement.affinity",
        "placement.affinity_label",
        "placement.anti_affinity",
        "placement.anti_affinity_label",
        "placement.require_prewarmed",
    ] {
        let field = name.trim_start_matches("placement.");
        match constraints.get(field) {
            Some(Value::Array(all)) => parts.extend(all.iter().map(|one| (name, text(one)))),
            Some(one) => parts.push((name, text(one))),
            None => {}
        }
    }
    parts
}

/// Placement constraints as text; empty without any.
pub fn text(constraints: &Placement) -> String {
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
