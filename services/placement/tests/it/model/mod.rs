//! The ledger against a model, in long random runs with crashes between any two statements.
//!
//! Each step draws a call: requests for slices and for bare-metal nodes, alone and in batches, that may wait or not, beside
//! or apart from others; their repetition; passes over the queue, deadlines, priorities; workflow steps, releases,
//! failures, repairs; slot edits, approvals, reinstalls, health, modes of nodes, cordons, drains, quotas, power; capacity
//! reservations that are made, drawn on, reconciled, canceled and over. Its end is foretold, it is made on a real PostgreSQL,
//! and the two are compared.
//!
//! **Foretold** is the whole [`view::View`] after every call: states of nodes, slots, claims, allocations, workflows and
//! billable periods; the queue with its batches, the round robin of the projects, and for whom nodes are kept; and every
//! refusal by its kind. Of a request it is foretold whether it is placed, waits or is refused, of a pass who is served,
//! in which order, and who is ended. **Only checked**, since it is the decision's business: which of the legal sets of
//! slots is taken, hence whether a batch whose first allocations may be laid out in several ways still fits, and how a
//! batch that waits is laid out on the nodes that are kept for it; and which free slots a reservation holds, as many as
//! it lacks and no others. The invariants of [`gpuaas_placement::audit`] are evaluated after every crash and
//! every [`AUDIT_EVERY`] steps; quota sums and what the memory of a process says are compared after every [`COPY_EVERY`].
//!
//! Three steps of ten run over a wire that is cut at a statement drawn at random: then the ledger must be as before or as
//! foretold, nothing between, and the same call made again must still have one effect. Of a pass, batches served before
//! the cut stay served. [`every_cut`] cuts each kind of call at statement after statement.
mod calls;
mod doing;
mod draw;
mod every_cut;
mod fleet;
mod free_capacity;
mod perform;
mod predict;
mod requests;
mod reserving;
mod run;
mod serving;
mod view;

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use uuid::Uuid;

use self::doing::Doing;
use self::draw::any_step;
use self::run::{Done, Run};

/// Calls of one run, unless [`CALLS_SETTING`] says otherwise.
const CALLS: usize = 900;
/// Calls of a run that is so long that everything must have happened in it.
const LONG: usize = 10_000;
/// Sets another number of calls, for a long run.
const CALLS_SETTING: &str = "GPUAAS_LEDGER_CALLS";
/// Steps drawn for one ledger.
const STEPS: usize = 1000;
/// The invariants are evaluated after so many steps.
const AUDIT_EVERY: usize = 8;
/// Quotas and what the memory of a process says are compared after so many steps.
const COPY_EVERY: usize = 20;
/// No call with all that is looked at after it takes longer, however busy the machine is; one that does has hung.
const LONGEST: Duration = Duration::from_secs(60);
/// Names the seed of a run that is to be repeated: 64 hexadecimal digits.
const SEED: &str = "GPUAAS_LEDGER_SEED";

#[test]
fn p1_p4_random_work_with_crashes_never_leaves_what_the_model_allows() {
    let wanted = std::env::var(CALLS_SETTING).map_or(CALLS, |text| text.parse().expect("a number"));
    let seed = seed();
    let text = text_of(seed);
    println!("repeat this run with {SEED}={text}");
    let began = Instant::now();
    // a call and its statements take turns, so two ledgers side by side keep two cores busy
    let halves = [0, 1].map(|number| Half::begin(seed, number, wanted / 2));
    let mut done = Done::default();
    for half in halves {
        let half = half.end(&text);
        let half =
            half.unwrap_or_else(|error| panic!("{error}\nrepeat this run with {SEED}={text}"));
        done.add(&half);
    }
    let seconds = began.elapsed().as_secs_f64();
    let Done {
        calls,
        crashes,
        longest,
        lived,
        seen,
    } = done;
    println!(
        "{calls} calls, {crashes} of them ended by a crash, in {seconds:.1} s, none in more than {longest:.1?}"
    );
    println!(
        "allocations that lived from launch to release, by GPUs, 0 being bare-metal nodes: {lived:?}"
    );
    println!("of the queue and of batches: {seen:?}");
    // a run that hardly does anything proves nothing
    assert!(crashes > wanted / 20, "the wire was hardly ever cut");
    if wanted >= LONG {
        for size in [0, 1, 2, 4] {
            assert!(
                lived.contains_key(&size),
                "no allocation of {size} GPUs lived"
            );
        }
        for what in [
            "batches",
            "joined",
            "batches that joined",
            "served",
            "bare-metal nodes served",
            "ended in the queue",
            "reservations",
            "reconciled",
        ] {
            assert!(seen.contains_key(what), "nothing {what}");
        }
    }
}

/// Half of the run, on a thread of its own.
struct Half {
    doing: Doing,
    outcome: Receiver<Result<Done, String>>,
}

impl Half {
    fn begin(seed: [u8; 32], number: u8, wanted: usize) -> Self {
        let doing = Doing::default();
        let (tell, outcome) = channel();
        let watched = doing.clone();
        // not joined: when it hangs, the test fails nevertheless
        std::thread::spawn(move || tell.send(half(seed, number, wanted, &watched)));
        Self { doing, outcome }
    }

    /// Waits for its end, but for no call longer than [`LONGEST`].
    fn end(self, seed: &str) -> Result<Done, String> {
        loop {
            match self.outcome.recv_timeout(LONGEST / 10) {
                Ok(outcome) => return outcome,
                Err(RecvTimeoutError::Disconnected) => return Err("a half panicked".to_owned()),
                Err(RecvTimeoutError::Timeout) => {
                    let stuck = self.doing.longer_than(LONGEST);
                    if let Some(what) = stuck {
                        panic!("it never ended: {what}\nrepeat this run with {SEED}={seed}");
                    }
                }
            }
        }
    }
}

/// Runs ledgers until so many calls were made.
fn half(mut seed: [u8; 32], number: u8, wanted: usize, doing: &Doing) -> Result<Done, String> {
    seed[0] ^= number;
    let config = Config {
        failure_persistence: None,
        // a shorter run is welcome, but not for ever
        max_shrink_time: 60_000,
        max_shrink_iters: 1000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("runtime");
    let steps = prop::collection::vec(any_step(), STEPS);
    let sum = RefCell::new(Done::default());
    while sum.borrow().calls < wanted {
        let tree = steps.new_tree(&mut runner).expect("steps");
        let outcome = runner.run_one(tree, |steps| {
            runtime.block_on(async {
                doing.begin("making a ledger".to_owned());
                let mut run = Run::new().await;
                run.doing = doing.clone();
                let outcome = run.all(&steps).await;
                sum.borrow_mut().add(&run.done);
                outcome.map_err(TestCaseError::fail)
            })
        });
        outcome.map_err(|error| error.to_string())?;
    }
    Ok(sum.into_inner())
}

/// A seed as its setting has it.
fn text_of(seed: [u8; 32]) -> String {
    seed.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn seed() -> [u8; 32] {
    let Ok(text) = std::env::var(SEED) else {
        let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
        return [*a.as_bytes(), *b.as_bytes()]
            .concat()
            .try_into()
            .expect("32 bytes");
    };
    let digits = |place: usize| text.get(place * 2..place * 2 + 2);
    std::array::from_fn(|place| {
        digits(place)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
            .unwrap_or_else(|| panic!("{SEED} must be 64 hexadecimal digits"))
    })
}
