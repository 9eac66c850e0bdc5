//! Operators' plans as pure functions. Each is carried out on a model, node by node and with the decision that places
//! launches, and must keep what it says.
use crate::world::gpu_count;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpuaas_placement::decision::{
    AntiAffinity, BaremetalCandidate, CandidateNode, DisplacedAllocation, Fleet, Move,
    PackingStrategy, PlacedAllocation, PlanInput, Request, Rules, count_fits, decide_by,
    defragment, evacuate, judge_baremetal, preserve,
};
use gpuaas_placement::model::{Health, SlotClass, SlotStatus};
use proptest::prelude::*;
use uuid::Uuid;

use crate::decision::{image, node, request};

/// Nodes and what is on them.
#[derive(Debug, Clone, Default)]
struct Model {
    nodes: Vec<CandidateNode>,
    allocations: Vec<PlacedAllocation>,
    kept: BTreeSet<Uuid>,
    packing_strategy: PackingStrategy,
    launched: u128,
}

impl Model {
    fn node(&mut self, id: Uuid) -> &mut CandidateNode {
        let found = self.nodes.iter_mut().find(|node| node.id == id);
        found.expect("a node of the model")
    }

    /// Puts a VM on slots that must be schedulable.
    fn take(&mut self, id: Uuid, slot_ids: &[Uuid], request: &Request) {
        let node = self.node(id);
        assert!(node.enabled && node.schedulable, "{node:?}");
        assert!(node.max_vms == 0 || node.live_vms < node.max_vms);
        assert!(node.hugepages_1g_free >= request.hugepages_1g);
        for slot in &mut node.slots {
            if slot_ids.contains(&slot.id) {
                assert!(!slot.held && slot.status == SlotStatus::Available);
                assert!(slot.complete && slot.health == Health::Healthy);
                (slot.held, slot.status) = (true, SlotStatus::Active);
            }
        }
        node.live_vms += 1;
        node.hugepages_1g_free -= request.hugepages_1g;
    }

    fn free(&mut self, allocation: &PlacedAllocation) {
        let node = self.node(allocation.node_id);
        for slot in &mut node.slots {
            if allocation.slot_ids.contains(&slot.id) {
                assert!(slot.held);
                (slot.held, slot.status) = (false, SlotStatus::Available);
            }
        }
        node.live_vms -= 1;
        node.hugepages_1g_free += allocation.hugepages_1g_back;
    }

    /// Launches something by the decision; false when it fits nowhere.
    fn launch(&mut self, request: &Request, movable: bool) -> bool {
        let choices = decide_by(&Rules::default(), request, &self.nodes).choices;
        let Some(choice) = choices.into_iter().next() else {
            return false;
        };
        self.take(choice.node_id, &choice.slot_ids, request);
        self.launched += 1;
        self.allocations.push(PlacedAllocation {
            id: Uuid::from_u128(1 << 90 | self.launched),
            node_id: choice.node_id,
            slot_ids: choice.slot_ids,
            request: request.clone(),
            hugepages_1g_back: request.hugepages_1g,
            movable,
            anti_affinity: AntiAffinity::default(),
        });
        true
    }

    /// Nodes of others that are in one of the sets.
    fn nodes_of(&self, sets: &[Arc<BTreeSet<Uuid>>], but: Uuid) -> BTreeSet<Uuid> {
        let in_one = |id: &Uuid| *id != but && sets.iter().any(|set| set.contains(id));
        let others = self
            .allocations
            .iter()
            .filter(|allocation| in_one(&allocation.id));
        others.map(|allocation| allocation.node_id).collect()
    }

    /// Makes groups of the allocations, whose members keep away from each other where they say so.
    fn keep_apart(&mut self, said: &[(usize, bool)]) {
        let said: HashMap<Uuid, (usize, bool)> = self
            .allocations
            .iter()
            .map(|one| one.id)
            .zip(said.iter().copied())
            .collect();
        for group in 0..3 {
            let of = |avoids: bool| -> Arc<BTreeSet<Uuid>> {
                let chosen = said
                    .iter()
                    .filter(|(_, (its, says))| *its == group && (*says || !avoids));
                Arc::new(chosen.map(|(id, _)| *id).collect())
            };
            let (members, avoiders) = (of(false), of(true));
            for allocation in &mut self.allocations {
                if members.contains(&allocation.id) {
                    allocation.anti_affinity.by.push(Arc::clone(&avoiders));
                }
                if avoiders.contains(&allocation.id) {
                    allocation.anti_affinity.from.push(Arc::clone(&members));
                }
            }
        }
    }

    /// Carries a move out, which must be what placement does when the closed nodes take nothing.
    fn carry_out(&mut self, one: &Move, closed: &BTreeSet<Uuid>) {
        let place = self
            .allocations
            .iter()
            .position(|allocation| allocation.id == one.id);
        let allocation = self.allocations[place.expect("a allocation")].clone();
        assert!(allocation.movable && allocation.node_id == one.from && closed.contains(&one.from));
        assert_eq!(allocation.slot_ids.len(), one.gpu_count.get() as usize);
        let mut avoid = self.nodes_of(&allocation.anti_affinity.from, allocation.id);
        avoid.extend(closed);
        let rules = Rules {
            packing_strategy: self.packing_strategy,
            avoid,
            queued_ahead: self.kept.clone(),
            ..Rules::default()
        };
        let met = self.nodes_of(&allocation.anti_affinity.by, allocation.id);
        assert!(
            !met.contains(&one.to.node_id),
            "beside one that keeps away from it"
        );
        let choices = decide_by(&rules, &allocation.request, &self.nodes).choices;
        assert_eq!(choices.first(), Some(&one.to), "as placement would");
        self.free(&allocation);
        self.take(one.to.node_id, &one.to.slot_ids, &allocation.request);
        let moved = &mut self.allocations[place.expect("a allocation")];
        (moved.node_id, moved.slot_ids) = (one.to.node_id, one.to.slot_ids.clone());
    }

    fn can_be_baremetal(&self, id: Uuid) -> bool {
        let node = self
            .nodes
            .iter()
            .find(|node| node.id == id)
            .expect("a node");
        let candidate = BaremetalCandidate {
            id,
            baremetal: false,
            enabled: node.enabled,
            schedulable: node.schedulable,
            held: node.slots.iter().any(|slot| slot.held),
            slots: node.slots.clone(),
        };
        let size = request(node.slots.len());
        let (judged, _) = judge_baremetal(&Rules::default(), &size, &[candidate]);
        let compiled: Vec<Uuid> = Fleet::of(&self.nodes)
            .baremetal(&Rules::default(), &size)
            .filter(|of| *of == id)
            .collect();
        assert_eq!(judged, compiled, "judged alike");
        !judged.is_empty()
    }
}

/// One node that may lack something.
fn some_node(id: u128) -> impl Strategy<Value = CandidateNode> {
    let flaw = prop::option::weighted(0.2, (0..8usize, 0..4u8));
    let most = prop_oneof![3 => Just(0u32), 1 => 1..5u32];
    let pages = prop_oneof![3 => Just(10_000u32), 1 => 0..120u32];
    let sides = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (flaw, most, pages, prop::bool::weighted(0.2), sides).prop_map(
        move |(flaw, max_vms, hugepages_1g_free, plain, (shared, own, has_image, numa))| {
            let mut one = CandidateNode {
                max_vms,
                hugepages_1g_free,
                images: Vec::from_iter(has_image.then(|| image("aa"))),
                ..node(id, 8)
            };
            if plain {
                one.legal_groups.clear();
            }
            for slot in &mut one.slots {
                if shared {
                    // pairs share a device; some of them alone
                    slot.fabric_device = format!("0000:{:02x}:00.0", slot.index / 2);
                    slot.own_fabric_vf = own || slot.index < 4;
                }
                if numa {
                    slot.numa_node = Some(0);
                }
            }
            match flaw {
                Some((index, 0)) => one.slots[index].health = Health::Degraded,
                Some((index, 1)) => one.slots[index].status = SlotStatus::Disabled,
                Some((index, 2)) => one.slots[index].status = SlotStatus::CleanupBlocked,
                Some((index, _)) => one.slots[index].complete = false,
                None => {}
            }
            one
        },
    )
}

/// What happens to a fleet: a launch, or the end of one of those that are there.
fn history() -> impl Strategy<Value = Vec<(usize, bool, Option<usize>)>> {
    let size = prop::sample::select(vec![1usize, 1, 1, 2, 2, 4, 8]);
    let event = (
        size,
        prop::bool::weighted(0.9),
        prop::option::weighted(0.4, any::<usize>()),
    );
    prop::collection::vec(event, 0..40)
}

/// A fleet that was worked with: filled by the decision, with holes, and some nodes cordoned, not ready or kept since.
fn worked_with() -> impl Strategy<Value = Model> {
    let nodes: Vec<_> = (1..=6).map(some_node).collect();
    let since = prop::collection::vec(prop::option::weighted(0.25, 0..3u8), 6);
    let packing_strategy = prop::sample::select(vec![
        PackingStrategy::MostAllocated,
        PackingStrategy::MostAllocated,
        PackingStrategy::LeastAllocated,
    ]);
    // half of them are in one of three groups
    let said = prop::collection::vec((0..6usize, any::<bool>()), 40);
    let parts = (nodes, history(), since, packing_strategy, said);
    parts.prop_map(|(nodes, history, since, packing_strategy, said)| {
        let mut model = Model {
            nodes,
            packing_strategy,
            ..Model::default()
        };
        for (gpu_count, movable, ends) in history {
            let requested = Request {
                hugepages_1g: 10 * u32::try_from(gpu_count).expect("small"),
                ..request(gpu_count)
            };
            model.launch(&requested, movable);
            if let Some(which) = ends.filter(|_| !model.allocations.is_empty()) {
                let ended = model.allocations.remove(which % model.allocations.len());
                model.free(&ended);
            }
        }
        model.keep_apart(&said);
        for (place, what) in since.into_iter().enumerate() {
            let id = model.nodes[place].id;
            match what {
                Some(0) => model.nodes[place].enabled = false,
                Some(1) => model.nodes[place].schedulable = false,
                Some(_) => drop(model.kept.insert(id)),
                None => {}
            }
        }
        model
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn b_49_a_defragmentation_breaks_no_rule_and_keeps_what_it_says(
        mut model in worked_with(), gpu_count in prop::sample::select(vec![1usize, 2, 4, 8]), most in 0..6usize,
    ) {
        let requested = Request { hugepages_1g: 10 * u32::try_from(gpu_count).expect("small"), ..request(gpu_count) };
        let fleet = Fleet::of(&model.nodes);
        let kept = model.kept.clone();
        let input = PlanInput { fleet: &fleet, packing_strategy: model.packing_strategy, backfill_reserved: &kept };
        let found = defragment(&input, &requested, &model.allocations, most);
        prop_assert_eq!(&found, &defragment(&input, &requested, &model.allocations, most));
        prop_assert_eq!(found.before, count_fits(&requested, &model.nodes));
        prop_assert!(found.steps.iter().map(|step| step.moves.len()).sum::<usize>() <= most);
        let mut closed = BTreeSet::new();
        let mut fits = found.before;
        for step in &found.steps {
            closed.insert(step.node_id);
            for one in &step.moves {
                prop_assert_eq!(one.from, step.node_id);
                model.carry_out(one, &closed);
            }
            prop_assert!(step.gained > 0);
            fits += step.gained;
            prop_assert_eq!(count_fits(&requested, &model.nodes), fits);
        }
        prop_assert_eq!(found.after, fits);
    }

    #[test]
    fn b_47_a_node_that_would_be_empty_again_is(mut model in worked_with()) {
        let fleet = Fleet::of(&model.nodes);
        let kept = model.kept.clone();
        let input = PlanInput { fleet: &fleet, packing_strategy: model.packing_strategy, backfill_reserved: &kept };
        let report = preserve(&input, &model.allocations).remove(&SlotClass::H200Sxm).expect("one class");
        prop_assert_eq!(report.nodes, 6);
        prop_assert_eq!(report.nodes, report.baremetal_free + report.clean + report.sliced + report.baremetal_allocated);
        let free = model.nodes.iter().filter(|node| model.can_be_baremetal(node.id)).count();
        prop_assert_eq!(report.baremetal_free as usize, free);
        let sliced = model.nodes.iter().filter(|node| node.slots.iter().any(|slot| slot.held)).count();
        prop_assert_eq!(report.sliced as usize, sliced);
        let mut closed = BTreeSet::new();
        for one in &report.drained {
            closed.insert(one.node_id);
            for moved in &one.moves {
                prop_assert!(!moved.to.score.clean_node, "a bare-metal node is not given for another");
                model.carry_out(moved, &closed);
            }
            prop_assert!(model.can_be_baremetal(one.node_id));
        }
        let now = model.nodes.iter().filter(|node| model.can_be_baremetal(node.id)).count();
        prop_assert_eq!(now, free + report.drained.len());
    }

    #[test]
    fn b_49_an_evacuation_is_what_placement_would_do(mut model in worked_with(), leaves in 1..3usize) {
        let leaving: BTreeSet<Uuid> = model.nodes.drain(..leaves).map(|node| node.id).collect();
        let fleet = Fleet::of(&model.nodes);
        let kept = BTreeSet::new();
        let input = PlanInput { fleet: &fleet, packing_strategy: model.packing_strategy, backfill_reserved: &kept };
        let kept_of = Arc::new(model.kept.clone());
        let displaced: Vec<DisplacedAllocation> = model.allocations.iter()
            .filter(|allocation| leaving.contains(&allocation.node_id))
            .map(|allocation| DisplacedAllocation {
                id: allocation.id, request: allocation.request.clone(), affinity: Vec::new(), anti_affinity: Vec::new(),
                queued_ahead: Arc::clone(&kept_of),
            })
            .collect();
        let placed = evacuate(&input, &displaced, &HashMap::new());
        prop_assert_eq!(placed.len(), displaced.len());
        let mut largest = gpu_count(u32::MAX);
        for (id, outcome) in placed {
            let requested = &displaced.iter().find(|one| one.id == id).expect("one of them").request;
            prop_assert!(requested.gpu_count <= largest);
            largest = requested.gpu_count;
            let rules = Rules { packing_strategy: model.packing_strategy, queued_ahead: model.kept.clone(), ..Rules::default() };
            let ranking = Fleet::of(&model.nodes).rank(&rules, requested);
            match outcome {
                Ok(choice) => {
                    let first = decide_by(&rules, requested, &model.nodes).choices.into_iter().next();
                    prop_assert_eq!(first.as_ref(), Some(&choice));
                    model.take(choice.node_id, &choice.slot_ids, requested);
                }
                Err(causes) => {
                    prop_assert_eq!(ranking.fits(), 0);
                    prop_assert_eq!(causes, ranking.removed());
                }
            }
        }
    }
}
