//! What can be done to the ledger: drawn at random, then aimed at something that is there.
use gpuaas_placement::model::{AllocationState, SlotStatus};
use gpuaas_placement::power::Action;
use proptest::prelude::*;
use uuid::Uuid;

use super::view::View;
use crate::wire::Cut;

/// A step of a run, drawn at random. Numbers choose among what is there when its turn comes.
#[derive(Debug, Clone)]
pub struct Step {
    pub draw: Draw,
    /// Crash before or after so many statements.
    pub crash: Option<(u32, Cut)>,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub enum Draw {
    Create {
        project: usize,
        count: u32,
        name_taken: bool,
    },
    Again {
        of: usize,
        other_body: bool,
    },
    Start(usize),
    Activate {
        of: usize,
        finish: bool,
    },
    Fail {
        of: usize,
        dirty: bool,
    },
    Release(usize),
    Complete {
        of: usize,
        proven: bool,
    },
    Block(usize),
    Power {
        of: usize,
        action: usize,
    },
    Settle {
        of: usize,
        reached: bool,
    },
    Stale(usize),
    Repair(usize),
    Repaired {
        slot: usize,
        destroyed: bool,
    },
    NotRepaired(usize),
    Intent {
        slot: usize,
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
    Drain {
        node: usize,
        on: bool,
    },
    Quota {
        project: usize,
        max: i32,
    },
    Stamp,
}

/// A draw aimed at what is there.
#[derive(Debug, Clone)]
pub enum Call {
    Create {
        project: usize,
        count: u32,
        name_of: Option<Uuid>,
    },
    Again {
        of: Uuid,
        other_body: bool,
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
    Settle {
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
    Drain {
        node: usize,
        on: bool,
    },
    Quota {
        project: usize,
        max: i32,
    },
    Stamp,
}

/// Projects and nodes of a run.
pub const PROJECTS: usize = 3;
pub const NODES: usize = 2;

pub fn any_step() -> impl Strategy<Value = Step> {
    let any = any::<usize>;
    let count = prop::sample::select(vec![1u32, 2, 2, 4, 4, 8]);
    let draw = prop_oneof![
        20 => (0..PROJECTS, count, prop::bool::weighted(0.05))
            .prop_map(|(project, count, name_taken)| Draw::Create { project, count, name_taken }),
        4 => (any(), prop::bool::weighted(0.3)).prop_map(|(of, other_body)| Draw::Again { of, other_body }),
        24 => any().prop_map(Draw::Start),
        24 => (any(), prop::bool::ANY).prop_map(|(of, finish)| Draw::Activate { of, finish }),
        4 => (any(), prop::bool::ANY).prop_map(|(of, dirty)| Draw::Fail { of, dirty }),
        20 => any().prop_map(Draw::Release),
        24 => (any(), prop::bool::weighted(0.8)).prop_map(|(of, proven)| Draw::Complete { of, proven }),
        3 => any().prop_map(Draw::Block),
        8 => (any(), 0..3usize).prop_map(|(of, action)| Draw::Power { of, action }),
        10 => (any(), prop::bool::weighted(0.8)).prop_map(|(of, reached)| Draw::Settle { of, reached }),
        3 => any().prop_map(Draw::Stale),
        24 => any().prop_map(Draw::Repair),
        30 => (any(), prop::bool::weighted(0.005)).prop_map(|(slot, destroyed)| Draw::Repaired { slot, destroyed }),
        3 => any().prop_map(Draw::NotRepaired),
        6 => (any(), prop::bool::weighted(0.25)).prop_map(|(slot, disabled)| Draw::Intent { slot, disabled }),
        12 => (0..NODES, 1..=8i32).prop_map(|(node, upto)| Draw::Approve { node, upto }),
        1 => (0..NODES).prop_map(Draw::Reinstall),
        4 => (0..NODES, prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(node, schedulable, healthy)| Draw::Gate { node, schedulable, healthy }),
        4 => (0..NODES, prop::bool::weighted(0.2)).prop_map(|(node, on)| Draw::Drain { node, on }),
        3 => (0..PROJECTS, prop::sample::select(vec![0i32, 3, 8, 100, 100, 100]))
            .prop_map(|(project, max)| Draw::Quota { project, max }),
        4 => Just(Draw::Stamp),
    ];
    let cut = prop::sample::select(vec![Cut::Before, Cut::After, Cut::Terminated]);
    let crash = prop::option::weighted(0.3, (0..40u32, cut));
    (draw, crash).prop_map(|(draw, crash)| Step { draw, crash })
}

/// Aims a draw; none when there is nothing it could be about.
pub fn aim(draw: &Draw, view: &View) -> Option<Call> {
    let among = |wanted: &dyn Fn(&super::view::AllocationView) -> bool, of: usize| {
        let fit: Vec<Uuid> = view
            .allocations
            .iter()
            .filter(|(_, one)| wanted(one))
            .map(|(id, _)| *id)
            .collect();
        (!fit.is_empty()).then(|| fit[of % fit.len()])
    };
    let works = |kinds: &'static [&'static str], of: usize| {
        among(
            &|one| {
                one.work
                    .as_deref()
                    .is_some_and(|kind| kinds.contains(&kind))
            },
            of,
        )
    };
    // now and then something is asked of what has ended or is not ready for it
    let any_or = |wanted: &dyn Fn(&super::view::AllocationView) -> bool, of: usize| {
        if of.is_multiple_of(8) {
            among(&|_| true, of / 8)
        } else {
            among(wanted, of / 8)
        }
    };
    let slots = |wanted: &dyn Fn(&super::view::SlotView) -> bool, of: usize| {
        let fit: Vec<Uuid> = view
            .slots
            .iter()
            .filter(|(_, one)| of.is_multiple_of(8) || wanted(one))
            .map(|(id, _)| *id)
            .collect();
        (!fit.is_empty()).then(|| fit[of / 8 % fit.len()])
    };
    let repaired = |of: usize| {
        let fit: Vec<Uuid> = view
            .slots
            .iter()
            .filter(|(_, one)| one.repair)
            .map(|(id, _)| *id)
            .collect();
        (!fit.is_empty()).then(|| fit[of % fit.len()])
    };
    Some(match *draw {
        Draw::Create {
            project,
            count,
            name_taken,
        } => Call::Create {
            project,
            count,
            name_of: if name_taken {
                among(&|one| one.lives(), count as usize)
            } else {
                None
            },
        },
        Draw::Again { of, other_body } => Call::Again {
            of: among(&|_| true, of)?,
            other_body,
        },
        Draw::Start(of) => Call::Start(works(&["provision"], of)?),
        Draw::Activate { of, finish } => Call::Activate {
            of: works(&["provision"], of)?,
            finish,
        },
        Draw::Fail { of, dirty } => Call::Fail {
            of: works(&["provision"], of)?,
            dirty,
        },
        Draw::Release(of) => Call::Release(any_or(&|one| one.lives(), of)?),
        Draw::Complete { of, proven } => Call::Complete {
            of: works(&["release"], of)?,
            proven,
        },
        Draw::Block(of) => Call::Block(works(&["release"], of)?),
        Draw::Power { of, action } => Call::Power {
            of: any_or(&|one| one.state == AllocationState::Active, of)?,
            action: Action::ALL[action],
        },
        Draw::Settle { of, reached } => {
            let of = works(&["stop", "start", "reboot"], of)?;
            let power = match (view.allocations[&of].work.as_deref(), reached) {
                (Some("stop"), true) | (Some("start" | "reboot"), false) => "stopped",
                _ => "running",
            };
            Call::Settle { of, power }
        }
        Draw::Stale(of) => Call::Stale(among(&|one| one.work.is_some(), of)?),
        Draw::Repair(slot) => Call::Repair(slots(
            &|one| one.status == SlotStatus::CleanupBlocked,
            slot,
        )?),
        Draw::Repaired { slot, destroyed } => Call::Repaired {
            slot: repaired(slot)?,
            destroyed,
        },
        Draw::NotRepaired(slot) => Call::NotRepaired(repaired(slot)?),
        Draw::Intent { slot, disabled } => Call::Intent {
            slot: slots(&|_| true, slot)?,
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
        Draw::Drain { node, on } => Call::Drain { node, on },
        Draw::Quota { project, max } => Call::Quota { project, max },
        Draw::Stamp => Call::Stamp,
    })
}
