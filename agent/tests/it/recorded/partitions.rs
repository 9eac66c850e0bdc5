//! A board whose GPUs Fabric Manager connects.
use gpuaas_agent::recorded::Recorded;
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};
use serde_json::json;

use super::reference_host::{CORNERS, Host, good};
use crate::partitions::Board;

/// The good host with a Fabric Manager in a service VM, which answers what this one does.
fn managed(board: &Board) -> Host {
    let mut host = good();
    host.recording.settings["gpu_fabric"] =
        json!({ "manager": "fabric_manager", "address": "10.0.0.5" });
    host.answer("fmpm --hostname 10.0.0.5 -l", board.answer(&["-l"]));
    // what it offered once is no group now
    host.remove("/var/lib/gpuaas/fabric-partitions.json");
    host
}

async fn groups(host: Host) -> Vec<Vec<u32>> {
    let host = Recorded::open(host.recording).expect("laid out");
    let report = host.discover().await.legal_groups.into_iter();
    report.map(|group| group.module_ids).collect()
}

async fn evidence(host: Host, check: &str) -> Evidence {
    let host = Recorded::open(host.recording).expect("laid out");
    let report = host.readiness().await.evidence;
    let found = report.into_iter().find(|one| one.check == check);
    found.expect("a check of the registry")
}

fn address(module: u32) -> String {
    let corner = CORNERS.iter().find(|one| one.module == module);
    corner.expect("a GPU").gpu_address()
}

#[tokio::test]
async fn b_43_legal_groups_are_those_that_fabric_manager_offers_now() {
    let board = Board::new();
    assert_eq!(groups(managed(&board)).await.len(), 7);
    // before the H100 the partitions of a sick GPU are left out
    board.set("sick", "3\n");
    board.set("omits", "");
    let left = [vec![2, 4], vec![5, 7], vec![6, 8], vec![5, 6, 7, 8]];
    assert_eq!(groups(managed(&board)).await, left);
}

#[tokio::test]
async fn b_43_a_gpu_that_fell_off_the_bus_is_in_no_group_although_fabric_manager_offers_it() {
    let mut host = managed(&Board::new());
    let bad = CORNERS.iter().find(|one| one.module == 3).expect("a GPU");
    let folder = format!(
        "/sys/devices/pci0000:{}/{}",
        super::hosts::host_root(bad),
        bad.gpu_address()
    );
    host.text(format!("{folder}/vendor"), "0xffff");
    host.text(format!("{folder}/device"), "0xffff");
    host.text(format!("{folder}/class"), "0xffffff");
    let left = groups(host).await;
    assert!(left.iter().all(|group| !group.contains(&3)), "{left:?}");
    assert_eq!(left.len(), 4, "{left:?}");
}

#[tokio::test]
async fn d_96_a_sick_gpu_takes_its_own_slot_out_of_service() {
    let board = Board::new();
    for check in ["fabric_manager", "gpu_partitions"] {
        let found = evidence(managed(&board), check).await;
        assert_eq!(found.status(), EvidenceStatus::Pass, "{found:?}");
    }
    board.set("sick", "3\n");
    board.set("omits", "");
    let found = evidence(managed(&board), "gpu_partitions").await;
    assert_eq!(found.status(), EvidenceStatus::Fail);
    assert_eq!(found.devices, [address(3)]);
    // a partition of nobody here
    let board = Board::new();
    board.set("active", "6\n");
    let found = evidence(managed(&board), "gpu_partitions").await;
    let mut expected = [address(6), address(8)];
    expected.sort();
    assert_eq!(found.devices, expected, "{}", found.detail);
}

#[tokio::test]
async fn d_96_a_host_whose_fabric_manager_does_not_answer_is_out_of_service() {
    let board = Board::new();
    let silent = |change: fn(&mut Host)| {
        let mut host = managed(&board);
        change(&mut host);
        host
    };
    for host in [
        silent(|host| {
            let line = "fmpm --hostname 10.0.0.5 -l";
            host.recording.answers.remove(line).expect("an answer");
        }),
        silent(|host| host.answer("fmpm --hostname 10.0.0.5 -l", "")),
        silent(|host| {
            host.answer(
                "fmpm --hostname 10.0.0.5 -l",
                r#"{"numPartitions":0,"partitionInfo":[]}"#,
            );
        }),
    ] {
        let host = Recorded::open(host.recording).expect("laid out");
        let report = host.readiness().await;
        assert_eq!(report.blockers, ["fabric_manager"]);
        let found = host.discover().await;
        assert!(
            found.legal_groups.is_empty(),
            "what is not known is not offered"
        );
        let unreadable = found.host.expect("a host").unreadable;
        assert!(
            unreadable.iter().any(|one| one.contains("Fabric Manager")),
            "{unreadable:?}"
        );
    }
    // without one there is nothing to answer
    let found = evidence(good(), "fabric_manager").await;
    assert_eq!(found.status(), EvidenceStatus::Skip);
}
