//! The least that an operator wants done to a disk between two tenants.
use std::str::FromStr;

use serde::Deserialize;

use crate::ids::ParseError;

/// The least that is done to a slot's disk (D-75).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WipePolicy {
    /// Discard of all blocks.
    #[default]
    Blkdiscard,
    /// NVMe format with user-data erase.
    NvmeFormat,
    /// A tool of the operator's.
    SiteErase,
}

impl WipePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [Self::Blkdiscard, Self::NvmeFormat, Self::SiteErase];

    /// The name in bindings and evidence.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blkdiscard => "blkdiscard",
            Self::NvmeFormat => "nvme_format",
            Self::SiteErase => "site_erase",
        }
    }
}

impl FromStr for WipePolicy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or(ParseError {
                what: "destructive_wipe_policy",
                rule: "blkdiscard, nvme_format or site_erase",
            })
    }
}
