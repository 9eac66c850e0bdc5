//! The types of both sides of the wall: slots and nodes as input of a decision, requests, rules, and decisions.
use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{GpuCount, ImageKey, UnschedulableReason};

/// A value outside the closed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord(String);

impl std::fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} is not a known word", self.0)
    }
}

impl std::error::Error for UnknownWord {}

/// A closed set of values.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// All texts.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Its text, as it is stored and sent.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The value from text.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl TryFrom<String> for $name {
            type Error = UnknownWord;

            fn try_from(word: String) -> Result<Self, UnknownWord> {
                Self::parse(&word).ok_or(UnknownWord(word))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// State of a slot.
    SlotStatus {
        /// Schedulable.
        Available = "available",
        /// Claimed, host untouched.
        Reserved = "reserved",
        /// Host works on it.
        Provisioning = "provisioning",
        /// In use.
        Active = "active",
        /// Being taken down.
        Releasing = "releasing",
        /// Being wiped.
        Cleanup = "cleanup",
        /// May hold allocation data; only a repair ends this (CON-25).
        CleanupBlocked = "cleanup_blocked",
        /// Unschedulable by the operator's intent or until revalidated.
        Disabled = "disabled",
        /// Gone for good.
        Retired = "retired",
    }
}
words! {
    /// Class of a slot; a SKU offers one class only.
    SlotClass {
        /// An H200 SXM GPU with its disk and fabric function.
        H200Sxm = "h200_sxm",
        /// Emulated, no GPU.
        Lab = "lab",
    }
}

/// Health of a slot, ordered from best to worst (A-91, INC-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Fit.
    Healthy,
    Unknown,
    /// Works, not as it should.
    Degraded,
    /// Does not work, or was not proven clean.
    Failed,
}

/// A request for placement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// GPUs, all on one node (B-17).
    pub gpu_count: GpuCount,
    /// Class that the SKU offers.
    pub slot_class: SlotClass,
    /// Free hugepages of 1 GiB the VM needs; 0: the profile needs none (B-11).
    pub hugepages_1g: u32,
    /// The image it boots: a node that has it is better. None: no image is named.
    pub image: Option<ImageKey>,
    /// Only nodes that have the image (CON-10).
    pub prewarmed: bool,
}

impl Request {
    /// A node with these images is one on which it can start without a pull.
    pub(crate) fn finds_its_image(&self, images: &[ImageKey]) -> bool {
        self.image.is_some_and(|image| images.contains(&image))
    }
}

/// A slot as input of the decision.
#[derive(Debug, Clone)]
pub struct CandidateSlot {
    pub id: Uuid,
    /// Index on the node.
    pub index: i32,
    pub class: SlotClass,
    pub status: SlotStatus,
    pub health: Health,
    /// A live claim is on it.
    pub held: bool,
    /// All bindings its class needs are there (B-44, INC-40).
    pub complete: bool,
    /// Module id of its GPU.
    pub module_id: Option<u32>,
    /// NUMA node of its GPU.
    pub numa_node: Option<i32>,
    /// Parent fabric device; empty: none.
    pub fabric_device: String,
    /// It has a data-plane function of its own.
    pub own_fabric_vf: bool,
    /// Only one project may have it.
    pub reserved: Option<ReservedFor>,
}

/// Whom a slot is reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservedFor {
    pub project_id: Uuid,
    /// Free hugepages of 1 GiB that a VM needs for this GPU.
    pub hugepages_1g: u32,
}

/// A node as input of the decision.
#[derive(Debug, Clone)]
pub struct CandidateNode {
    pub id: Uuid,
    /// Neither cordoned nor draining.
    pub enabled: bool,
    /// The host is ready.
    pub schedulable: bool,
    /// Hugepages of 1 GiB that it reported free and that no VM which holds slots is still to take.
    pub hugepages_1g_free: u32,
    /// 0: no limit.
    pub max_vms: u32,
    /// VMs that hold slots now.
    pub live_vms: u32,
    /// It is held as bare metal.
    pub exclusively_held: bool,
    /// Images that are verified in its cache.
    pub images: Vec<ImageKey>,
    /// Sets of module ids that may be allocated together; empty: only one and all.
    pub legal_groups: Vec<Vec<u32>>,
    /// Changes whenever anything of this does; opaque.
    pub version: Arc<str>,
    /// All its slots but retired ones.
    pub slots: Vec<CandidateSlot>,
}

/// The packing strategy of a site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackingStrategy {
    /// Fill a node before the next one is opened, so that clean nodes stay free for bare metal (B-36, B-47).
    #[default]
    MostAllocated,
    /// Prefer the emptiest node: the loss of one host hurts fewer allocations, and fewer nodes stay free for bare metal.
    LeastAllocated,
}

/// What narrows and orders the nodes besides the request itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The site's packing strategy.
    pub packing_strategy: PackingStrategy,
    /// The requesting project: slots reserved for it are available, too, and come first. None: a project without reserved
    /// slots.
    pub project: Option<Uuid>,
    /// Only one of these nodes.
    pub only: Option<BTreeSet<Uuid>>,
    /// Of their slots only these, which are reserved for the project.
    pub only_slots: Option<BTreeSet<Uuid>>,
    /// None of these nodes.
    pub avoid: BTreeSet<Uuid>,
    /// Excluded as well: what is free there is for queued requests.
    pub queued_ahead: BTreeSet<Uuid>,
}

impl Rules {
    /// The rules name this very node: the verdict of its equivalence class is not its own.
    pub(crate) fn name(&self, node_id: Uuid) -> bool {
        !self.allow(node_id) || self.queued_ahead.contains(&node_id) || self.only_slots.is_some()
    }

    pub(crate) fn allow_slot(&self, slot_id: Uuid) -> bool {
        let among = |only: &BTreeSet<Uuid>| only.contains(&slot_id);
        self.only_slots.as_ref().is_none_or(among)
    }

    pub(crate) fn allow(&self, node_id: Uuid) -> bool {
        let among = |only: &BTreeSet<Uuid>| only.contains(&node_id);
        self.only.as_ref().is_none_or(among) && !self.avoid.contains(&node_id)
    }
}

/// How good a choice is; less is better, and under [`PackingStrategy::MostAllocated`] the order of the fields is the policy. Under
/// [`PackingStrategy::LeastAllocated`] ignores whether a node is clean, and prefers more slots left over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// NUMA nodes the GPUs are spread over.
    pub numa_nodes: usize,
    /// A node without slices stays free for bare metal (B-47).
    pub clean_node: bool,
    /// Legal groups that were available before and are not after, each weighing its GPUs.
    pub broken_groups: u32,
    /// Free slots left on the node: fill one before opening the next (B-36).
    pub left_over: u32,
    /// The image must be pulled first.
    pub image_missing: bool,
    /// The same input always gives the same answer (B-37).
    pub node_id: Uuid,
    /// Lowest slots first.
    pub indexes: Vec<i32>,
}

impl Score {
    /// Its parts with their names, in the order in which they count for [`PackingStrategy::MostAllocated`].
    #[must_use]
    pub fn parts(&self) -> [(&'static str, i64); 5] {
        [
            (
                "numa_nodes",
                i64::try_from(self.numa_nodes).unwrap_or(i64::MAX),
            ),
            ("clean_node", i64::from(self.clean_node)),
            ("broken_groups", i64::from(self.broken_groups)),
            ("left_over", i64::from(self.left_over)),
            ("image_missing", i64::from(self.image_missing)),
        ]
    }
}

/// One way to place the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    pub node_id: Uuid,
    /// Slots by index.
    pub slot_ids: Vec<Uuid>,
    /// Those of them that hold their fabric device alone.
    pub alone: Vec<Uuid>,
    /// All of them are reserved for the project.
    pub own: bool,
    /// How good it is.
    pub score: Score,
}

/// Choices, best first, at most one per node; and when there is none, why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    /// Best first.
    pub choices: Vec<Choice>,
    /// Unschedulable reasons; given for nodes without a choice.
    pub reasons: Vec<UnschedulableReason>,
}
