//! The correction of a row of a node's comparison, by its API, against a host with residue.
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_common::Error;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::{FailureClass, RemoveLeftoversRequest};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};

impl Platform {
    async fn rows_of_node(&self) -> Vec<pb::NodeComparisonRow> {
        let request = pb::CompareNodeRequest {
            node_id: self.world.node_id.to_string(),
            ..pb::CompareNodeRequest::default()
        };
        let mut admins = self.admins.clone();
        let compared = admins.compare_node(self.admin(request, None)).await;
        compared.expect("compared").into_inner().rows
    }

    async fn row(&self, id: Uuid) -> pb::NodeComparisonRow {
        let rows = self.rows_of_node().await;
        let found = rows.iter().find(|row| row.allocation_id == id.to_string());
        found.cloned().unwrap_or_else(|| panic!("{rows:?}"))
    }

    /// What corrects a row as it was read, by what the row offers.
    fn correction_of(&self, row: &pb::NodeComparisonRow) -> pb::CorrectComparisonRequest {
        pb::CorrectComparisonRequest {
            node_id: self.world.node_id.to_string(),
            allocation_id: row.allocation_id.clone(),
            correction: row.correction,
            etag: row.etag.clone(),
            reason: "a test".into(),
        }
    }

    async fn correct_row(
        &self,
        request: &pb::CorrectComparisonRequest,
        key: &str,
    ) -> Result<pb::NodeComparisonRow, Error> {
        let request = self.admin(request.clone(), Some(key));
        let corrected = self.admins.clone().correct_comparison(request).await;
        Ok(corrected.map_err(Error::from)?.into_inner())
    }

    async fn an_active(&self) -> Uuid {
        let created = self.create(good("web"), "key-1").await;
        let id: Uuid = created.expect("created").id.parse().expect("a uuid");
        self.world.until_state(id, "active").await;
        self.world.until_idle(id).await;
        id
    }

    /// Corrections on record: allocation, what was done, and why.
    async fn corrections(&self) -> Vec<(String, String, String)> {
        sqlx::query_as(
            "SELECT detail->>'allocation_id', detail->>'correction', detail->>'reason'
               FROM placement.audit WHERE action = 'node.correct' ORDER BY id",
        )
        .fetch_all(&self.world.owner)
        .await
        .expect("audit rows")
    }
}

/// J-15: a stale reservation, among other things.
#[tokio::test]
async fn d_82_p5_what_nobody_owns_of_a_vm_is_a_row_and_removed_by_its_correction_once() {
    let platform = Platform::start().await;
    let (unknown, host) = (Uuid::now_v7(), &platform.world.host);
    let vm = vm_name(unknown);
    host.leak_reservation(&vm);
    host.leak_seed(&vm);
    host.leak_nvram(&vm);
    host.leak_nvram("somebody-elses");
    let row = platform.row(unknown).await;
    assert!(
        row.has_reservation && row.has_seed && row.has_nvram,
        "{row:?}"
    );
    assert_eq!(row.verdict(), pb::ComparisonVerdict::Report);
    assert_eq!(row.correction(), pb::ComparisonCorrection::Undo);

    let fine = platform.correction_of(&row);
    let user = platform.user(fine.clone(), Some("k"));
    let denied = platform.admins.clone().correct_comparison(user).await;
    assert_eq!(denied.expect_err("no admin").code(), Code::PermissionDenied);
    type Change = fn(&mut pb::CorrectComparisonRequest);
    let refusals: [(Change, ErrorReason, &str); 5] = [
        (|one| one.etag.clear(), ErrorReason::FieldRequired, "etag"),
        (
            |one| one.correction = 0,
            ErrorReason::FieldRequired,
            "correction",
        ),
        (
            |one| one.reason.clear(),
            ErrorReason::FieldRequired,
            "reason",
        ),
        (|one| one.etag = "0".into(), ErrorReason::EtagStale, "etag"),
        (
            |one| one.correction = pb::ComparisonCorrection::Adopt.into(),
            ErrorReason::StateConflict,
            "",
        ),
    ];
    for (change, reason, field) in refusals {
        let mut request = fine.clone();
        change(&mut request);
        let refused = platform
            .correct_row(&request, "k")
            .await
            .expect_err("refused");
        assert_eq!(refused.reason(), reason, "{refused}");
        assert!(
            field.is_empty() || refused.fields()[0].0 == field,
            "{refused:?}"
        );
    }
    assert_eq!(platform.row(unknown).await, row, "nothing was changed");

    let corrected = platform.correct_row(&fine, "k1").await.expect("corrected");
    assert_eq!(corrected.verdict(), pb::ComparisonVerdict::Agrees);
    assert_eq!(host.files_of(&vm), Vec::<String>::new());
    assert_eq!(host.files_of("somebody-elses"), ["nvram"]);
    let rows = platform.rows_of_node().await;
    assert!(rows.is_empty(), "{rows:?}");
    let again = platform.correct_row(&fine, "k1").await.expect("a replay");
    assert_eq!(again, corrected);
    let late = platform.correct_row(&fine, "k2").await.expect_err("gone");
    assert_eq!(late.reason(), ErrorReason::EtagStale);
    let one = (unknown.to_string(), "undo".into(), "a test".into());
    assert_eq!(platform.corrections().await, [one]);
}

#[tokio::test]
async fn d_82_p5_a_correction_never_removes_what_is_claimed_or_was_changed_since_it_was_read() {
    let platform = Platform::start().await;
    let id = platform.an_active().await;
    let (world, vm) = (&platform.world, vm_name(id));
    // an active allocation, with files that it has and should not have
    let well = platform.row(id).await;
    assert_eq!(well.correction(), pb::ComparisonCorrection::Unspecified);
    world.host.leak_seed(&vm);
    let row = platform.row(id).await;
    assert_ne!(row.etag, well.etag);
    assert!(row.has_seed && row.has_claims, "{row:?}");
    assert_eq!(row.correction(), pb::ComparisonCorrection::Report);
    let undo = pb::CorrectComparisonRequest {
        correction: pb::ComparisonCorrection::Undo.into(),
        ..platform.correction_of(&row)
    };
    let refused = platform.correct_row(&undo, "k").await.expect_err("claimed");
    assert_eq!(refused.reason(), ErrorReason::Claimed, "{refused}");
    // nor does its host, whoever says so
    let request = RemoveLeftoversRequest {
        allocation_id: id.to_string(),
    };
    let held = world.remove_leftovers(request).await.expect_err("held");
    assert_eq!(held.reason(), ErrorReason::LeaseHeld, "{held}");
    assert_eq!(world.host.files_of(&vm), ["reservation", "seed"]);
    // to have seen it is on record, and changes nothing
    let seen = platform
        .correct_row(&platform.correction_of(&row), "k1")
        .await;
    assert_eq!(seen.expect("on record"), row);

    // a leftover that becomes a VM between the operator's look and word
    let unknown = Uuid::now_v7();
    let vm = vm_name(unknown);
    world.host.leak_nvram(&vm);
    let row = platform.row(unknown).await;
    assert_eq!(row.correction(), pb::ComparisonCorrection::Undo);
    world.host.leak_domain(&vm).await;
    let late = platform
        .correct_row(&platform.correction_of(&row), "k2")
        .await;
    assert_eq!(late.expect_err("changed").reason(), ErrorReason::EtagStale);
    let request = RemoveLeftoversRequest {
        allocation_id: unknown.to_string(),
    };
    let there = world.remove_leftovers(request).await.expect_err("a VM");
    assert_eq!(there.reason(), ErrorReason::OperationConflict, "{there}");
    assert_eq!(world.host.files_of(&vm), ["nvram"]);
    let seen = (id.to_string(), "report".into(), "a test".into());
    assert_eq!(platform.corrections().await, [seen]);
}

#[tokio::test]
async fn d_82_p5_a_correction_adopts_and_finishes_what_the_reconciler_would() {
    let platform = Platform::start().await;
    let id = platform.an_active().await;
    let (world, vm) = (&platform.world, vm_name(id));
    world
        .host
        .hypervisor()
        .shutdown(&vm)
        .await
        .expect("libvirt");
    let row = platform.row(id).await;
    assert_eq!(row.correction(), pb::ComparisonCorrection::Adopt);
    let adopted = platform
        .correct_row(&platform.correction_of(&row), "k1")
        .await;
    assert_eq!(
        adopted.expect("adopted").verdict(),
        pb::ComparisonVerdict::Agrees
    );
    assert_eq!(world.allocation(id).await.power.as_deref(), Some("stopped"));
    world.power(id, "start").await;
    world.until_idle(id).await;

    world.host_gone().await;
    world.host.restart_machine().await;
    world.host_up().await;
    let row = platform.row(id).await;
    assert_eq!(row.correction(), pb::ComparisonCorrection::Finish);
    let finished = platform
        .correct_row(&platform.correction_of(&row), "k2")
        .await;
    finished.expect("accepted");
    world.until_idle(id).await;
    assert_eq!(world.allocation(id).await.power.as_deref(), Some("running"));
    let row = platform.row(id).await;
    assert_eq!(row.verdict(), pb::ComparisonVerdict::Agrees, "{row:?}");
    let corrections = platform.corrections().await;
    let done: Vec<&str> = corrections
        .iter()
        .map(|(_, correction, _)| correction.as_str())
        .collect();
    assert_eq!(done, ["adopt", "finish"]);
}

/// D-72: what the detail of such a row tells an operator to do ends the discrepancy.
#[tokio::test]
async fn d_82_what_an_active_vm_lost_or_kept_is_put_right_by_a_stop_and_a_start() {
    let platform = Platform::start().await;
    let id = platform.an_active().await;
    let (world, vm) = (&platform.world, vm_name(id));
    let well = platform.row(id).await;
    type Break = fn(&crate::host::Host, &str);
    let broken: [Break; 2] = [
        |host, vm| host.leak_seed(vm),
        |host, vm| host.lose_reservation(vm),
    ];
    for change in broken {
        change(&world.host, &vm);
        let row = platform.row(id).await;
        assert_eq!(row.verdict(), pb::ComparisonVerdict::Report, "{row:?}");
        assert!(row.detail.contains("stop and start it"), "{}", row.detail);
        for kind in ["stop", "start"] {
            world.power(id, kind).await;
            world.until_idle(id).await;
        }
        assert_eq!(platform.row(id).await.etag, well.etag);
        assert_eq!(world.host.files_of(&vm), ["reservation"]);
    }
}

/// INC-26: what an undefine without its NVRAM left is removed by the correction, and the disk waits for its own proof.
#[tokio::test]
async fn d_72_d_79_an_undo_removes_nvram_and_seed_of_what_is_over_and_never_its_disk() {
    let platform = Platform::start().await;
    let world = &platform.world;
    world.host.script(|script| {
        let (reason, class) = (ErrorReason::HypervisorFailed, FailureClass::Host);
        script.fail = Some(("provision", "start", reason, class));
    });
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    let vm = vm_name(id);
    world.host.leak_nvram(&vm);
    world.host.leak_seed(&vm);
    let row = platform.row(id).await;
    assert_eq!(row.verdict(), pb::ComparisonVerdict::Undo, "{row:?}");
    assert_eq!(row.correction(), pb::ComparisonCorrection::Undo);
    let correction = platform.correction_of(&row);
    platform
        .correct_row(&correction, "k1")
        .await
        .expect("accepted");
    world.until_idle(id).await;
    assert_eq!(world.host.files_of(&vm), Vec::<String>::new());
    let status = world.slot_of(id).await.status;
    assert_eq!(status, SlotStatus::CleanupBlocked);
}
