//! Runs tests on real VMs in one program: what they need starts once, and two of them run at a time.
//!
//! A test names the [`Place`] it needs. Tests of one place run one after another, those of different places side by
//! side: a VM that boots under emulation keeps one core busy, and two are what a small machine has. When the tests of
//! the lab host are through and many of the system wait, the last of these run on a second system.
//!
//! With `GPUAAS_TEST_SECONDS` a run ends in that time: a test is begun only if its usual time still fits, and what is
//! left out is named. `GPUAAS_TEST_TURN` is the number of such a run: each begins a few tests after the one that the
//! run before began with, so that a few runs in turn reach every test. Every other one begins with one of the longest: these
//! would not fit into what others leave.
//!
//! A test that takes [`TIMEOUT_FACTOR`] times its usual time has failed, and ends the run. So does the end of what tests share.
//! A run that is ended ends everything that tests have started, the system with its hosts too.
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Trial};

/// Seconds that a run may take, all in all.
const SECONDS: &str = "GPUAAS_TEST_SECONDS";
/// Which of the runs in turn this one is.
const TURN: &str = "GPUAAS_TEST_TURN";
/// How many tests a turn begins after the one before it.
const STEP: u64 = 7;
/// What usually takes so many seconds is begun first, or never in a run that ends early.
const LONG: u64 = 60;
/// How many times its usual time a test may take, with [`GRACE`] on top: a machine may be slow, a test may not hang.
const TIMEOUT_FACTOR: u32 = 4;
const GRACE: Duration = Duration::from_secs(180);

/// Usual time of the end of what the tests shared, in seconds.
const END: u64 = 10;
/// Tests that wait for so many seconds in all are worth the start of a second system.
const WORTH: u64 = 180;

thread_local! {
    static LANE: Cell<u16> = const { Cell::new(0) };
}

/// Which of the two lanes this thread runs, or the first: each has a system of its own.
#[must_use]
pub fn lane() -> u16 {
    LANE.get()
}

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

/// A test that runs.
struct Begun {
    name: String,
    at: Instant,
    /// How long it may take.
    timeout: Duration,
}

/// How far a run is.
#[derive(Default)]
struct Progress {
    /// What runs now.
    begun: Vec<Begun>,
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
    let lanes = lanes(wanted, turn);
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
        let lanes = [0, 1].map(|number| {
            let (run, runtime) = (&run, &runtime);
            scope.spawn(move || run.lane(number, runtime))
        });
        for lane in lanes {
            lane.join().expect("a lane catches the panics of its tests");
        }
        let entered = runtime.enter();
        run.timed("the end of what tests share", END, end);
        drop(entered);
        locked(&run.progress).is_over = true;
        run.over.notify_all();
    });
    run.report()
}

/// What tests of this program have started in sessions of their own below `folder`: the system, lab hosts, stacks. Not the
/// database, which the tests of other programs share, nor what another program of this checkout runs there.
fn own_stacks(folder: &Path) -> Vec<PathBuf> {
    let ours = crate::kill::tree();
    let is_ours = |stack: &PathBuf| {
        let running = gpuaas_dev::sweep::running(stack);
        running.iter().any(|process| ours.contains(&process.pid))
    };
    let stacks = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let stacks = stacks.map(|entry| entry.path());
    stacks
        .filter(|stack| !stack.ends_with("postgres"))
        .filter(is_ours)
        .collect()
}

fn end_stacks(stacks: &[PathBuf]) {
    for stack in stacks {
        gpuaas_dev::sweep::sweep(stack);
    }
}

/// The tests of each place, in the order of this turn.
fn lanes(cases: Vec<Case>, turn: u64) -> [Vec<Case>; 2] {
    let (system, host): (Vec<Case>, Vec<Case>) = cases
        .into_iter()
        .partition(|case| case.place == Place::System);
    [system, host].map(|mut lane| {
        let first = nth(turn * STEP, lane.len());
        lane.rotate_left(first);
        let long: Vec<usize> = (0..lane.len())
            .filter(|at| lane[*at].usual >= LONG)
            .collect();
        if turn % 2 == 1 && !long.is_empty() {
            lane[..=long[nth(turn / 2, long.len())]].rotate_right(1);
        }
        lane
    })
}

/// Which of so many a number means.
fn nth(number: u64, of: usize) -> usize {
    let of = u64::try_from(of.max(1)).unwrap_or(u64::MAX);
    usize::try_from(number % of).unwrap_or_default()
}

/// Longest time between two looks at what runs.
const LOOK: Duration = Duration::from_secs(5);

impl Begun {
    fn hangs(&self, now: Instant) -> bool {
        now.duration_since(self.at) > self.timeout
    }
}

impl Run {
    /// The next test of a lane. When all tests of the lab host are through, its lane takes the last of the system's.
    fn next(&self, number: usize) -> Option<Case> {
        let own = locked(&self.lanes[number]).pop_front();
        if own.is_some() || number == 0 {
            return own;
        }
        let mut waiting = locked(&self.lanes[0]);
        let seconds: u64 = waiting.iter().map(|case| case.usual).sum();
        (waiting.len() > 1 && seconds >= WORTH)
            .then(|| waiting.pop_back())
            .flatten()
    }

    /// Runs the tests of one place, one after another.
    fn lane(&self, number: u16, runtime: &tokio::runtime::Runtime) {
        LANE.set(number);
        // the lock is not held while a test runs: the end of the time needs it
        while let Some(case) = self.next(usize::from(number)) {
            let Case {
                name, usual, body, ..
            } = case;
            if !self.fits(Duration::from_secs(usual)) {
                println!("left out            {name}: it usually takes {usual} s");
                locked(&self.progress).left_out.push(name);
                continue;
            }
            let (took, passed) = self.timed(&name, usual, || runtime.block_on(body()));
            if locked(&self.progress).is_over {
                return; // it was cut, and lost the processes it had started
            }
            let word = if passed { "ok    " } else { "FAILED" };
            println!("{word} {:6.1} s    {name}", took.as_secs_f64());
            if passed {
                locked(&self.progress).passed.push((took, usual, name));
            }
        }
    }

    /// Does something while [`Self::watch`] looks whether it hangs. Returns how long it took, and whether it passed; a
    /// failure is noted.
    fn timed(&self, name: &str, usual: u64, body: impl FnOnce()) -> (Duration, bool) {
        let at = Instant::now();
        locked(&self.progress).begun.push(Begun {
            name: name.to_owned(),
            at,
            timeout: Duration::from_secs(usual) * TIMEOUT_FACTOR + GRACE,
        });
        let ended = catch_unwind(AssertUnwindSafe(body));
        let mut progress = locked(&self.progress);
        progress.begun.retain(|other| other.name != name);
        if ended.is_err() {
            progress.failed.push(name.to_owned());
        }
        (at.elapsed(), ended.is_ok())
    }

    fn fits(&self, usual: Duration) -> bool {
        self.limit
            .is_none_or(|limit| self.started.elapsed() + usual <= limit)
    }

    /// Ends the program when its time is over, with what runs then left out, or when a test hangs.
    fn watch(&self) {
        let mut progress = locked(&self.progress);
        while !progress.is_over {
            let now = Instant::now();
            let left = self
                .limit
                .map(|limit| (self.started + limit).saturating_duration_since(now));
            let hangs = progress.begun.iter().any(|test| test.hangs(now));
            if hangs || left.is_some_and(|left| left.is_zero()) {
                return self.cut(progress, now);
            }
            let wait = left.unwrap_or(LOOK).min(LOOK);
            let waited = self.over.wait_timeout(progress, wait);
            progress = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn cut(&self, mut progress: MutexGuard<'_, Progress>, now: Instant) {
        for test in std::mem::take(&mut progress.begun) {
            if test.hangs(now) {
                let took = now.duration_since(test.at).as_secs();
                println!("FAILED {took:6} s      {}: it hangs", test.name);
                progress.failed.push(test.name);
            } else {
                progress.left_out.push(test.name);
            }
        }
        for lane in &self.lanes {
            let mut waiting = locked(lane);
            progress
                .left_out
                .extend(waiting.drain(..).map(|case| case.name));
        }
        progress.is_over = true;
        drop(progress);
        println!("the run ends here; what still ran is left out");
        // a test that loses its processes panics, which says nothing about it
        std::panic::set_hook(Box::new(|_| {}));
        let failed = self.summary();
        // what tests have started would go on without them
        let stacks = own_stacks(&gpuaas_dev::paths::run_dir().join("test"));
        crate::kill::descendants();
        end_stacks(&stacks);
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
    use gpuaas_dev::process::{self, PidFile};
    use nix::sys::signal::Signal;

    use super::*;

    fn case(name: &str, place: Place, usual: u64) -> Case {
        Case::new(&format!("it::{name}"), place, usual, async || {})
    }

    #[test]
    fn every_test_of_a_place_is_the_first_of_some_turn() {
        for turn in 0..6 {
            let cases = vec![
                case("a", Place::System, LONG - 1),
                case("b", Place::System, LONG - 1),
                case("c", Place::System, LONG - 1),
                case("x", Place::Host, LONG),
            ];
            let [system, host] = lanes(cases, 20_780 + turn);
            let names: Vec<&str> = system.iter().map(|case| &*case.name).collect();
            let expected = match (20_780 + turn) * STEP % 3 {
                0 => ["a", "b", "c"],
                1 => ["b", "c", "a"],
                _ => ["c", "a", "b"],
            };
            assert_eq!(names, expected);
            assert_eq!(host.len(), 1);
        }
        assert!(lanes(Vec::new(), 3).iter().all(Vec::is_empty));
    }

    #[test]
    fn every_long_test_is_the_first_of_some_turn() {
        let first = |turn| {
            let cases = ["a", "b", "c", "d", "e"].map(|name| {
                let more = u64::from(matches!(name, "b" | "e"));
                case(name, Place::System, LONG - 1 + more)
            });
            let [system, _] = lanes(cases.into(), turn);
            assert_eq!(system.len(), 5);
            system[0].name.clone()
        };
        let turns: Vec<u64> = (0..40).collect();
        let of = |parity| turns.iter().filter(move |turn| **turn % 2 == parity);
        let odd: std::collections::BTreeSet<String> = of(1).map(|turn| first(*turn)).collect();
        assert_eq!(odd.into_iter().collect::<Vec<_>>(), ["b", "e"]);
        let even: std::collections::BTreeSet<String> = of(0).map(|turn| first(*turn)).collect();
        assert_eq!(even.len(), 5);
    }

    #[test]
    fn a_run_that_is_ended_ends_its_own_stacks_but_not_anothers_nor_the_shared_database() {
        let folder = std::env::temp_dir().join(format!("gpuaas-runner-{}", std::process::id()));
        let start = |stack: &str| {
            let pids = folder.join(stack).join("pids");
            std::fs::create_dir_all(&pids).expect("folder");
            let mut sleep = std::process::Command::new("sleep");
            sleep.arg("600");
            let pid_file = PidFile::new(pids.join("a.pid"));
            process::spawn_detached(&sleep, &pids.join("log"), &pid_file).expect("sleep")
        };
        let stacks = ["stack", "agent-3"].map(start);
        let database = start("postgres");
        // a shell that has ended: what it started is no child of ours
        let printed = std::process::Command::new("sh")
            .args(["-c", "sleep 600 > /dev/null 2>&1 & echo $!"])
            .output()
            .expect("sh");
        let pid = String::from_utf8_lossy(&printed.stdout).trim().parse();
        let other = process::Process::of(pid.expect("a pid")).expect("sleep");
        let pids = folder.join("developer/pids");
        std::fs::create_dir_all(&pids).expect("folder");
        let pid_file = PidFile::new(pids.join("a.pid"));
        pid_file.write(&other).expect("noted");
        end_stacks(&own_stacks(&folder));
        assert!(stacks.iter().all(|process| !process.alive()));
        for process in [database, other] {
            assert!(process.alive());
            process.stop(Signal::SIGKILL, Duration::from_secs(5));
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }

    fn idle() -> Run {
        Run {
            started: Instant::now(),
            limit: None,
            lanes: [const { Mutex::new(VecDeque::new()) }; 2],
            progress: Mutex::default(),
            over: Condvar::new(),
        }
    }

    #[test]
    fn the_lane_of_the_lab_host_takes_the_last_of_the_system_while_many_wait() {
        let run = idle();
        let system = ["a", "b", "c"].map(|name| case(name, Place::System, WORTH));
        locked(&run.lanes[0]).extend(system);
        locked(&run.lanes[1]).push_back(case("x", Place::Host, WORTH));
        let next = |number| run.next(number).map(|case| case.name);
        assert_eq!(next(1).as_deref(), Some("x"));
        assert_eq!(next(1).as_deref(), Some("c"));
        assert_eq!(next(0).as_deref(), Some("a"));
        // the one that is left is the system's own, however long it takes
        assert_eq!(next(1), None);
        assert_eq!(next(0).as_deref(), Some("b"));
        // two short ones are worth no second system
        let short = ["d", "e"].map(|name| case(name, Place::System, WORTH / 3));
        locked(&run.lanes[0]).extend(short);
        assert_eq!(next(1), None);
        assert_eq!(next(0).as_deref(), Some("d"));
        assert_eq!(next(0).as_deref(), Some("e"));
        assert_eq!(next(0), None);
    }

    #[test]
    fn what_fails_or_hangs_after_the_tests_is_a_failure() {
        let run = idle();
        let (_, passed) = run.timed("the end", END, || {
            let progress = locked(&run.progress);
            let late = progress.begun[0].at + Duration::from_secs(END) * TIMEOUT_FACTOR + 2 * GRACE;
            assert!(progress.begun[0].hangs(late), "it is watched");
        });
        assert!(passed);
        let (_, passed) = run.timed("the end", END, || panic!("it cannot end"));
        assert!(!passed);
        assert_eq!(locked(&run.progress).failed, ["the end"]);
        assert!(run.summary());
    }

    #[test]
    fn a_test_hangs_after_a_multiple_of_its_usual_time() {
        let at = Instant::now();
        let test = Begun {
            name: "a".to_owned(),
            at,
            timeout: Duration::from_secs(10) * TIMEOUT_FACTOR + GRACE,
        };
        assert!(!test.hangs(at + Duration::from_secs(220)));
        assert!(test.hangs(at + Duration::from_secs(221)));
    }
}
