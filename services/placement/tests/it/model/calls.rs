//! What can be done to the ledger: a draw, aimed at something that is there.
use gpuaas_placement::model::{AllocationState, Priority, SlotStatus};
use gpuaas_placement::node_placement::Intent;
use gpuaas_placement::power::Action;
use uuid::Uuid;

use super::draw::{Beside, Draw, Item};
use super::view::{AllocationView, SlotView, View};

/// Workflows that bring something up, and those that end it.
const PROVISION: [&str; 2] = ["provision", "provision_node"];
const RELEASE: [&str; 2] = ["release", "release_node"];

/// Where an allocation is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Anywhere,
    /// On the node of this one.
    With(Uuid),
    /// On no node of these.
    Apart(Vec<Uuid>),
    /// On no node on which the project has something.
    ApartFromAll,
}

/// A request for one allocation or a batch of them.
#[derive(Debug, Clone)]
pub struct Ask {
    pub project: usize,
    pub items: Vec<Item>,
    pub place: Place,
    /// It may wait.
    pub wait: bool,
    /// The first has the name of this one.
    pub name_of: Option<Uuid>,
}

/// A draw aimed at what is there.
#[derive(Debug, Clone)]
pub enum Call {
    Ask(Ask),
    Again {
        of: Uuid,
        other_body: bool,
    },
    Serve,
    /// Time passes the deadline of a batch.
    Expire(Uuid),
    Priority {
        project: usize,
        class: Priority,
    },
    Start(Uuid),
    Activate {
        of: Uuid,
        finish: bool,
    },
    Fail {
        of: Uuid,
        dirty: bool,
    },
    Release(Uuid),
    Complete {
        of: Uuid,
        proven: bool,
    },
    Block(Uuid),
    Power {
        of: Uuid,
        action: Action,
    },
    PowerOutcome {
        of: Uuid,
        power: &'static str,
    },
    Stale(Uuid),
    Repair(Uuid),
    Repaired {
        slot: Uuid,
        destroyed: bool,
    },
    NotRepaired(Uuid),
    Intent {
        slot: Uuid,
        disabled: bool,
    },
    Approve {
        node: usize,
        upto: i32,
    },
    Reinstall(usize),
    Gate {
        node: usize,
        schedulable: bool,
        healthy: bool,
    },
    /// Inventory wants the node to be of this mode.
    Mode {
        node: usize,
        baremetal: bool,
    },
    Operator {
        node: usize,
        intent: Intent,
    },
    Quota {
        project: usize,
        max: i32,
    },
    /// Reserves capacity.
    Hold(Hold),
    /// Reconciles all reservations, until nothing is left to do.
    Reconcile,
    Cancel(Uuid),
    /// Time passes the end of a window.
    Over(Uuid),
    Sequence,
}

/// A capacity reservation that is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    pub key: u64,
    pub project: usize,
    pub gpus: u32,
    pub bare_metal: bool,
    pub gather: bool,
}

/// Most reservations at a time: beside them there must be something to launch on.
const MOST: usize = 3;

/// Chooses one of those that fit; none when there is none.
fn one_of<T: Copy>(fit: &[T], of: usize) -> Option<T> {
    (!fit.is_empty()).then(|| fit[of % fit.len()])
}

fn among(view: &View, of: usize, wanted: impl Fn(&AllocationView) -> bool) -> Option<Uuid> {
    let fit: Vec<Uuid> = view
        .allocations
        .iter()
        .filter(|(_, one)| wanted(one))
        .map(|(id, _)| *id)
        .collect();
    one_of(&fit, of)
}

/// Now and then something is asked of what has ended or is not ready for it.
fn any_or(view: &View, of: usize, wanted: impl Fn(&AllocationView) -> bool) -> Option<Uuid> {
    among(view, of / 8, |one| of.is_multiple_of(8) || wanted(one))
}

fn at_work(view: &View, kinds: &[&str], of: usize) -> Option<Uuid> {
    among(view, of, |one| {
        one.work
            .as_deref()
            .is_some_and(|kind| kinds.contains(&kind))
    })
}

fn slot(view: &View, of: usize, wanted: impl Fn(&SlotView) -> bool) -> Option<Uuid> {
    let fit: Vec<Uuid> = view
        .slots
        .iter()
        .filter(|(_, one)| wanted(one))
        .map(|(id, _)| *id)
        .collect();
    one_of(&fit, of)
}

fn reservation(view: &View, of: usize) -> Option<Uuid> {
    let all: Vec<Uuid> = view.reservations.keys().copied().collect();
    one_of(&all, of)
}

/// Aims a draw; none when there is nothing it could be about.
pub fn aim(draw: &Draw, view: &View) -> Option<Call> {
    Some(match draw.clone() {
        Draw::Ask {
            project,
            items,
            place,
            wait,
            name_taken,
        } => Call::Ask(Ask {
            project,
            place: aimed(place, items.len() > 1, view),
            wait,
            name_of: name_taken
                .then(|| among(view, items.len(), AllocationView::lives))
                .flatten(),
            items,
        }),
        Draw::Again { of, other_body } => Call::Again {
            of: among(view, of, |_| true)?,
            other_body,
        },
        Draw::Serve => Call::Serve,
        Draw::Expire(of) => {
            let batches: Vec<Uuid> = view.queue.iter().map(|batch| batch.id).collect();
            Call::Expire(one_of(&batches, of)?)
        }
        Draw::Priority { project, class } => Call::Priority {
            project,
            class: Priority::ALL[class],
        },
        Draw::Start(of) => Call::Start(at_work(view, &PROVISION, of)?),
        Draw::Activate { of, finish } => Call::Activate {
            of: at_work(view, &PROVISION, of)?,
            finish,
        },
        Draw::Fail { of, dirty } => Call::Fail {
            of: at_work(view, &PROVISION, of)?,
            dirty,
        },
        Draw::Release(of) => Call::Release(any_or(view, of, AllocationView::lives)?),
        Draw::Complete { of, proven } => Call::Complete {
            of: at_work(view, &RELEASE, of)?,
            proven,
        },
        Draw::Block(of) => Call::Block(at_work(view, &RELEASE, of)?),
        Draw::Power { of, action } => Call::Power {
            of: any_or(view, of, |one| one.state == AllocationState::Active)?,
            action: Action::ALL[action],
        },
        Draw::PowerOutcome { of, reached } => {
            let of = at_work(view, &["stop", "start", "reboot"], of)?;
            let power = match (view.allocations[&of].work.as_deref(), reached) {
                (Some("stop"), true) | (Some("start" | "reboot"), false) => "stopped",
                _ => "running",
            };
            Call::PowerOutcome { of, power }
        }
        Draw::Stale(of) => Call::Stale(among(view, of, |one| one.work.is_some())?),
        Draw::Repair(of) => Call::Repair(slot(view, of / 8, |one| {
            of.is_multiple_of(8) || one.status == SlotStatus::CleanupBlocked
        })?),
        Draw::Repaired {
            slot: of,
            destroyed,
        } => Call::Repaired {
            slot: slot(view, of, |one| one.repair)?,
            destroyed,
        },
        Draw::NotRepaired(of) => Call::NotRepaired(slot(view, of, |one| one.repair)?),
        Draw::Intent { slot: of, disabled } => Call::Intent {
            slot: slot(view, of, |_| true)?,
            disabled,
        },
        Draw::Approve { node, upto } => Call::Approve { node, upto },
        Draw::Reinstall(node) => Call::Reinstall(node),
        Draw::Gate {
            node,
            schedulable,
            healthy,
        } => Call::Gate {
            node,
            schedulable,
            healthy,
        },
        Draw::Mode { node, baremetal } => Call::Mode { node, baremetal },
        Draw::Operator { node, intent } => Call::Operator {
            node,
            intent: [Intent::Enabled, Intent::Cordoned, Intent::Draining][intent],
        },
        Draw::Quota { project, max } => Call::Quota { project, max },
        Draw::Hold {
            key,
            project,
            gpus,
            bare_metal,
            gather,
        } => {
            if view.reservations.len() >= MOST {
                return None;
            }
            Call::Hold(Hold {
                key,
                project,
                gpus,
                bare_metal,
                gather,
            })
        }
        Draw::Reconcile => Call::Reconcile,
        Draw::Cancel(of) => Call::Cancel(reservation(view, of)?),
        Draw::Over(of) => Call::Over(reservation(view, of)?),
        Draw::Sequence => Call::Sequence,
    })
}

/// Allocations of a batch are kept apart by label or not at all: which of them is to blame stays clear.
fn aimed(place: Beside, batch: bool, view: &View) -> Place {
    let placed = |of| any_or(view, of, |one| one.lives() && one.node.is_some());
    match place {
        Beside::ApartFromAll => Place::ApartFromAll,
        Beside::Of(of) if !batch => placed(of).map_or(Place::Anywhere, Place::With),
        Beside::Apart(of) if !batch => {
            let mut ids: Vec<Uuid> = [placed(of), placed(of / 3)].into_iter().flatten().collect();
            ids.dedup();
            Place::Apart(ids)
        }
        _ => Place::Anywhere,
    }
}
