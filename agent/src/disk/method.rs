//! How a disk is wiped (D-75, D-76), decided by what its controller reports. The slot's policy names the least that is done.
use serde::{Deserialize, Serialize};

use super::nvme::{Controller, NoFormat, check_format, is_alone};
use super::policy::WipePolicy;

/// What erases the media; afterwards the blocks are made to read as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Erase {
    /// Sanitize of the whole subsystem by change of the media's keys.
    SanitizeCrypto,
    /// Sanitize of the whole subsystem by erase of the media's blocks.
    SanitizeBlock,
    /// Format of the namespace with change of its key.
    FormatCrypto,
    /// Format of the namespace with erase of its data.
    FormatUserData,
    /// The command of the site.
    Site,
}

/// What makes every block read as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Zero {
    /// Discard of all blocks, which read as zero afterwards.
    Discard,
    /// The device writes the zeroes.
    WriteZeroes,
    /// The agent writes them.
    Overwrite,
}

/// How a disk is wiped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// None: the blocks are discarded or overwritten, and that is all.
    pub erase: Option<Erase>,
    pub zero: Zero,
}

impl Method {
    /// The name in evidence and certificates, by what is strongest in it.
    pub fn name(self) -> &'static str {
        match (self.erase, self.zero) {
            (Some(Erase::SanitizeCrypto), _) => "sanitize_crypto_erase",
            (Some(Erase::SanitizeBlock), _) => "sanitize_block_erase",
            (Some(Erase::FormatCrypto), _) => "format_crypto_erase",
            (Some(Erase::FormatUserData), _) => "format_user_data_erase",
            (Some(Erase::Site), _) => "site_erase",
            (None, Zero::Discard) => "blkdiscard",
            (None, Zero::WriteZeroes) => "write_zeroes",
            (None, Zero::Overwrite) => "overwrite",
        }
    }
}

/// What is known of an NVMe namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NvmeFacts {
    pub controller: Controller,
    /// This namespace.
    pub namespace: u32,
    /// Those of the whole subsystem, none when they could not be listed.
    pub namespaces: Option<Vec<u32>>,
}

/// What is known of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WipeFacts {
    /// As its controller reports it, or why it does not.
    pub nvme: Result<NvmeFacts, String>,
    /// The device discards blocks, and such blocks read as zero.
    pub discards_to_zero: bool,
    /// A discard is a command and no hint, as of a loop device, whose file gets a hole.
    pub discards_all: bool,
    /// The device writes zeroes by itself (`queue/write_zeroes_max_bytes`).
    pub writes_zeroes: bool,
    /// The host's settings name a command of the site.
    pub has_site_command: bool,
}

/// Why a slot's policy cannot be met on this disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMethod {
    /// Nobody can tell what its controller can.
    #[error(
        "its wipe policy is nvme_format, and its controller cannot be asked: {0}; \
         set the policy to blkdiscard if this is no NVMe disk"
    )]
    Unknown(String),
    /// Its controller can neither sanitize nor format it alone.
    #[error("its wipe policy is nvme_format, which cannot be met: {0}")]
    Format(NoFormat),
    /// There is no command of the site.
    #[error(
        "its wipe policy is site_erase, and this host has no erase command of its site \
         (agent.wipe.site_command)"
    )]
    NoSiteCommand,
}

/// Chooses the strongest method that the controller offers and that reaches no other namespace.
///
/// # Errors
/// [`NoMethod`] when that is less than the policy.
pub fn choose(policy: WipePolicy, facts: &WipeFacts) -> Result<Method, NoMethod> {
    let erase = match (policy, &facts.nvme) {
        (WipePolicy::SiteErase, _) if facts.has_site_command => Some(Erase::Site),
        (WipePolicy::SiteErase, _) => return Err(NoMethod::NoSiteCommand),
        (WipePolicy::NvmeFormat, Err(why)) => return Err(NoMethod::Unknown(why.clone())),
        (WipePolicy::NvmeFormat, Ok(nvme)) => Some(erase_of(nvme).map_err(NoMethod::Format)?),
        (WipePolicy::Blkdiscard, nvme) => {
            let nvme = nvme.as_ref().ok();
            nvme.and_then(|nvme| erase_of(nvme).ok())
        }
    };
    let zero = zero_of(facts, erase.is_some());
    Ok(Method { erase, zero })
}

/// The policies that can be met on a disk, the least first (D-75, D-76).
pub fn possible(nvme: &Result<NvmeFacts, String>, has_site_command: bool) -> Vec<WipePolicy> {
    let facts = WipeFacts {
        nvme: nvme.clone(),
        has_site_command,
        // they say how the blocks become zero, and every disk can be overwritten
        discards_to_zero: false,
        discards_all: false,
        writes_zeroes: false,
    };
    let can = |policy: &WipePolicy| choose(*policy, &facts).is_ok();
    WipePolicy::ALL.into_iter().filter(can).collect()
}

/// What is left where an erase failed that the policy does not demand.
pub fn without_erase(facts: &WipeFacts) -> Method {
    Method {
        erase: None,
        zero: zero_of(facts, false),
    }
}

/// A controller may leave discarded blocks as they are: after an erase nothing is left in them, and without one it is asked
/// for zeroes where it can write them.
fn zero_of(facts: &WipeFacts, is_erased: bool) -> Zero {
    if facts.discards_to_zero && (is_erased || facts.discards_all || !facts.writes_zeroes) {
        Zero::Discard
    } else if facts.writes_zeroes {
        Zero::WriteZeroes
    } else {
        Zero::Overwrite
    }
}

/// The strongest erase that reaches this namespace alone.
fn erase_of(nvme: &NvmeFacts) -> Result<Erase, NoFormat> {
    let NvmeFacts {
        controller,
        namespace,
        namespaces,
    } = nvme;
    let namespaces = namespaces.as_deref();
    if is_alone(controller, namespaces, *namespace) {
        if controller.sanitizes_by_crypto() {
            return Ok(Erase::SanitizeCrypto);
        }
        if controller.sanitizes_blocks() {
            return Ok(Erase::SanitizeBlock);
        }
    }
    check_format(controller, namespaces, *namespace)?;
    Ok(if controller.formats_by_crypto() {
        Erase::FormatCrypto
    } else {
        Erase::FormatUserData
    })
}

#[cfg(test)]
#[path = "method_tests.rs"]
mod tests;
