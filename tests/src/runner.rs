//! Runs tests on real VMs in one program: what they need starts once, and two of them run at a time.
//!
//! A test names the [`Place`] it needs. Tests of one place run one after another, those of different places side by
//! side: a VM that boots under emulation keeps one core busy, and two are what a small machine has.
//!
//! With `GPUAAS_TEST_SECONDS` a run ends in that time: a test is begun only if its usual time still fits, and what is
//! left out is named. `GPUAAS_TEST_TURN` is the number of such a run: the next one begins where this one will have left
//! off, so that a few runs in turn reach every test.
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

/// Seconds that a run may take, all in all.
const SECONDS: &str = "GPUAAS_TEST_SECONDS";
/// Which of the runs in turn this one is.
const TURN: &str = "GPUAAS_TEST_TURN";

/// What a test needs for itself while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The whole system with its lab host.
    System,
    /// A lab host without a control plane, or what the test itself brings up.
    Host,
}

type Body = Pin<Box<dyn Future<Output = ()>>>;

/// One test.
pub struct Case {
    name: String,
    place: Place,
    /// How long it usually takes, in seconds.
    usual: u64,
    body: Box<dyn FnOnce() -> Body + Send>,
}

impl Case {
    /// A test by its path in the program.
    pub fn new<F: Future<Output = ()> + 'static>(
        path: &str,
        place: Place,
        usual: u64,
        body: impl FnOnce() -> F + Send + 'static,
    ) -> Self {
        // the first part is the program
        let name = path.split_once("::").map_or(path, |(_, name)| name);
        Self {
            name: name.to_owned(),
            place,
            usual,
            body: Box::new(move || Box::pin(body())),
        }
    }

    fn trial(&self) -> Trial {
        Trial::test(self.name.clone(), || Ok(()))
    }
}

/// The tests of a module, each with the seconds that it usually takes.
#[macro_export]
macro_rules! cases {
    ($place:expr; $($name:ident: $usual:expr),+ $(,)?) => {
        vec![$($crate::runner::Case::new(
            concat!(module_path!(), "::", stringify!($name)), $place, $usual, $name
        )),+]
    };
}

/// How far a run is.
#[derive(Default)]
struct Progress {
    /// What runs now.
    begun: Vec<String>,
    passed: Vec<(Duration, u64, String)>,
    failed: Vec<String>,
    left_out: Vec<String>,
    is_over: bool,
}

struct Run {
    started: Instant,
    /// All the time there is.
    limit: Option<Duration>,
    lanes: [Mutex<VecDeque<Case>>; 2],
    progress: Mutex<Progress>,
    over: Condvar,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs what the command line names, then `end`, which takes down what the tests shared.
pub fn run(cases: Vec<Case>, end: impl FnOnce()) -> ExitCode {
    let arguments = Arguments::from_args();
    let (wanted, filtered): (Vec<Case>, Vec<Case>) = cases
        .into_iter()
        .partition(|case| !arguments.is_filtered_out(&case.trial()));
    if arguments.list || arguments.ignored {
        let trials = wanted.iter().map(Case::trial).collect();
        return libtest_mimic::run(&arguments, trials).exit_code();
    }
    let number = |name| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    let limit = number(SECONDS);
    let turn = number(TURN).unwrap_or_default();
    let count = wanted.len();
    let lanes = lanes(wanted, turn, limit.unwrap_or_default());
    let run = Run {
        started: Instant::now(),
        limit: limit.map(Duration::from_secs),
        lanes: lanes.map(|lane| Mutex::new(lane.into())),
        progress: Mutex::default(),
        over: Condvar::new(),
    };
    println!(
        "{count} tests, two at a time ({} not asked for)",
        filtered.len()
    );
    // one for all tests: what they share lives in it
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    std::thread::scope(|scope| {
        scope.spawn(|| run.watch());
        let lanes = run.lanes.each_ref().map(|lane| {
            let (run, runtime) = (&run, &runtime);
            scope.spawn(move || run.lane(lane, runtime))
        });
        for lane in lanes {
            lane.join().expect("a lane catches the panics of its tests");
        }
        locked(&run.progress).is_over = true;
        run.over.notify_all();
    });
    let entered = runtime.enter();
    end();
    drop(entered);
    run.report()
}

/// The tests of each place, in the order of this turn.
fn lanes(cases: Vec<Case>, turn: u64, limit: u64) -> [Vec<Case>; 2] {
    let (system, host): (Vec<Case>, Vec<Case>) = cases
        .into_iter()
        .partition(|case| case.place == Place::System);
    [system, host].map(|mut lane| {
        let usual: Vec<u64> = lane.iter().map(|case| case.usual).collect();
        lane.rotate_left(first(&usual, turn, limit));
        lane
    })
}

/// Which test a turn begins with when the turns before it had so many seconds each.
fn first(usual: &[u64], turn: u64, limit: u64) -> usize {
    let all: u64 = usual.iter().sum();
    let mut skipped = u128::from(turn) * u128::from(limit) % u128::from(all.max(1));
    let done = usual.iter().take_while(|seconds| {
        let seconds = u128::from(**seconds);
        let is_done = seconds <= skipped;
        skipped = skipped.saturating_sub(seconds);
        is_done
    });
    done.count() % usual.len().max(1)
}

impl Run {
    /// Runs the tests of one place, one after another.
    fn lane(&self, lane: &Mutex<VecDeque<Case>>, runtime: &tokio::runtime::Runtime) {
        // the lock is not held while a test runs: the end of the time needs it
        let next = || locked(lane).pop_front();
        while let Some(case) = next() {
            let begun = Instant::now();
            let Case {
                name, usual, body, ..
            } = case;
            if !self.fits(Duration::from_secs(usual)) {
                println!("left out            {name}: it usually takes {usual} s");
                locked(&self.progress).left_out.push(name);
                continue;
            }
            locked(&self.progress).begun.push(name.clone());
            let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(body())));
            let mut progress = locked(&self.progress);
            progress.begun.retain(|other| *other != name);
            let took = begun.elapsed();
            let word = if ended.is_ok() { "ok    " } else { "FAILED" };
            println!("{word} {:6.1} s    {name}", took.as_secs_f64());
            match ended {
                Ok(()) => progress.passed.push((took, usual, name)),
                Err(_) => progress.failed.push(name),
            }
        }
    }

    fn fits(&self, usual: Duration) -> bool {
        self.limit
            .is_none_or(|limit| self.started.elapsed() + usual <= limit)
    }

    /// Ends the program when its time is over, with what runs then left out.
    fn watch(&self) {
        let Some(limit) = self.limit else { return };
        let left = (self.started + limit).saturating_duration_since(Instant::now());
        let waited = self
            .over
            .wait_timeout_while(locked(&self.progress), left, |progress| !progress.is_over);
        let (mut progress, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if !timeout.timed_out() {
            return;
        }
        let cut = std::mem::take(&mut progress.begun);
        progress.left_out.extend(cut);
        for lane in &self.lanes {
            let waiting = locked(lane)
                .drain(..)
                .map(|case| case.name)
                .collect::<Vec<_>>();
            progress.left_out.extend(waiting);
        }
        drop(progress);
        println!("the time is over; what still ran is left out");
        let failed = self.summary();
        std::process::exit(if failed { 101 } else { 0 });
    }

    fn report(&self) -> ExitCode {
        match self.summary() {
            true => ExitCode::from(101),
            false => ExitCode::SUCCESS,
        }
    }

    /// Prints the end of a run; says whether a test failed.
    fn summary(&self) -> bool {
        let mut progress = locked(&self.progress);
        progress
            .passed
            .sort_by_key(|(took, ..)| std::cmp::Reverse(*took));
        println!("\nthe longest:");
        for (took, usual, name) in progress.passed.iter().take(12) {
            println!("{:6.1} s, usually {usual:4} s  {name}", took.as_secs_f64());
        }
        for name in &progress.left_out {
            println!("left out: {name}");
        }
        for name in &progress.failed {
            println!("FAILED: {name}");
        }
        println!(
            "{} passed, {} failed, {} left out in {:.1} s",
            progress.passed.len(),
            progress.failed.len(),
            progress.left_out.len(),
            self.started.elapsed().as_secs_f64()
        );
        !progress.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_begins_where_the_one_before_it_left_off() {
        let usual = [10, 20, 30, 40];
        assert_eq!(first(&usual, 0, 35), 0);
        // ten and twenty were done, thirty did not fit any more
        assert_eq!(first(&usual, 1, 35), 2);
        assert_eq!(first(&usual, 2, 35), 3);
        // once around, and on
        assert_eq!(first(&usual, 3, 35), 0);
        assert_eq!(first(&[], 3, 35), 0);
        assert_eq!(first(&usual, 7, 0), 0, "without a limit nothing is turned");
    }

    #[test]
    fn turns_reach_every_test() {
        let usual = [70, 5, 5, 30, 300, 12, 12, 60];
        let limit = 320;
        let mut reached = [false; 8];
        for turn in 0..4 {
            let begin = first(&usual, turn, limit);
            let mut left = limit;
            for place in (0..8).map(|next| (begin + next) % 8) {
                if usual[place] <= left {
                    left -= usual[place];
                    reached[place] = true;
                }
            }
        }
        assert_eq!(reached, [true; 8]);
    }
}
