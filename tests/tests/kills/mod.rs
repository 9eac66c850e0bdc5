//! Launches and releases in which a process is killed at each step (P5). `make test-host` has one case of each kind,
//! `make test-chaos` has all.
use gpuaas_tests::runner::{Case, Place};

mod agent;
mod allocation;
mod platform;

/// How many cases.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The middle one of each kind.
    #[allow(dead_code, reason = "each program has one of the two")]
    OneOfEach,
    /// All.
    #[allow(dead_code, reason = "each program has one of the two")]
    Every,
}

/// The cases, made from the step tables.
pub fn cases(which: Which) -> Vec<Case> {
    let kinds = [
        agent::cases(),
        allocation::cases(),
        allocation::power_cases(),
        allocation::replicas(),
        platform::cases(),
    ];
    let chosen = kinds.into_iter().flat_map(|mut cases| {
        if which == Which::OneOfEach {
            cases = vec![cases.swap_remove(cases.len() / 2)];
        }
        cases
    });
    chosen.collect()
}

/// One case, named by its kills.
fn case<F: Future<Output = ()> + 'static>(
    who: &str,
    kills: &[&Option<String>],
    usual: u64,
    body: impl FnOnce() -> F + Send + 'static,
) -> Case {
    let names: Vec<&str> = kills.iter().filter_map(|kill| kill.as_deref()).collect();
    let path = format!(
        "{}::{who}_killed_at_{}",
        module_path!(),
        names.join("_then_")
    );
    Case::new(&path, Place::System, usual, body)
}
