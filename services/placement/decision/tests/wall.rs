//! The wall: what this crate depends on, directly or through others, by the lock file of the workspace.
use std::collections::{BTreeMap, BTreeSet};

/// Databases, async runtimes, clocks, and what speaks to a network.
const OUTSIDE: [&str; 12] = [
    "sqlx",
    "postgres",
    "tokio",
    "async-std",
    "smol",
    "futures",
    "jiff",
    "chrono",
    "time",
    "tonic",
    "hyper",
    "reqwest",
];

#[test]
fn no_database_runtime_clock_or_network_is_behind_the_wall() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.lock");
    let lock = std::fs::read_to_string(path).expect("the lock file of the workspace");
    let mut needs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in lock.split("[[package]]") {
        let names = || package.lines().filter_map(|line| line.split('"').nth(1));
        let name = package.lines().find(|line| line.starts_with("name = "));
        let Some(name) = name.and_then(|line| line.split('"').nth(1)) else {
            continue;
        };
        let listed = package
            .split_once("dependencies = [")
            .map_or("", |(_, list)| list);
        let listed = names().filter(|of| listed.contains(&format!("\"{of}\"")));
        // "name" or "name version"
        needs
            .entry(name)
            .or_default()
            .extend(listed.filter_map(|of| of.split(' ').next()));
    }
    let mut behind = BTreeSet::new();
    let mut next = vec!["gpuaas-placement-decision"];
    while let Some(name) = next.pop() {
        if behind.insert(name) {
            next.extend(needs.get(name).expect("a package of the lock file"));
        }
    }
    assert!(behind.contains("uuid"), "{behind:?}");
    let outside: Vec<_> = OUTSIDE
        .iter()
        .filter(|name| behind.contains(*name))
        .collect();
    assert!(outside.is_empty(), "{outside:?} reached through {behind:?}");
}
