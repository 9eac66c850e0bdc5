//! A host that is recorded from what its agent reads is that host again.
use gpuaas_agent::host::recording::{Entry, Recording};
use gpuaas_agent::recorded::{self, Recorded};
use gpuaas_agent::settings::Settings;
use serde_json::json;

use super::reference_host::good;

fn settings(root: &std::path::Path, state: &std::path::Path) -> Settings {
    let mut all = good().recording.settings;
    let own = all.as_object_mut().expect("an object");
    let rest = json!({
        "state_dir": state,
        "root": root,
        "libvirt_uri": "test:///default",
        "images": { "cache_dir": state.join("cache") },
        "relay": { "key_file": state.join("relay/id_ed25519") },
    });
    own.extend(rest.as_object().expect("an object").clone());
    serde_json::from_value(all).expect("settings")
}

/// K-15: a host with GPUs is played where there is none.
#[tokio::test]
async fn a_recording_of_a_host_is_that_host() {
    let state = tempfile::tempdir().expect("a folder");
    let mut host = good();
    host.text(
        "/etc/netplan/60-ipoib.yaml",
        "network:\n  auth:\n    password: hunter2",
    );
    host.text("/home/user/notes", "dear diary");
    host.text("/proc/987654/comm", "editor");
    let first = Recorded::open(host.recording).expect("the recording is laid out");
    // no recording has such a link: a live host has
    let open = first.tree().join("proc/987654/fd");
    std::fs::create_dir_all(&open).expect("a folder");
    std::os::unix::fs::symlink("/home/user/notes", open.join("7")).expect("a link");

    let recording = recorded::record(settings(&first.tree(), state.path()), b"")
        .await
        .expect("a recording");
    let text = recording.to_text().expect("a text");
    let tree = Recording {
        answers: Default::default(),
        ..recording.clone()
    };
    let tree = tree.to_text().expect("a text");
    for never in ["hunter2", "diary", "notes", "editor", "987654"] {
        assert!(!tree.contains(never), "{never}");
    }
    assert!(
        recording
            .answers
            .keys()
            .any(|line| line.starts_with("ip -json")),
        "programs are recorded"
    );
    // this machine's answers are of this machine: those of the host are put in their place
    let mut again = Recording::parse(&text).expect("a recording");
    again.answers = good().recording.answers;
    assert!(matches!(
        again.entries[std::path::Path::new("/etc/machine-id")],
        Entry::Text(_)
    ));
    let second = Recorded::open(again).expect("the recording is laid out");

    let (before, after) = (first.discover().await, second.discover().await);
    assert_eq!(before.host, after.host);
    assert_eq!(before.legal_groups, after.legal_groups);
    assert_eq!(after.candidates.len(), 8);
    for (one, other) in before.candidates.iter().zip(&after.candidates) {
        let (mut one, mut other) = (one.clone(), other.clone());
        for slot in [&mut one, &mut other] {
            // it follows from the machine id, which is hashed
            slot.bindings
                .as_mut()
                .expect("bindings")
                .management_mac
                .clear();
        }
        assert_eq!(one, other);
    }
}
