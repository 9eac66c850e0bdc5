//! The audit of the ledger as an administrator calls it.
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::scheduler::v1::AuditLedgerRequest;
use gpuaas_proto::gpuaas::scheduler::v1::ledger_admin_service_server::LedgerAdminService as _;
use sqlx::Executor as _;
use tonic::{Code, Request};

use crate::world::{World, by, ok, reservation};

#[tokio::test]
async fn p1_an_audit_names_what_was_changed_past_the_database() {
    let (world, _, slots) = World::with_slots(2).await;
    ok(world.api.reserve(Request::new(reservation("k-1"))).await);
    let audit = async || {
        ok(world
            .api
            .audit_ledger(by(AuditLedgerRequest {}, None))
            .await)
    };
    let sound = audit().await;
    assert!(sound.sound && sound.audit_time.is_some(), "{sound:?}");
    assert!(sound.invariants.len() > 10 && sound.invariants.iter().all(|one| one.broken == 0));

    // a superuser who switches the constraints off, as after a careless restore
    let superuser = world.db.pool("postgres").await;
    superuser
        .execute(
            "BEGIN; SET LOCAL session_replication_role = replica;
             DELETE FROM placement.claims; COMMIT",
        )
        .await
        .expect("break it");
    let broken = audit().await;
    assert!(!broken.sound);
    let named = |name: &str| {
        broken
            .invariants
            .iter()
            .find(|one| one.name == name)
            .expect(name)
            .clone()
    };
    let slot = named("slot_has_its_claim");
    assert_eq!(slot.broken, 1);
    assert!(slots.iter().any(|known| known.id == slot.subjects[0]));
    assert_eq!(named("allocation_has_its_claims").broken, 1);
    assert_eq!(named("available_slot_is_clean").broken, 0);
}

#[tokio::test]
async fn an_audit_needs_a_caller() {
    let world = World::new().await;
    let status = world
        .api
        .audit_ledger(Request::new(AuditLedgerRequest {}))
        .await
        .expect_err("nobody");
    assert_ne!(status.code(), Code::Ok);
}
