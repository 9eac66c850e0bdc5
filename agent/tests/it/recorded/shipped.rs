//! The recordings that are shipped: `agent/recordings`, to try the agent and the load tests without such a host.
use std::path::PathBuf;

use gpuaas_agent::host::recording::Recording;
use gpuaas_agent::recorded::Recorded;

use super::hosts::{self, Change, HOSTS};
use super::reference_host::good;

/// Set to write the recordings in place of comparing them.
const WRITE: &str = "GPUAAS_WRITE_RECORDINGS";

fn file(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/recordings");
    PathBuf::from(folder).join(format!("{name}.json"))
}

/// A recording that is shipped.
pub fn shipped(name: &str) -> Recording {
    Recording::load(&file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn host(change: Change) -> Recording {
    let mut host = good();
    change(&mut host);
    host.recording
}

#[test]
fn k_15_the_shipped_recordings_are_the_hosts_of_the_tests() {
    for (name, change) in HOSTS {
        let (file, host) = (file(name), host(change));
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&file, host.to_text().expect("a text")).expect("a recording");
        }
        assert!(
            shipped(name) == host,
            "{name} is stale: run this test with {WRITE}=1"
        );
    }
}

///
#[tokio::test]
async fn inc_07_a_bare_metal_host_as_it_should_be_has_no_blocker() {
    let host = Recorded::open(host(hosts::bare_metal)).expect("the recording is laid out");
    let report = host.readiness().await;
    assert_eq!(report.blockers, Vec::<String>::new());
    let report = host.discover().await;
    assert_eq!(report.blockers, Vec::<String>::new());
}
