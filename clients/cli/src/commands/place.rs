//! Where an allocation may be placed, as flags, as part of a request and as words.
use serde_json::{Map, Value, json};

use super::Session;
use crate::failure::Failure;
use crate::model::Placement;
use crate::resolve::{self, Among};

#[derive(Debug, clap::Args)]
pub struct Where {
    /// Only on the node of this allocation: its id or its name; administrators give the whole id.
    #[arg(long, value_name = "ALLOCATION")]
    affinity: Option<String>,
    /// Only on a node with an allocation of the project that has this label.
    #[arg(long, value_name = "KEY=VALUE")]
    affinity_label: Option<String>,
    /// Not on the node of this allocation, told in the same way; may be given several times.
    #[arg(long, value_name = "ALLOCATION")]
    anti_affinity: Vec<String>,
    /// Not on a node with an allocation of the project that has this label.
    #[arg(long, value_name = "KEY=VALUE")]
    anti_affinity_label: Option<String>,
    /// Only on a node that has the image in its cache, so that nothing is pulled before the start.
    #[arg(long)]
    require_prewarmed: bool,
}

impl Where {
    /// The constraints with ids in the place of names, which are looked for among some; only what was said.
    ///
    /// # Errors
    /// A name that no allocation has.
    pub async fn said(
        self,
        session: &Session,
        among: Among<'_>,
    ) -> Result<Map<String, Value>, Failure> {
        let mut said = Map::new();
        if let Some(given) = self.affinity {
            let id = resolve::allocation(&session.api, among, &given).await?;
            said.insert("affinity".to_owned(), json!(id));
        }
        let mut away = Vec::new();
        for given in self.anti_affinity {
            away.push(resolve::allocation(&session.api, among, &given).await?);
        }
        if !away.is_empty() {
            said.insert("anti_affinity".to_owned(), json!(away));
        }
        for (name, label) in [
            ("affinity_label", self.affinity_label),
            ("anti_affinity_label", self.anti_affinity_label),
        ] {
            said.extend(label.map(|label| (name.to_owned(), json!(label))));
        }
        if self.require_prewarmed {
            said.insert("require_prewarmed".to_owned(), json!(true));
        }
        Ok(said)
    }
}

/// Constraints as the parts of a query.
pub fn query(said: &Map<String, Value>) -> Vec<(&'static str, String)> {
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
        match said.get(field) {
            Some(Value::Array(all)) => parts.extend(all.iter().map(|one| (name, text(one)))),
            Some(one) => parts.push((name, text(one))),
            None => {}
        }
    }
    parts
}

/// Where an allocation was asked to be placed, in words; empty when that was anywhere.
pub fn words(asked: &Placement) -> String {
    let mut said = Vec::new();
    if !asked.affinity.is_empty() {
        said.push(format!("on the node of {}", asked.affinity));
    }
    if !asked.affinity_label.is_empty() {
        said.push(format!("on a node with {}", asked.affinity_label));
    }
    if !asked.anti_affinity.is_empty() {
        said.push(format!("apart from {}", asked.anti_affinity.join(" and ")));
    }
    if !asked.anti_affinity_label.is_empty() {
        said.push(format!("apart from {}", asked.anti_affinity_label));
    }
    if asked.require_prewarmed {
        said.push("where the image is cached".to_owned());
    }
    said.join(", ")
}
