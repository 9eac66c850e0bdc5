//! What may come of a request, and whether what came of it is right.
//!
//! Which of several legal sets of slots is taken is the decision's business and not foretold. So a batch may have two
//! ends, placed or refused, when it depends on what its first allocation takes; a single request has one.
use std::collections::BTreeSet;

use gpuaas_placement::model::{AllocationState, ClaimState, SlotStatus};
use gpuaas_placement::reserve::MAX_QUEUED;
use uuid::Uuid;

use super::calls::{Ask, Place};
use super::draw::Item;
use super::fleet::Fleet;
use super::free_capacity::{Choice, FreeCapacity, Rule, Who, not_for};
use super::predict::No;
use super::view::{AllocationView, Batch, View};

/// What may come of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Placed,
    Waits { for_quota: bool },
    No(No),
}

/// GPUs of the slices of a request, or of its bare-metal nodes.
fn gpus(items: &[Item], bare_metal: bool) -> u32 {
    let of_kind = items.iter().filter(|item| item.bare_metal == bare_metal);
    of_kind.map(|item| item.count).sum()
}

/// What is to be placed, one after the other.
pub struct Desired<'a> {
    pub who: Who,
    pub project: usize,
    pub items: &'a [Item],
    pub place: &'a Place,
}

impl Desired<'_> {
    fn rule(&self, view: &View, fleet: &Fleet) -> Option<Rule> {
        let waits = matches!(self.who, Who::Batch(_));
        Rule::of(view, fleet, self.project, self.place, waits)
    }

    /// What the allocation at `at` could have, or why it gets nothing; `before` are the ones placed so far.
    fn choices(
        &self,
        at: usize,
        view: &View,
        fleet: &Fleet,
        capacity: &FreeCapacity,
    ) -> Result<Vec<Choice>, No> {
        let item = self.items[at];
        let held = |bare_metal: bool| gpus(&self.items[..at], bare_metal);
        let used = fleet.used(view, self.project, item.bare_metal) + held(item.bare_metal);
        if used + item.count > fleet.quota(self.project, item.bare_metal) {
            return Err(No::Quota);
        }
        let rule = self.rule(view, fleet).ok_or(No::Invalid)?;
        let more = [held(false), held(true)];
        let kept = not_for(self.who, view, fleet, capacity, (self.project, more));
        let mut fit = capacity.choices(item, &rule, Some(self.project));
        // no queue is before who draws on what is reserved
        let draws = |choice: Choice| capacity.is_own(choice, self.project);
        fit.retain(|choice| {
            !kept.contains(&capacity.0[choice.0].id) || !item.bare_metal && draws(*choice)
        });
        // what is reserved for the project comes first
        if fit.iter().any(|choice| draws(*choice)) {
            fit.retain(|choice| draws(*choice));
        }
        if fit.is_empty() {
            return Err(No::Capacity);
        }
        Ok(fit)
    }

    /// Everything that trying to place it may lead to.
    pub fn ends(&self, view: &View, fleet: &Fleet) -> BTreeSet<Result<(), No>> {
        let mut found = BTreeSet::new();
        self.go(0, view, fleet, &FreeCapacity::of(view, fleet), &mut found);
        found
    }

    fn go(
        &self,
        at: usize,
        view: &View,
        fleet: &Fleet,
        capacity: &FreeCapacity,
        found: &mut BTreeSet<Result<(), No>>,
    ) {
        let choices = match self.choices(at, view, fleet, capacity) {
            Err(no) => {
                found.insert(Err(no));
                return;
            }
            Ok(choices) => choices,
        };
        if at + 1 == self.items.len() {
            found.insert(Ok(()));
            return;
        }
        for choice in choices {
            // quota and rules do not depend on what was taken: there is nothing else to find
            if found.len() > 1 {
                return;
            }
            let mut left = capacity.clone();
            left.take(choice, self.items[at], self.project);
            self.go(at + 1, view, fleet, &left, found);
        }
    }

    /// The ledger as it is when these allocations got what they hold in `after`, or what of that they may not have.
    pub fn placed(
        &self,
        ids: &[Uuid],
        view: &View,
        fleet: &Fleet,
        after: &View,
    ) -> Result<View, String> {
        let mut now = view.clone();
        let mut capacity = FreeCapacity::of(view, fleet);
        for (at, (id, item)) in ids.iter().zip(self.items).enumerate() {
            let has = after.allocations.get(id).ok_or("no such allocation")?;
            let set = if item.bare_metal {
                u8::MAX
            } else {
                has.claims
                    .keys()
                    .fold(0, |set, slot| set | 1 << after.slots[slot].index)
            };
            let legal = self
                .choices(at, view, fleet, &capacity)
                .map_err(|no| format!("{id} is placed, but {no:?}"))?;
            let place = capacity.0.iter().position(|node| has.node == Some(node.id));
            let choice = (place.ok_or("it has no node")?, set);
            if !legal.contains(&choice) {
                return Err(format!(
                    "{id} has {choice:?}, but could have one of {legal:?}"
                ));
            }
            capacity.take(choice, *item, self.project);
            now = reserved(&now, *id, has, item.bare_metal);
        }
        Ok(now)
    }
}

/// A ledger in which an allocation got these claims.
fn reserved(before: &View, id: Uuid, has: &AllocationView, bare_metal: bool) -> View {
    let mut view = before.clone();
    for slot in has.claims.keys() {
        let slot = view.slot(*slot);
        slot.status = SlotStatus::Reserved;
        slot.generation += 1;
    }
    if bare_metal {
        view.node(has.node.expect("placed")).baremetal = true;
    }
    let allocation = AllocationView {
        state: AllocationState::Reserved,
        node: has.node,
        power: None,
        claims: has
            .claims
            .keys()
            .map(|slot| (*slot, ClaimState::Reserved))
            .collect(),
        bare_metal: bare_metal.then_some(ClaimState::Reserved),
        work: Some(
            if bare_metal {
                "provision_node"
            } else {
                "provision"
            }
            .to_owned(),
        ),
        periods: (0, 0),
    };
    view.allocations.insert(id, allocation);
    view
}

impl Ask {
    fn desired(&self) -> Desired<'_> {
        Desired {
            who: Who::New(self.project),
            project: self.project,
            items: &self.items,
            place: &self.place,
        }
    }

    fn name_is_taken(&self, view: &View, fleet: &Fleet) -> bool {
        // a name is of a project: only there it is taken
        self.name_of.is_some_and(|id| {
            let name = &fleet.launched[&id].name;
            let mut live = view.allocations.iter().filter(|(_, one)| one.lives());
            live.any(|(other, _)| {
                let launched = &fleet.launched[other];
                launched.project == self.project && launched.name == *name
            })
        })
    }

    /// Everything that may come of it.
    pub fn ends(&self, view: &View, fleet: &Fleet) -> BTreeSet<End> {
        let ends = self.desired().ends(view, fleet).into_iter();
        ends.map(|end| match end {
            // the name is looked at when the first of them is written
            _ if self.name_is_taken(view, fleet) && self.first_fits(view, fleet) => {
                End::No(No::Name)
            }
            Ok(()) => End::Placed,
            Err(no @ (No::Quota | No::Capacity)) if self.wait => self.joins(no, view, fleet),
            Err(no) => End::No(no),
        })
        .collect()
    }

    fn first_fits(&self, view: &View, fleet: &Fleet) -> bool {
        let capacity = FreeCapacity::of(view, fleet);
        self.desired().choices(0, view, fleet, &capacity).is_ok()
    }

    /// What comes of it when it was refused and may wait.
    fn joins(&self, refused: No, view: &View, fleet: &Fleet) -> End {
        let in_vain =
            |bare_metal| gpus(&self.items, bare_metal) > fleet.quota(self.project, bare_metal);
        if in_vain(false) || in_vain(true) {
            return End::No(No::Quota);
        }
        if Rule::of(view, fleet, self.project, &self.place, false).is_none() {
            return End::No(No::Invalid);
        }
        let project = fleet.projects[self.project];
        let of_project = view.queue.iter().filter(|batch| batch.project == project);
        let waiting: usize = of_project.map(|batch| batch.members.len()).sum();
        if waiting + self.items.len() > usize::try_from(MAX_QUEUED).expect("small") {
            return End::No(No::Quota);
        }
        if self.name_is_taken(view, fleet) {
            return End::No(No::Name);
        }
        End::Waits {
            for_quota: refused == No::Quota,
        }
    }

    /// The ledger after these were made, or why they may not have been; `after` tells which slots were taken.
    pub fn made(
        &self,
        ids: &[Uuid],
        view: &View,
        fleet: &Fleet,
        after: &View,
    ) -> Result<View, String> {
        let ends = self.ends(view, fleet);
        let waiting = ids
            .iter()
            .filter(|id| super::free_capacity::waits(after, **id))
            .count();
        if ids.len() != self.items.len() {
            return Err(format!("asked for {:?}, got {ids:?}", self.items));
        }
        if waiting == 0 {
            if !ends.contains(&End::Placed) {
                return Err(format!("placed, but foretold was {ends:?}"));
            }
            return self.desired().placed(ids, view, fleet, after);
        }
        let batch = after
            .queue
            .iter()
            .find(|batch| batch.members.contains(&ids[0]));
        let batch = batch.ok_or("it waits without a batch")?;
        let end = End::Waits {
            for_quota: batch.for_quota,
        };
        if waiting < ids.len() || !ends.contains(&end) {
            return Err(format!(
                "{waiting} wait, {end:?}, but foretold was {ends:?}"
            ));
        }
        Ok(self.waiting(ids, batch, view, fleet))
    }

    /// The ledger when it waits, with the id that its batch got.
    fn waiting(&self, ids: &[Uuid], has: &Batch, view: &View, fleet: &Fleet) -> View {
        let mut now = view.clone();
        let project = fleet.projects[self.project];
        if !view.queue.iter().any(|batch| batch.project == project) {
            to_the_end(&mut now.round_robin, project);
        }
        let mut members = ids.to_vec();
        members.sort_unstable();
        now.queue.push(Batch {
            id: has.id,
            project,
            members,
            for_quota: has.for_quota,
            overdue: false,
        });
        for id in ids {
            let allocation = AllocationView {
                state: AllocationState::Requested,
                node: None,
                power: None,
                claims: std::collections::BTreeMap::new(),
                bare_metal: None,
                work: None,
                periods: (0, 0),
            };
            now.allocations.insert(*id, allocation);
        }
        now
    }
}

/// Puts a project at the end of the round robin.
pub fn to_the_end(round_robin: &mut Vec<Uuid>, project: Uuid) {
    round_robin.retain(|one| *one != project);
    round_robin.push(project);
}
