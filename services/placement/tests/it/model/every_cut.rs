//! Each kind of call, cut at its statements. With `GPUAAS_LEDGER_EVERY_CUT=all` at each of them: at the first, at the
//! second, and so on until one is made that has no such statement any more, so that none is left out. Without, each kind is
//! cut at a share of them that is drawn with the seed, so that every run tries others.
use gpuaas_placement::model::{AllocationState, Priority, SlotStatus};
use gpuaas_placement::node_placement::Intent;
use gpuaas_placement::power::Action;
use uuid::Uuid;

use super::calls::{Ask, Call, Hold, Place};
use super::draw::Item;
use super::run::{Outcome, Run};
use super::{SEED, seed, text_of};
use crate::wire::Cut;

/// Cuts at every statement where it is `all`.
const EXTENT_SETTING: &str = "GPUAAS_LEDGER_EVERY_CUT";
/// Of so many statements one is cut, unless all are.
const SHARE: u8 = 16;

/// How the wire is cut, and how far apart. A statement that is never sent and one instead of which the backend is ended
/// leave the same as the one before it whose answer is lost, so not every one of them is tried.
const CUTS: [(Cut, u32); 3] = [(Cut::After, 1), (Cut::Terminated, 9), (Cut::Before, 11)];

/// How much is cut.
#[derive(Clone, Copy)]
enum Extent {
    All,
    Share([u8; 32]),
}

impl Extent {
    /// As it is set; a seed that repeats a share is printed.
    fn set() -> Self {
        if std::env::var(EXTENT_SETTING).is_ok_and(|extent| extent == "all") {
            return Self::All;
        }
        let seed = seed();
        println!("repeat these cuts with {SEED}={}", text_of(seed));
        Self::Share(seed)
    }

    /// How the wire is cut for a kind of call, at which statement first, and how far apart; none: once.
    fn cuts(self, kind: usize) -> Vec<(Cut, u32, Option<u32>)> {
        match self {
            Self::All => CUTS.map(|(cut, stride)| (cut, 0, Some(stride))).to_vec(),
            Self::Share(seed) => {
                let drawn = seed[kind % seed.len()];
                let rarely = [Cut::Terminated, Cut::Before][usize::from(drawn % 2)];
                let (first, rare) = (drawn % SHARE, drawn / SHARE);
                vec![
                    (Cut::After, first.into(), Some(SHARE.into())),
                    (rarely, rare.into(), None),
                ]
            }
        }
    }
}

/// A call that has fewer statements than this was not cut within anything.
const FEWEST: u32 = 3;

/// What is called, one after the other; the last one is cut.
type Calls = &'static [fn(&Run) -> Call];

fn ask(counts: &[u32], wait: bool) -> Call {
    let item = |count: &u32| Item {
        count: if *count == 0 { 8 } else { *count },
        bare_metal: *count == 0,
    };
    Call::Ask(Ask {
        project: 0,
        items: counts.iter().map(item).collect(),
        place: Place::Anywhere,
        wait,
        name_of: None,
    })
}

/// The whole of the only node with slots, as one slice.
fn board(_: &Run) -> Call {
    ask(&[8], false)
}

fn pair(_: &Run) -> Call {
    ask(&[2], false)
}

fn node(_: &Run) -> Call {
    ask(&[0], false)
}

fn waiter(_: &Run) -> Call {
    ask(&[2], true)
}

fn waiters(_: &Run) -> Call {
    ask(&[1, 2], true)
}

/// The allocation that was placed last.
fn placed(run: &Run) -> Uuid {
    let mut live = run
        .view
        .allocations
        .iter()
        .filter(|(_, one)| one.lives() && one.node.is_some());
    *live.next_back().expect("one is placed").0
}

fn a_slot(run: &Run) -> Uuid {
    *run.view.slots.keys().next().expect("slots")
}

fn waiting(run: &Run) -> Uuid {
    run.view.queue.last().expect("one waits").members[0]
}

fn start(run: &Run) -> Call {
    Call::Start(placed(run))
}

fn activate(run: &Run) -> Call {
    let of = placed(run);
    Call::Activate { of, finish: true }
}

fn fail(run: &Run, dirty: bool) -> Call {
    let of = placed(run);
    Call::Fail { of, dirty }
}

fn dirty(run: &Run) -> Call {
    fail(run, true)
}

fn release(run: &Run) -> Call {
    Call::Release(placed(run))
}

fn complete(run: &Run) -> Call {
    let of = placed(run);
    Call::Complete { of, proven: true }
}

fn stop(run: &Run) -> Call {
    Call::Power {
        of: placed(run),
        action: Action::Stop,
    }
}

fn blocked(run: &Run) -> Uuid {
    let mut slots = run.view.slots.iter();
    let found = slots.find(|(_, slot)| {
        matches!(
            slot.status,
            SlotStatus::CleanupBlocked | SlotStatus::Cleanup
        )
    });
    *found.expect("one is blocked").0
}

fn repair(run: &Run) -> Call {
    Call::Repair(blocked(run))
}

const REQUESTS: &[(&str, Calls)] = &[
    ("a slice", &[pair]),
    ("a bare-metal node", &[node]),
    ("a batch", &[|_| ask(&[1, 2, 4], false)]),
    (
        "a batch that is refused by half",
        &[|_| ask(&[4, 8], false)],
    ),
    (
        "again",
        &[pair, |run| Call::Again {
            of: placed(run),
            other_body: false,
        }],
    ),
];

const LINE: &[(&str, Calls)] = &[
    ("a request that joins the queue", &[board, waiter]),
    ("a batch that joins the queue", &[board, waiters]),
    ("a batch that could wait and need not", &[waiters]),
    (
        "giving up",
        &[board, waiters, |run| Call::Release(waiting(run))],
    ),
    (
        "a pass that serves a request and a batch, ends one and keeps a node for another",
        &[
            board,
            waiter,
            waiters,
            waiter,
            |run| Call::Expire(run.view.queue.last().expect("one waits").id),
            board_or_wait,
            release,
            |_| Call::Serve,
        ],
    ),
    (
        "a pass that serves a bare-metal node and keeps it from another and from a slice",
        &[board, node_or_wait, node_or_wait, waiter, release, |_| {
            Call::Serve
        }],
    ),
    (
        "a pass that keeps a node for a bare-metal one",
        &[pair, node_or_wait, |_| Call::Serve],
    ),
];

fn board_or_wait(_: &Run) -> Call {
    ask(&[8], true)
}

fn node_or_wait(_: &Run) -> Call {
    ask(&[0], true)
}

const WORK: &[(&str, Calls)] = &[
    ("the release of a reserved slice", &[pair, release]),
    (
        "the release of a reserved bare-metal node",
        &[node, release],
    ),
    (
        "the release of an active slice",
        &[pair, start, activate, release],
    ),
    ("the start of a slice", &[pair, start]),
    ("the start of a bare-metal node", &[node, start]),
    ("an activation", &[pair, start, activate]),
    (
        "a failure with nothing touched",
        &[pair, start, |run| fail(run, false)],
    ),
    ("a failure with residue", &[pair, start, dirty]),
    (
        "the end of a release",
        &[pair, start, activate, release, complete],
    ),
    (
        "the end of a bare-metal node's release",
        &[node, start, release, complete],
    ),
    (
        "a release without proof",
        &[pair, start, release, |run| Call::Block(placed(run))],
    ),
    ("a stop", &[pair, start, activate, stop]),
    (
        "the end of a stop",
        &[pair, start, activate, stop, |run| Call::PowerOutcome {
            of: placed(run),
            power: "stopped",
        }],
    ),
    ("a repair", &[pair, start, dirty, repair]),
    (
        "the end of a repair",
        &[pair, start, dirty, repair, |run| Call::Repaired {
            slot: blocked(run),
            destroyed: false,
        }],
    ),
    (
        "a repair in vain",
        &[pair, start, dirty, repair, |run| {
            Call::NotRepaired(blocked(run))
        }],
    ),
];

const RESERVATIONS: &[(&str, Calls)] = &[
    ("a capacity reservation", &[|run| hold(run, 7, false)]),
    ("a capacity reservation of a bare-metal node", &[hold_node]),
    (
        "a capacity reservation that gathers",
        &[pair, |run| hold(run, 8, true)],
    ),
    (
        "reconciling what lacks GPUs",
        &[
            board,
            |run| hold(run, 7, true),
            release,
            |_| Call::Reconcile,
        ],
    ),
    (
        "reconciling what does not fit any more",
        &[
            |run| hold(run, 2, true),
            |run| Call::Intent {
                slot: *run.view.held.keys().next().expect("held"),
                disabled: true,
            },
            |_| Call::Reconcile,
        ],
    ),
    (
        "the end of a window",
        &[
            |run| hold(run, 2, false),
            |run| Call::Over(reservation(run)),
            |_| Call::Reconcile,
        ],
    ),
    (
        "a cancellation",
        &[
            |run| hold(run, 2, false),
            |run| Call::Cancel(reservation(run)),
        ],
    ),
    (
        "a launch on what is reserved",
        &[|run| hold(run, 2, false), pair],
    ),
];

fn hold(run: &Run, gpus: u32, gather: bool) -> Call {
    Call::Hold(Hold {
        key: run.done.calls as u64,
        project: 0,
        gpus,
        bare_metal: false,
        gather,
    })
}

fn hold_node(run: &Run) -> Call {
    Call::Hold(Hold {
        key: run.done.calls as u64,
        project: 0,
        gpus: 8,
        bare_metal: true,
        gather: false,
    })
}

fn reservation(run: &Run) -> Uuid {
    *run.view.reservations.keys().next().expect("a reservation")
}

const OPERATOR: &[(&str, Calls)] = &[
    ("a slot taken out of service", &[|run| intent(run, true)]),
    (
        "a slot made schedulable again",
        &[|run| intent(run, true), |run| intent(run, false)],
    ),
    (
        "an approval",
        &[
            |_| Call::Reinstall(0),
            |_| Call::Approve { node: 0, upto: 8 },
        ],
    ),
    (
        "a reinstall under a slice",
        &[pair, start, |_| Call::Reinstall(0)],
    ),
    (
        "a reinstall after a failed bare-metal node",
        &[node, start, dirty, |_| Call::Reinstall(0)],
    ),
    (
        "a host that fails",
        &[|_| Call::Gate {
            node: 0,
            schedulable: false,
            healthy: false,
        }],
    ),
    (
        "another mode",
        &[
            |_| Call::Operator {
                node: 0,
                intent: Intent::Cordoned,
            },
            |_| Call::Mode {
                node: 0,
                baremetal: true,
            },
        ],
    ),
    (
        "a drain",
        &[|_| Call::Operator {
            node: 0,
            intent: Intent::Draining,
        }],
    ),
    (
        "a quota",
        &[|_| Call::Quota {
            project: 0,
            max: 99,
        }],
    ),
    (
        "a priority",
        &[|_| Call::Priority {
            project: 0,
            class: Priority::High,
        }],
    ),
    ("positions of events", &[pair, |_| Call::Sequence]),
];

fn intent(run: &Run, disabled: bool) -> Call {
    let slot = a_slot(run);
    Call::Intent { slot, disabled }
}

/// Brings everything back to one empty node with eight slots schedulable.
async fn clear(run: &mut Run) -> Outcome {
    let nodes = run.fleet.nodes[0].id;
    for id in run.view.reservations.keys().copied().collect::<Vec<_>>() {
        run.call(&Call::Cancel(id), None).await?;
    }
    for id in run.view.allocations.keys().copied().collect::<Vec<_>>() {
        if run.view.allocations[&id].lives() {
            run.call(&Call::Release(id), None).await?;
        }
        if run.view.allocations[&id].state == AllocationState::Releasing {
            let proven = true;
            run.call(&Call::Complete { of: id, proven }, None).await?;
        }
    }
    let blocked = |status| matches!(status, SlotStatus::CleanupBlocked | SlotStatus::Cleanup);
    for slot in run.view.slots.keys().copied().collect::<Vec<_>>() {
        if run.view.slots[&slot].status == SlotStatus::CleanupBlocked {
            run.call(&Call::Repair(slot), None).await?;
        }
        if blocked(run.view.slots[&slot].status) {
            let destroyed = false;
            run.call(&Call::Repaired { slot, destroyed }, None).await?;
        }
        if run.view.slots[&slot].disabled {
            let disabled = false;
            run.call(&Call::Intent { slot, disabled }, None).await?;
        }
    }
    if run.view.holders(nodes).next().is_some() {
        run.call(&Call::Reinstall(0), None).await?;
    }
    let seen = run.view.nodes[&nodes].clone();
    if seen.meant_baremetal {
        if seen.intent == "enabled" {
            let intent = Intent::Cordoned;
            run.call(&Call::Operator { node: 0, intent }, None).await?;
        }
        let baremetal = false;
        run.call(&Call::Mode { node: 0, baremetal }, None).await?;
    }
    if run.view.nodes[&nodes].intent != "enabled" {
        let intent = Intent::Enabled;
        run.call(&Call::Operator { node: 0, intent }, None).await?;
    }
    if !run.fleet.nodes[0].schedulable {
        let call = Call::Gate {
            node: 0,
            schedulable: true,
            healthy: true,
        };
        run.call(&call, None).await?;
    }
    run.call(&Call::Approve { node: 0, upto: 8 }, None).await?;
    for slot in run.view.slots.keys().copied().collect::<Vec<_>>() {
        if run.view.slots[&slot].repair {
            let destroyed = false;
            run.call(&Call::Repaired { slot, destroyed }, None).await?;
        }
    }
    Ok(())
}

/// Cuts the last call at these of its statements; returns how many it has.
async fn cut(run: &mut Run, calls: Calls, cuts: &[(Cut, u32, Option<u32>)]) -> Outcome<u32> {
    let (last, before) = calls.split_last().expect("a call");
    let mut statements = 0;
    for &(cut, first, stride) in cuts {
        let (mut left, mut hit) = (first, false);
        loop {
            clear(run).await?;
            for make in before {
                let call = make(run);
                run.call(&call, None).await?;
            }
            let call = last(run);
            if run.call(&call, Some((left, cut))).await? {
                hit = true;
                let Some(stride) = stride else { break };
                left += stride;
            } else if hit || left == 0 {
                // every statement has passed, and the cut still waits for the next one
                statements = run.statements();
                break;
            } else {
                // it has fewer statements than that
                left /= 2;
            }
        }
    }
    Ok(statements)
}

async fn all(cases: &[(&str, Calls)]) {
    let extent = Extent::set();
    for (kind, (name, calls)) in cases.iter().enumerate() {
        // small ledgers are read sooner
        let mut run = Run::new().await;
        let statements = cut(&mut run, calls, &extent.cuts(kind))
            .await
            .unwrap_or_else(|reason| panic!("{name}: {reason}"));
        println!("{name}: {statements} statements");
        assert!(statements >= FEWEST, "{name}: {statements} statements");
    }
}

/// B-40: slots and claims together, or neither.
#[tokio::test]
async fn p4_p5_a_request_that_is_cut_at_any_statement_has_one_effect_or_none() {
    Box::pin(all(REQUESTS)).await;
}

#[tokio::test]
async fn p4_p5_joining_serving_and_leaving_the_queue_are_cut_at_any_statement() {
    Box::pin(all(LINE)).await;
}

#[tokio::test]
async fn p4_p5_every_transition_of_a_workflow_is_cut_at_any_statement() {
    Box::pin(all(WORK)).await;
}

#[tokio::test]
async fn p4_p5_reserving_tending_and_drawing_are_cut_at_any_statement() {
    Box::pin(all(RESERVATIONS)).await;
}

#[tokio::test]
async fn p4_p5_every_change_by_an_operator_is_cut_at_any_statement() {
    Box::pin(all(OPERATOR)).await;
}
