//! The rules of a host whose programs record what they are asked.
use super::*;
use crate::played;

fn journal() -> Arc<Journal> {
    Arc::new(Journal::in_memory().unwrap())
}

#[test]
fn a_change_of_guests_is_no_other_hand() {
    assert!(!Difference::Flows.is_altered() && !Difference::Filter.is_altered());
    assert!(Difference::FlowsAltered.is_altered() && Difference::FilterAltered.is_altered());
}

const NAME: &str = "network::host::tests::p11_a_bridge_with_another_port_gets_no_rules";

/// With programs in place of the switch's and the packet filter's, which record what they are asked.
#[tokio::test]
async fn p11_a_bridge_with_another_port_gets_no_rules() {
    if let Some(folder) = played::folder() {
        return on_a_bridge_with_an_uplink(&folder).await;
    }
    let script = r#"#!/bin/sh
echo "${0##*/} $*" >> "$GPUAAS_TEST_PLAYED/asked"
case "$*" in
  *list-ports*) cat "$GPUAAS_TEST_PLAYED/ports" ;;
  *"list Interface"*) echo '{"data":[["ovsbr0",65534,"internal"],["uplink",1,""]]}' ;;
  *get-fail-mode*) echo standalone ;;
  *diff-flows*) exit 2 ;;
esac
"#;
    played::run_again(NAME, &["ovs-vsctl", "ovs-ofctl", "nft"], script);
}

async fn on_a_bridge_with_an_uplink(folder: &Path) {
    let text = format!(
        "state_dir = {folder:?}\n[profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\n\
         cpu_model = \"qemu64\"\n[images]\ncache_dir = {folder:?}\n[relay]\nkey_file = {folder:?}\n\
         [dhcp]\nhosts_dir = {hosts:?}\nleases_file = {folder:?}\npid_file = {folder:?}\n",
        hosts = folder.join("hosts"),
    );
    std::fs::create_dir(folder.join("hosts")).unwrap();
    let rules = NetworkRules::new(&toml::from_str(&text).unwrap(), true, journal());
    let requested = || std::fs::read_to_string(folder.join("asked")).unwrap();
    let changes = ["set-fail-mode", "replace-flows", "nft -f"];

    std::fs::write(folder.join("ports"), "uplink\n").unwrap();
    for error in [
        rules.put().await.unwrap_err(),
        rules.check().await.unwrap_err(),
    ] {
        assert!(error.message.contains("not a VM's: uplink"), "{error}");
    }
    assert_eq!(rules.foreign_ports().await.unwrap(), ["uplink"]);
    for change in changes {
        assert!(!requested().contains(change), "{}", requested());
    }
    std::fs::write(folder.join("ports"), "").unwrap();
    rules.put().await.unwrap();
    for change in changes {
        assert!(requested().contains(change), "{}", requested());
    }
    flows_that_were_put_and_not_noted_are_noted(&rules, folder).await;
    a_guest_that_comes_leaves_the_host_ready(&rules, folder).await;
}

/// The agent was ended between the switch's answer and its note.
async fn flows_that_were_put_and_not_noted_are_noted(rules: &NetworkRules, folder: &Path) {
    let has_them = "#!/bin/sh\necho \"ovs-ofctl $*\" >> \"$GPUAAS_TEST_PLAYED/asked\"\n";
    std::fs::write(folder.join("ovs-ofctl"), has_them).unwrap();
    let ovs = std::fs::read_to_string(folder.join("ovs-vsctl")).unwrap();
    let ovs = ovs.replace("echo standalone", "echo secure");
    std::fs::write(folder.join("ovs-vsctl"), ovs).unwrap();
    let put = || {
        let requested = std::fs::read_to_string(folder.join("asked")).unwrap();
        requested.matches("replace-flows").count()
    };
    let note = folder.join("wire").join(FLOWS);
    let (before, flows) = (put(), std::fs::read_to_string(&note).unwrap());
    for lost in [None, Some("table=0, priority=0, actions=NORMAL\n")] {
        match lost {
            Some(other) => std::fs::write(&note, other).unwrap(),
            None => std::fs::remove_file(&note).unwrap(),
        }
        // no other hand changed anything
        assert!(rules.put().await.unwrap().is_empty());
        assert_eq!(std::fs::read_to_string(&note).unwrap(), flows);
    }
    // once each, and never again
    rules.put().await.unwrap();
    assert_eq!(put() - before, 2);
}

/// A launch reserves its address a moment before its rules are put; another one asks for its lease just then.
async fn a_guest_that_comes_leaves_the_host_ready(rules: &NetworkRules, folder: &Path) {
    // from now on the switch has what was put, and only that
    let has = "#!/bin/sh\ncmp -s \"$3\" \"$GPUAAS_TEST_PLAYED/wire/flows\" || exit 2\n";
    std::fs::write(folder.join("ovs-ofctl"), has).unwrap();
    let ovs = std::fs::read_to_string(folder.join("ovs-vsctl")).unwrap();
    let ovs = ovs.replace("echo standalone", "echo secure");
    std::fs::write(folder.join("ovs-vsctl"), &ovs).unwrap();
    assert_eq!(rules.check().await.unwrap(), 0);
    let reservation = "gpuaas-gpuaas-slice-0123456789abcdef0123456789abcdef.conf";
    let reservation = folder.join("hosts").join(reservation);
    std::fs::write(reservation, "52:54:00:10:00:0a,10.100.0.10\n").unwrap();
    assert_eq!(rules.check().await.unwrap(), 1);
    // a switch that refuses the new rules keeps the old ones, and that is told
    std::fs::copy(folder.join("wire/flows"), folder.join("old-flows")).unwrap();
    let refuses = "#!/bin/sh\ncase \"$*\" in\n*diff-flows*) cmp -s \"$3\" \"$GPUAAS_TEST_PLAYED/old-flows\" || exit 2 ;;\n\
                   *) exit 1 ;;\nesac\n";
    std::fs::write(folder.join("ovs-ofctl"), refuses).unwrap();
    let port = r#"["uplink",1,""],["gs456789abcdef",5,""]"#;
    let ovs = ovs.replace(r#"["uplink",1,""]"#, port);
    std::fs::write(folder.join("ovs-vsctl"), ovs).unwrap();
    rules.put().await.unwrap_err();
    let reported = rules.check().await.unwrap_err();
    assert!(
        reported.message.contains("flows are not as they must be"),
        "{reported}"
    );
    // another hand is told as ever
    let other = "#!/bin/sh\nexit 2\n";
    std::fs::write(folder.join("ovs-ofctl"), other).unwrap();
    let reported = rules.check().await.unwrap_err();
    assert!(
        reported.message.contains("flows are not as they must be"),
        "{reported}"
    );
}

/// What was never put is not in force.
#[test]
fn nothing_put_is_nothing_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = Wanted {
        flows: Some("new".to_owned()),
        document: "new".to_owned(),
        guests: 1,
    };
    let rules = |folder: &Path| NetworkRules {
        network: Network::default(),
        dhcp: Dhcp::new(
            toml::from_str("hosts_dir = 'a'\nleases_file = 'b'\npid_file = 'c'").unwrap(),
        ),
        journal: journal(),
        owned: None,
        folder: folder.to_owned(),
        active: true,
        one_at_a_time: tokio::sync::Mutex::new(()),
        alterations: Mutex::default(),
        has_put: AtomicBool::new(false),
    };
    let rules = rules(dir.path());
    assert!(rules.last_put(&wanted).is_none());
    std::fs::write(dir.path().join(DOCUMENT), "old").unwrap();
    assert!(rules.last_put(&wanted).is_none(), "the flows were not put");
    std::fs::write(dir.path().join(FLOWS), "old").unwrap();
    let put = rules.last_put(&wanted).unwrap();
    assert_eq!(
        (put.document.as_str(), put.flows.as_deref()),
        ("old", Some("old"))
    );
}
