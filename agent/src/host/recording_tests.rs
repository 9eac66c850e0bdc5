//! What a recording answers, and what it keeps to itself.
use super::*;
use crate::host::exec::{PROBE_LIMIT, run};

fn recording(entries: &[(&str, Entry)]) -> Recording {
    let entry = |(path, entry): &(&str, Entry)| (PathBuf::from(path), entry.clone());
    Recording {
        schema: SCHEMA,
        entries: entries.iter().map(entry).collect(),
        ..Recording::default()
    }
}

#[tokio::test]
async fn what_was_recorded_is_answered_again_and_nothing_else() {
    let (_, answers) = record(async {
        run("printf", &["%s", "seen"], PROBE_LIMIT).await.unwrap();
        run("/no/such/program", &[""], PROBE_LIMIT)
            .await
            .unwrap_err()
    })
    .await;
    assert_eq!(answers.len(), 2);
    let recording = Recording {
        answers,
        ..recording(&[])
    };
    let again = Recording::parse(&recording.to_text().unwrap()).unwrap();
    assert_eq!(again, recording);
    let replayed = Arc::new(again);
    replay(replayed, async {
        let output = run("printf", &["%s", "seen"], PROBE_LIMIT).await.unwrap();
        assert_eq!(output.stdout, "seen");
        assert!(run("/no/such/program", &[""], PROBE_LIMIT).await.is_err());
        let other = run("printf", &["%s", "unseen"], PROBE_LIMIT)
            .await
            .unwrap_err();
        assert!(other.message.contains("no answer of printf"), "{other}");
        assert!(is_replay());
    })
    .await;
    assert!(!is_replay());
}

#[test]
fn a_recording_writes_and_leads_nowhere_but_below_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let good = recording(&[
        ("/sys/class/net/a", Entry::Link("../../devices/a".into())),
        ("/sys/devices/a/address", Entry::Text("52:54".into())),
        ("/sys/devices/a/config", Entry::Bytes("ffff".into())),
        ("/proc/7/fd/3", Entry::Link("/dev/nvme1n1".into())),
        ("/proc/7/fd/4", Entry::Link("socket:[7]".into())),
        ("/var/lib/libvirt", Entry::Folder(0o755)),
    ]);
    good.lay_out(dir.path()).unwrap();
    let root = crate::host::root::HostRoot::new(dir.path());
    assert_eq!(
        root.read_value("/sys/class/net/a/address").as_deref(),
        Some("52:54")
    );
    assert_eq!(root.bytes("/sys/class/net/a/config").unwrap(), [0xff, 0xff]);
    for (path, entry) in [
        ("/../x", Entry::Text(String::new())),
        ("x", Entry::Text(String::new())),
        ("/a/../../x", Entry::Folder(0o755)),
        ("/a/b", Entry::Link("/etc".into())),
        ("/a/b", Entry::Link("../../etc".into())),
        ("/a/b/c", Entry::Link("../x/../../../etc".into())),
        ("/a", Entry::Link("b/c/d/../../..".into())),
        ("/proc/7/fd/3", Entry::Link("/etc/shadow".into())),
        ("/proc/7/fd/3", Entry::Link("/dev/../etc/shadow".into())),
        ("/proc/7/fd/3", Entry::Link("../../../../etc/shadow".into())),
    ] {
        let refused = recording(&[(path, entry.clone())]).lay_out(dir.path());
        assert!(refused.is_err(), "{path} {entry:?}");
    }
    let below = [
        ("/a/b", Entry::Link("../c".into())),
        ("/a/b/d", Entry::Text(String::new())),
    ];
    assert!(recording(&below).lay_out(dir.path()).is_err());
}

#[tokio::test]
async fn what_programs_print_is_recorded_without_its_secrets_for_the_owner_alone() {
    let json = r#"{"serial":"S1","auth":[{"api_token":"hunter2"}],"passwords":["hunter2",{"of":"hunter2"}],
        "token":{"value":"hunter2"},"psk":20230417,"has_secret":true,"passphrase":null,"size":7}"#;
    let text = "<graphics passwd='hunter2'/>\n<disk/>\n";
    let (_, answers) = record(async {
        for printed in [json, text] {
            run("printf", &["%s", printed], PROBE_LIMIT).await.unwrap();
        }
    })
    .await;
    let printed: Vec<&str> = answers
        .values()
        .map(|answer| match answer {
            Answer::Ended { stdout, .. } => stdout.as_str(),
            Answer::Failed(why) => panic!("{why}"),
        })
        .collect();
    assert!(
        printed.iter().all(|one| !one.contains("hunter2")),
        "{printed:?}"
    );
    assert!(
        printed.iter().any(|one| one.contains("<disk/>")),
        "{printed:?}"
    );
    let json: Value = serde_json::from_str(printed[1]).unwrap();
    let expected = serde_json::json!({
        "serial": "S1", "auth": [{"api_token": ""}], "passwords": [], "token": {}, "psk": 0, "has_secret": false,
        "passphrase": null, "size": 7,
    });
    assert_eq!(json, expected, "what is read stays, and of its kind");

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("host.json");
    recording(&[]).save(&file).unwrap();
    assert!(recording(&[]).save(&file).is_err(), "it is there already");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(Recording::load(&file).unwrap(), recording(&[]));
}

#[test]
fn a_recording_of_another_version_is_refused() {
    let text = recording(&[]).to_text().unwrap();
    let newer = text.replace("\"schema\": 1", "\"schema\": 2");
    let error = Recording::parse(&newer).unwrap_err();
    assert!(error.message.contains("version 2"), "{error}");
    assert!(Recording::parse("{}").is_err());
    assert!(Recording::parse(&text.replace("entries", "extras")).is_err());
}
