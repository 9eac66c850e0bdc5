//! What is drawn at random for a step; numbers choose among what is there when its turn comes.
use proptest::prelude::*;

use crate::wire::Cut;

/// A step of a run.
#[derive(Debug, Clone)]
pub struct Step {
    pub draw: Draw,
    /// Crash before or after so many statements.
    pub crash: Option<(u32, Cut)>,
}

/// One allocation that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// GPUs.
    pub count: u32,
    /// A bare-metal node.
    pub bare_metal: bool,
}

/// Where it is to be.
#[derive(Debug, Clone, Copy)]
pub enum Beside {
    Anywhere,
    /// On the node of some allocation.
    Of(usize),
    /// On no node of up to two allocations.
    Apart(usize),
    /// On no node on which the project has something.
    ApartFromAll,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub enum Draw {
    /// A request; several items are a batch.
    Ask {
        project: usize,
        items: Vec<Item>,
        place: Beside,
        wait: bool,
        name_taken: bool,
    },
    Again {
        of: usize,
        other_body: bool,
    },
    Serve,
    Expire(usize),
    Priority {
        project: usize,
        class: usize,
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
    PowerOutcome {
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
    Mode {
        node: usize,
        baremetal: bool,
    },
    Operator {
        node: usize,
        intent: usize,
    },
    Quota {
        project: usize,
        max: i32,
    },
    /// A capacity reservation.
    Hold {
        key: u64,
        project: usize,
        gpus: u32,
        bare_metal: bool,
        gather: bool,
    },
    Reconcile,
    Cancel(usize),
    /// Time passes the end of a reservation's window.
    Over(usize),
    Sequence,
}

/// Projects and nodes of a run.
pub const PROJECTS: usize = 3;
pub const NODES: usize = 3;

fn any_slice() -> impl Strategy<Value = Item> {
    prop::sample::select(vec![1u32, 1, 2, 2, 4, 8]).prop_map(|count| Item {
        count,
        bare_metal: false,
    })
}

/// One slice, one bare-metal node, or a batch.
fn any_items() -> impl Strategy<Value = Vec<Item>> {
    let bare_metal = Just(Item {
        count: 8,
        bare_metal: true,
    });
    let small = prop::sample::select(vec![1u32, 2, 2, 4]).prop_map(|count| Item {
        count,
        bare_metal: false,
    });
    prop_oneof![
        12 => any_slice().prop_map(|item| vec![item]),
        4 => bare_metal.prop_map(|item| vec![item]),
        4 => prop::collection::vec(small.clone(), 2..=3),
        1 => prop::collection::vec(bare_metal, 2),
        1 => (small, bare_metal).prop_map(|(slice, bare_metal)| vec![slice, bare_metal]),
    ]
}

fn any_ask() -> impl Strategy<Value = Draw> {
    let place = prop_oneof![
        12 => Just(Beside::Anywhere),
        2 => any::<usize>().prop_map(Beside::Of),
        2 => any::<usize>().prop_map(Beside::Apart),
        2 => Just(Beside::ApartFromAll),
    ];
    let (wait, taken) = (prop::bool::weighted(0.5), prop::bool::weighted(0.05));
    (0..PROJECTS, any_items(), place, wait, taken).prop_map(
        |(project, items, place, wait, name_taken)| Draw::Ask {
            project,
            items,
            place,
            wait,
            name_taken,
        },
    )
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let any = any::<usize>;
    let work = prop_oneof![
        24 => any().prop_map(Draw::Start),
        24 => (any(), prop::bool::ANY).prop_map(|(of, finish)| Draw::Activate { of, finish }),
        4 => (any(), prop::bool::ANY).prop_map(|(of, dirty)| Draw::Fail { of, dirty }),
        24 => any().prop_map(Draw::Release),
        24 => (any(), prop::bool::weighted(0.8)).prop_map(|(of, proven)| Draw::Complete { of, proven }),
        3 => any().prop_map(Draw::Block),
        6 => (any(), 0..3usize).prop_map(|(of, action)| Draw::Power { of, action }),
        8 => (any(), prop::bool::weighted(0.8)).prop_map(|(of, reached)| Draw::PowerOutcome { of, reached }),
        3 => any().prop_map(Draw::Stale),
        20 => any().prop_map(Draw::Repair),
        60 => (any(), prop::bool::weighted(0.005)).prop_map(|(slot, destroyed)| Draw::Repaired { slot, destroyed }),
        3 => any().prop_map(Draw::NotRepaired),
    ];
    let operator = prop_oneof![
        6 => (any(), prop::bool::weighted(0.25)).prop_map(|(slot, disabled)| Draw::Intent { slot, disabled }),
        14 => (0..NODES, prop::sample::select(vec![2i32, 5, 8, 8, 8]))
            .prop_map(|(node, upto)| Draw::Approve { node, upto }),
        1 => (0..NODES).prop_map(Draw::Reinstall),
        4 => (0..NODES, prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(node, schedulable, healthy)| Draw::Gate { node, schedulable, healthy }),
        4 => (0..NODES, prop::bool::weighted(0.3)).prop_map(|(node, baremetal)| Draw::Mode { node, baremetal }),
        5 => (0..NODES, prop::sample::select(vec![0usize, 0, 0, 1, 2]))
            .prop_map(|(node, intent)| Draw::Operator { node, intent }),
        4 => (0..PROJECTS, prop::sample::select(vec![0i32, 3, 8, 100, 100, 100]))
            .prop_map(|(project, max)| Draw::Quota { project, max }),
        2 => (0..PROJECTS, 0..3usize).prop_map(|(project, class)| Draw::Priority { project, class }),
        2 => any().prop_map(Draw::Expire),
        4 => Just(Draw::Sequence),
    ];
    let key = proptest::arbitrary::any::<u64>;
    let bare_metal =
        (key(), 0..PROJECTS, prop::bool::ANY).prop_map(|(key, project, gather)| Draw::Hold {
            key,
            project,
            gpus: 8,
            bare_metal: true,
            gather,
        });
    let slices = (key(), 0..PROJECTS, 1..7u32, prop::bool::ANY);
    let slices = slices.prop_map(|(key, project, gpus, gather)| Draw::Hold {
        key,
        project,
        gpus,
        bare_metal: false,
        gather,
    });
    let reserve = prop_oneof![
        5 => slices,
        1 => bare_metal,
        8 => Just(Draw::Reconcile),
        3 => any().prop_map(Draw::Cancel),
        2 => any().prop_map(Draw::Over),
    ];
    let draw = prop_oneof![
        18 => reserve,
        28 => any_ask(),
        4 => (any(), prop::bool::weighted(0.3)).prop_map(|(of, other_body)| Draw::Again { of, other_body }),
        14 => Just(Draw::Serve),
        165 => work,
        46 => operator,
    ];
    let cut = prop::sample::select(vec![Cut::Before, Cut::After, Cut::Terminated]);
    let crash = prop::option::weighted(0.3, (0..40u32, cut));
    (draw, crash).prop_map(|(draw, crash)| Step { draw, crash })
}
