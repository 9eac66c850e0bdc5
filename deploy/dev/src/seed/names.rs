//! What a first start calls what it makes, and where the tokens of its principals are.
use std::path::{Path, PathBuf};

/// What a lab host offers.
pub const LAB_SKU: &str = "lab-slice";
/// What a node with H200 GPUs offers; the lab has none.
pub const H200_SKU: &str = "h200-sxm-slice";
/// Image that boots and answers.
pub const IMAGE: &str = "lab-mini";
/// Image that boots and never answers, to see a failure.
pub const DEAD_IMAGE: &str = "lab-mini-dead";
/// Image that VMs of [`IMAGE`] are rescued with; tests add it.
pub const RESCUE_IMAGE: &str = "lab-mini-rescue";
/// Debian 12 with cloud-init; no part of a first start, since it takes minutes to build and to boot.
pub const DEBIAN_IMAGE: &str = "lab-debian";

/// Files with the tokens of the seeded principals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Administrator.
    pub admin: PathBuf,
    /// User of the project.
    pub user: PathBuf,
}

impl Tokens {
    /// Where a stack keeps them.
    pub fn of(root: &Path) -> Self {
        Self {
            admin: root.join("tokens/admin"),
            user: root.join("tokens/user"),
        }
    }
}
