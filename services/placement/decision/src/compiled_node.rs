//! One node, compiled: its capacity and the cost of taking it, as bit operations.
mod baremetal;
mod change;
mod filter;
mod layout;

use crate::Cause;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use uuid::Uuid;

use self::filter::filter_slot;
use self::layout::Layout;

use super::reserved::{Builder, Reserved};
use super::unschedulable::NodeReasons;
use super::{
    CandidateNode, CandidateSlot, Choice, ImageKey, PackingStrategy, Request, Rules, Score,
};
use crate::model::SlotClass;

/// Part of a rank: what is taken is not reserved for the project.
pub(super) const NOT_OWN: u32 = 1 << 30;

/// Part of a rank: the image is to be pulled first.
pub(super) const LACKS_IMAGE: u32 = 1;

/// Slots of one class and node that have a bit; slots of a node beyond them are not offered.
const BITS: usize = 64;

/// A node as the decision works on it. Slots of a class are bits, the lowest index first.
#[derive(Debug, Clone)]
pub(super) struct CompiledNode {
    pub(super) id: Uuid,
    pub(super) version: Arc<str>,
    slots: [Option<Names>; SlotClass::ALL.len()],
    state: Arc<State>,
}

/// Id and index of each bit's slot.
type Names = Arc<[(Uuid, i32)]>;

/// All of a node that decides: nodes with an equal state form an equivalence class, and share their verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    enabled: bool,
    schedulable: bool,
    exclusively_held: bool,
    clean: bool,
    images: Arc<[ImageKey]>,
    hugepages_1g_free: u32,
    max_vms: u32,
    live_vms: u32,
    /// Slots of several classes share a fabric device: what taking some of them does to the others is not compiled.
    tangled: bool,
    reserved: Reserved,
    views: [Option<ClassView>; SlotClass::ALL.len()],
}

/// The slots of one class on a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClassView {
    /// Free for everybody.
    usable: u64,
    /// Somebody has them.
    taken: u64,
    /// They would be schedulable if nothing were allocated on the node.
    sound: u64,
    /// The reasons that remove the others.
    reasons: Arc<NodeReasons>,
    layout: Arc<Layout>,
}

/// What nodes have in common, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared {
    states: HashSet<Arc<State>>,
    images: HashSet<Arc<[ImageKey]>>,
    layouts: HashSet<Arc<Layout>>,
    reasons: HashSet<Arc<NodeReasons>>,
}

/// Slots that may be allocated together, and what that costs: less is better.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pick {
    pub(super) slots: u64,
    /// All of them are reserved for the project.
    own: bool,
    numa_nodes: u32,
    broken_groups: u32,
    left_over: u32,
}

/// What taking slots of a node costs, whoever takes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Beyond the first.
    numa_nodes: u16,
    /// Nobody has anything of the node.
    clean: bool,
    broken_groups: u16,
    left_over: u16,
}

impl Cost {
    /// Its part of a rank, under a policy.
    pub(super) fn rank(self, packing_strategy: PackingStrategy) -> u32 {
        let (clean, left_over) = match packing_strategy {
            PackingStrategy::MostAllocated => (self.clean, self.left_over),
            PackingStrategy::LeastAllocated => (false, 63 - self.left_over),
        };
        u32::from(self.numa_nodes) << 24
            | u32::from(clean) << 23
            | u32::from(self.broken_groups) << 7
            | u32::from(left_over) << 1
    }
}

impl Deref for CompiledNode {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for CompiledNode {
    fn deref_mut(&mut self) -> &mut State {
        Arc::make_mut(&mut self.state)
    }
}

fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        (mask != 0).then(|| {
            mask &= mask - 1;
            bit
        })
    })
}

/// The cached one of equal values, or this one from now on.
fn known<T: ?Sized + Eq + Hash>(all: &mut HashSet<Arc<T>>, value: Arc<T>) -> Arc<T> {
    if let Some(known) = all.get(&*value) {
        return Arc::clone(known);
    }
    // before the set grows, what no node has any more goes
    if all.len() == all.capacity() {
        all.retain(|one| Arc::strong_count(one) > 1);
    }
    all.insert(Arc::clone(&value));
    value
}

impl CompiledNode {
    pub(super) fn of(node: &CandidateNode, shared: &mut Shared) -> Self {
        let mut views = [const { None }; SlotClass::ALL.len()];
        let mut named = [const { None }; SlotClass::ALL.len()];
        let mut reserved = Builder::default();
        for class in SlotClass::ALL {
            let mut slots: Vec<&CandidateSlot> = node
                .slots
                .iter()
                .filter(|slot| slot.class == *class)
                .collect();
            slots.sort_by_key(|slot| slot.index);
            slots.truncate(BITS);
            if !slots.is_empty() {
                views[*class as usize] = Some(ClassView::of(node, &slots, shared, &mut reserved));
                let names = slots.iter().map(|slot| (slot.id, slot.index));
                named[*class as usize] = Some(names.collect());
            }
        }
        let state = State {
            enabled: node.enabled,
            schedulable: node.schedulable,
            exclusively_held: node.exclusively_held,
            clean: !node
                .slots
                .iter()
                .any(|slot| slot.held || slot.reserved.is_some()),
            images: known(&mut shared.images, node.images.as_slice().into()),
            hugepages_1g_free: node.hugepages_1g_free,
            max_vms: node.max_vms,
            live_vms: node.live_vms,
            tangled: change::tangled(node),
            reserved: reserved.build(),
            views,
        };
        Self {
            id: node.id,
            version: Arc::clone(&node.version),
            slots: named,
            state: known(&mut shared.states, Arc::new(state)),
        }
    }

    /// What it has in common with the nodes of its equivalence class.
    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Per class and available count, the cost of taking it; nothing while the node is unschedulable.
    pub(super) fn capacity(&self) -> impl Iterator<Item = ((SlotClass, u32), Cost)> {
        let full = self.max_vms > 0 && self.live_vms >= self.max_vms;
        let open = self.enabled && self.schedulable && !self.exclusively_held && !full;
        let views = SlotClass::ALL.iter().filter_map(move |class| {
            let view = self.views[*class as usize].as_ref();
            Some((*class, view.filter(|view| open && view.usable != 0)?))
        });
        views.flat_map(move |(class, view)| {
            view.layout.sizes().into_iter().filter_map(move |size| {
                let pick = view.layout.best(view.usable, size)?;
                Some(((class, size), self.cost(&pick)))
            })
        })
    }

    /// The projects for which it has free slots of a class, and how many.
    pub(super) fn reserved_capacity(&self) -> impl Iterator<Item = (Uuid, SlotClass, u32)> {
        self.reserved.capacity()
    }

    fn view(&self, request: &Request) -> Option<&ClassView> {
        self.views[request.slot_class as usize].as_ref()
    }

    /// The best slots of the node; none: [`CompiledNode::reasons`] explains why.
    pub(super) fn best(&self, rules: &Rules, request: &Request) -> Option<Pick> {
        let view = self.view(request)?;
        let count = request.gpu_count.get();
        let own = self.own(rules, request.slot_class);
        if own != 0
            && self.filter_own(rules, request).is_none()
            && let Some(pick) = view.layout.best(own, count)
        {
            return Some(Pick { own: true, ..pick });
        }
        if self.filter(rules, request).is_some() {
            return None;
        }
        view.layout.best(view.open(rules) | own, count)
    }

    /// The bits of the slots of a class that are reserved for the project of some rules, and that they allow.
    fn own(&self, rules: &Rules, class: SlotClass) -> u64 {
        let own = self.reserved.own(rules.project, class);
        if own == 0 || rules.only_slots.is_none() {
            return own;
        }
        let slots = self.slots[class as usize].as_deref().unwrap_or_default();
        let allowed = slots.iter().enumerate();
        let allowed = allowed.filter(|(_, (id, _))| rules.allow_slot(*id));
        allowed.fold(0, |mask, (bit, _)| mask | 1 << bit) & own
    }

    /// The reasons that remove the GPUs of a node without a choice.
    pub(super) fn reasons(&self, rules: &Rules, request: &Request) -> Cow<'_, NodeReasons> {
        let Some(view) = self.view(request) else {
            return Cow::Owned(NodeReasons::default());
        };
        if rules.only_slots.is_some() && !rules.allow(self.id) {
            // nothing of it was asked for
            return Cow::Owned(NodeReasons::default());
        }
        let class = request.slot_class;
        let own = self.own(rules, class);
        let open = view.open(rules);
        let others = self.reserved.slots_of_others(rules.project, class);
        if open | own == 0 && others == 0 {
            // most nodes without a choice are simply full
            return Cow::Borrowed(&view.reasons);
        }
        let mut reasons = (*view.reasons).clone();
        let cause = self.filter(rules, request);
        // what is open is chosen from together with what is its own, unless that alone is for it
        let from = cause.map_or(open | own, |_| own);
        let otherwise = || match view
            .layout
            .needs_one_device_twice(from, request.gpu_count.get())
        {
            true => Cause::FabricHeld,
            false => Cause::Fragmented,
        };
        reasons.note(cause.unwrap_or_else(otherwise), open.count_ones());
        let cause = self.filter_own(rules, request);
        reasons.note(cause.unwrap_or_else(otherwise), own.count_ones());
        reasons.note(Cause::CapacityReserved, others);
        Cow::Owned(reasons)
    }

    /// How many such requests fit on the node, one after the other: what is reserved for the project first.
    pub(super) fn count_fits(&self, rules: &Rules, request: &Request) -> u32 {
        let Some(view) = self.view(request) else {
            return 0;
        };
        if self.filter(rules, request).is_some() {
            return 0;
        }
        let (kept_vms, kept_hugepages) = self.reserved.needs_of_others(rules.project);
        let vms = match self.max_vms {
            0 => u32::MAX,
            most => most - self.live_vms - kept_vms,
        };
        let hugepages = self.hugepages_1g_free.saturating_sub(kept_hugepages);
        let hugepages = hugepages.checked_div(request.hugepages_1g);
        let most = vms.min(hugepages.unwrap_or(u32::MAX));
        let own = self.own(rules, request.slot_class);
        let mut usable = view.open(rules) | own;
        let mut fits = 0;
        while fits < most
            && let Some(pick) = view
                .layout
                .best(usable & own, request.gpu_count.get())
                .or_else(|| view.layout.best(usable, request.gpu_count.get()))
        {
            fits += 1;
            usable &= !(pick.slots | view.layout.conflicting_with(pick.slots));
        }
        fits
    }

    /// The order among nodes, but for their ids: less is better, and it has 31 bits. What is reserved for the project
    /// comes before all else.
    pub(super) fn rank(
        &self,
        packing_strategy: PackingStrategy,
        request: &Request,
        pick: &Pick,
    ) -> u32 {
        (u32::from(!pick.own) * NOT_OWN)
            | self.cost(pick).rank(packing_strategy)
            | (u32::from(self.lacks_image_of(request)) * LACKS_IMAGE)
    }

    fn cost(&self, pick: &Pick) -> Cost {
        let few = |number: u32, most: u32| u16::try_from(number.min(most)).unwrap_or(u16::MAX);
        Cost {
            numa_nodes: few(pick.numa_nodes - 1, 63),
            clean: self.clean,
            broken_groups: few(pick.broken_groups, 0xffff),
            left_over: few(pick.left_over, 63),
        }
    }

    /// The image that the request names is to be pulled first.
    fn lacks_image_of(&self, request: &Request) -> bool {
        request.image.is_some() && !request.finds_its_image(&self.images)
    }

    /// A pick with everything about it.
    pub(super) fn choice(&self, request: &Request, pick: &Pick) -> Choice {
        let named = |mask: u64| {
            let slots = self.slots[request.slot_class as usize].as_deref();
            let slots = slots.unwrap_or_default();
            bits(mask).filter_map(move |bit| slots.get(bit as usize).copied())
        };
        let alone = self.view(request).map_or(0, |view| view.layout.alone());
        let (slot_ids, indexes) = named(pick.slots).unzip();
        let score = Score {
            numa_nodes: pick.numa_nodes as usize,
            clean_node: self.clean,
            broken_groups: pick.broken_groups,
            left_over: pick.left_over,
            image_missing: self.lacks_image_of(request),
            node_id: self.id,
            indexes,
        };
        Choice {
            node_id: self.id,
            slot_ids,
            alone: named(pick.slots & alone).map(|(id, _)| id).collect(),
            own: pick.own,
            score,
        }
    }
}

impl ClassView {
    fn of(
        node: &CandidateNode,
        slots: &[&CandidateSlot],
        shared: &mut Shared,
        reserved: &mut Builder,
    ) -> Self {
        let (mut usable, mut taken, mut sound) = (0, 0, 0);
        let mut reasons = NodeReasons::default();
        for (bit, slot) in slots.iter().enumerate() {
            taken |= u64::from(change::is_taken(slot)) << bit;
            sound |= u64::from(change::is_sound(slot)) << bit;
            match filter_slot(slot, node) {
                Some(Some(reason)) => reasons.note(reason, 1),
                // unschedulable by intent: nothing to explain to a user
                Some(None) => {}
                None if reserved.take(node, slot, bit) => {}
                None => usable |= 1 << bit,
            }
        }
        Self {
            usable,
            taken,
            sound,
            reasons: known(&mut shared.reasons, Arc::new(reasons)),
            layout: known(&mut shared.layouts, Arc::new(Layout::of(node, slots))),
        }
    }

    /// The bits of the slots that are free for everybody, for whom the rules allow more than what is reserved.
    fn open(&self, rules: &Rules) -> u64 {
        match rules.only_slots {
            Some(_) => 0,
            None => self.usable,
        }
    }
}
