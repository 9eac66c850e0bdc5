//! The ledger against a model, in long random runs with crashes between any two statements.
//!
//! Each step draws a call (creates of all sizes, their repetition, workflow steps, releases, failures, repairs, slot
//! edits, approvals, reinstalls, drains, quotas, power), foretells what it makes of the ledger, makes it on a real
//! PostgreSQL, and compares. Three steps of ten run over a wire that is cut at a statement drawn at random: then the
//! ledger must be as before or as foretold, nothing between, and the same request must still have one effect. The
//! invariants of [`gpuaas_placement::audit`] are evaluated after every crash and after every [`AUDIT_EVERY`] steps.
mod calls;
mod fleet;
mod perform;
mod predict;
mod run;
mod view;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Instant;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use uuid::Uuid;

use self::calls::any_step;
use self::run::Run;

/// Calls of one run, unless [`CALLS_SETTING`] says otherwise.
const CALLS: usize = 10_000;
/// Sets another number of calls, for a long run.
const CALLS_SETTING: &str = "GPUAAS_LEDGER_CALLS";
/// Steps drawn for one ledger.
const STEPS: usize = 1000;
/// The invariants are evaluated after so many steps.
const AUDIT_EVERY: usize = 20;
/// Names the seed of a run that is to be repeated: 64 hexadecimal digits.
const SEED: &str = "GPUAAS_LEDGER_SEED";

#[test]
fn p1_p4_random_work_with_crashes_never_leaves_what_the_model_allows() {
    let wanted = std::env::var(CALLS_SETTING).map_or(CALLS, |text| text.parse().expect("a number"));
    let seed = seed();
    let text: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    println!("repeat this run with {SEED}={text}");
    let began = Instant::now();
    // a call and its statements take turns, so two ledgers side by side keep two cores busy
    let halves = std::thread::scope(|scope| {
        let half = |number| scope.spawn(move || half(seed, number, wanted / 2));
        [half(0), half(1)].map(|half| half.join().expect("no panic"))
    });
    let mut sum = Sum::default();
    for half in halves {
        let half =
            half.unwrap_or_else(|error| panic!("{error}\nrepeat this run with {SEED}={text}"));
        sum.add(half.calls, half.crashes, &half.lived);
    }
    let Sum {
        calls,
        crashes,
        lived,
    } = sum;
    let seconds = began.elapsed().as_secs_f64();
    println!("{calls} calls, {crashes} of them ended by a crash, in {seconds:.1} s");
    println!("allocations that lived from launch to release, by GPUs: {lived:?}");
    // a run that hardly does anything proves nothing
    assert!(crashes > wanted / 20, "the wire was hardly ever cut");
    for size in [1, 2, 4] {
        assert!(
            wanted < CALLS || lived.contains_key(&size),
            "no allocation of {size} GPUs"
        );
    }
}

/// What some runs did.
#[derive(Default)]
struct Sum {
    calls: usize,
    crashes: usize,
    lived: BTreeMap<u32, usize>,
}

impl Sum {
    fn add(&mut self, calls: usize, crashes: usize, lived: &BTreeMap<u32, usize>) {
        self.calls += calls;
        self.crashes += crashes;
        for (size, count) in lived {
            *self.lived.entry(*size).or_default() += count;
        }
    }
}

/// Runs ledgers until so many calls were made.
fn half(mut seed: [u8; 32], number: u8, wanted: usize) -> Result<Sum, String> {
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
    let sum = RefCell::new(Sum::default());
    while sum.borrow().calls < wanted {
        let tree = steps.new_tree(&mut runner).expect("steps");
        let outcome = runner.run_one(tree, |steps| {
            runtime.block_on(async {
                let mut run = Run::new().await;
                let outcome = run.all(&steps).await;
                sum.borrow_mut().add(run.calls, run.crashes, &run.lived);
                outcome.map_err(TestCaseError::fail)
            })
        });
        outcome.map_err(|error| error.to_string())?;
    }
    Ok(sum.into_inner())
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
