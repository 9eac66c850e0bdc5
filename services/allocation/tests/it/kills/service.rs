//! The service dies at work on a slice.

use std::collections::BTreeSet;

use gpuaas_allocation::domain::discrepancy::Discrepancy;
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::reconcile;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::{Death, Lives, of_service};
use crate::world::World;

/// Workflows whose deaths are here.
pub const KINDS: [&str; 9] = [
    "provision",
    "release",
    "repair",
    "clean_up",
    "stop",
    "start",
    "reboot",
    "rescue",
    "unrescue",
];

#[tokio::test]
async fn p5_service_killed_in_provision_and_release() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let (up, down) = (of_service("provision", false), of_service("release", false));
    for round in 0..up.len().max(down.len()) {
        let id = lives.active(up.get(round).cloned()).await;
        lives.released(id, down.get(round).cloned()).await;
    }
    lives.end().await;
}

#[tokio::test]
async fn p5_service_killed_in_power() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let id = lives.active(None).await;
    const VERBS: [&str; 5] = ["stop", "start", "reboot", "rescue", "unrescue"];
    let kills = VERBS.map(|verb| of_service(verb, false));
    for round in 0..kills.iter().map(Vec::len).max().unwrap_or_default() {
        for (kills, verb) in kills.iter().zip(VERBS) {
            Box::pin(lives.power(id, verb, kills.get(round).cloned())).await;
        }
    }
    lives.released(id, None).await;
    lives.end().await;
}

#[tokio::test]
async fn p5_service_killed_in_power_that_fails() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let id = lives.active(None).await;
    for (verb, step) in [
        ("stop", "stop"),
        ("start", "prove_disk"),
        ("reboot", "stop"),
        ("rescue", "verify_image"),
        ("rescue", "copy_image"),
        ("unrescue", "stop"),
    ] {
        match verb {
            "start" => Box::pin(lives.power(id, "stop", None)).await,
            "unrescue" => Box::pin(lives.power(id, "rescue", None)).await,
            _ => {}
        }
        // the end of a rescue is a reboot to the host
        let kind = if verb == "unrescue" { "reboot" } else { verb };
        for death in of_service(verb, true) {
            // not one that is tried again
            let (reason, class) = (ErrorReason::DiskUnsafe, FailureClass::Device);
            world
                .host
                .script(|script| script.fail = Some((kind, step, reason, class)));
            let context = format!("{death:?}");
            lives.through(Some(death), world.power(id, verb)).await;
            world.until_idle(id).await;
            let was = match (verb, step) {
                ("start", _) | ("rescue", "copy_image") => "stopped",
                ("unrescue", _) => "rescued",
                _ => "running",
            };
            let power = world.allocation(id).await.power;
            assert_eq!(power.as_deref(), Some(was), "{context}");
            world.nothing_runs(id, &context).await;
            lives.assert_sound(&context).await;
            if (verb, was) == ("rescue", "stopped") {
                world.host.script(|script| script.fail = None);
                Box::pin(lives.power(id, "start", None)).await;
            }
        }
        world.host.script(|script| script.fail = None);
        match verb {
            "start" => Box::pin(lives.power(id, "start", None)).await,
            "unrescue" => Box::pin(lives.power(id, "unrescue", None)).await,
            _ => {}
        }
    }
    lives.released(id, None).await;
    lives.end().await;
}

#[tokio::test]
async fn p5_service_killed_in_failures_and_repair() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let (failing, repairs) = (of_service("provision", true), of_service("repair", false));
    for round in 0..failing.len().max(repairs.len()) {
        let id = lives.failed(failing.get(round).cloned()).await;
        lives.repaired(id, repairs.get(round).cloned()).await;
    }
    lives.end().await;
}

#[tokio::test]
async fn p5_service_killed_in_wipes_that_prove_nothing() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    for death in of_service("release", true) {
        let id = lives.active(None).await;
        world.host.script(|script| script.lie = true);
        let context = format!("{death:?}");
        lives.through(Some(death), world.release(id)).await;
        world.until_state(id, "released").await;
        world.until_idle(id).await;
        lives.still_blocked(id, &context).await;
        world.host.script(|script| script.lie = false);
        lives.repaired(id, None).await;
    }
    let id = lives.failed(None).await;
    world.host.script(|script| script.lie = true);
    for death in of_service("repair", true) {
        let (slot, context) = (world.slot_of(id).await, format!("{death:?}"));
        lives.through(Some(death), world.repair(slot.id)).await;
        world.until_idle(slot.id).await;
        lives.still_blocked(id, &context).await;
    }
    world.host.script(|script| script.lie = false);
    lives.repaired(id, None).await;
    lives.end().await;
}

#[tokio::test]
async fn p5_service_killed_in_clean_up() {
    let world = World::start().await;
    let mut lives = Lives::in_world(&world, World::config()).await;
    let id = lives.failed(None).await;
    let failing = of_service("clean_up", true);
    let deaths = of_service("clean_up", false);
    for death in failing.iter().chain(&deaths) {
        let context = format!("{death:?}");
        let fails = failing.contains(death).then_some((
            "clean_up",
            "undefine",
            ErrorReason::HypervisorFailed,
            FailureClass::Host,
        ));
        world.host.script(|script| script.fail = fails);
        world.host.leak_domain(&vm_name(id)).await;
        let compare = async {
            let deps = world.deps(world.pool.clone(), World::config());
            reconcile::node(&deps, world.node_id).await
        };
        let found = Box::pin(lives.through(Some(death.clone()), compare)).await;
        assert_eq!(
            found.expect("compared"),
            [Discrepancy::LeakedDomain(id)],
            "{context}"
        );
        world.until_idle(id).await;
        let left = world.host.state().await;
        assert_eq!(left.domains.is_empty(), fails.is_none(), "{context}");
        assert!(left.leases.is_empty(), "{context}: {left:?}");
        world.nothing_runs(id, &context).await;
        lives.assert_sound(&context).await;
    }
    lives.repaired(id, None).await;
    lives.end().await;
}

impl Lives<'_> {
    /// Changes the power of a VM that runs, or stands still, as the change asks for.
    pub async fn power(&mut self, id: uuid::Uuid, verb: &str, death: Option<Death>) {
        let (world, context) = (self.world, format!("{verb}: {death:?}"));
        let before = world.allocation(id).await.boot_id;
        self.through(death, world.power(id, verb)).await;
        world.until_idle(id).await;
        let after = world.allocation(id).await;
        let vm = vm_name(id);
        let wanted = match verb {
            "stop" => "stopped",
            "rescue" => "rescued",
            _ => "running",
        };
        assert_eq!(after.power.as_deref(), Some(wanted), "{context}");
        if verb != "stop" {
            assert_eq!(after.boot_id, world.host.boot_id(&vm), "{context}");
            assert_ne!(after.boot_id, before, "{context}");
        }
        assert_eq!(world.periods(id).await, (1, 1), "{context}");
        world.nothing_runs(id, &context).await;
        let files = world.host.files_of(&vm);
        let is_rescued = files.contains(&"rescue".to_owned());
        assert!(is_rescued == (verb == "rescue"), "{context}: {files:?}");
        assert!(!files.contains(&"seed".to_owned()), "{context}");
        let state = world.host.state().await;
        assert_eq!(state.domains, BTreeSet::from([vm.clone()]), "{context}");
        assert_eq!(state.off.contains(&vm), verb == "stop", "{context}");
        let has_partition = verb != "stop" && world.host.module(0).is_some();
        let partitions = world.host.partitions().len();
        assert_eq!(partitions, usize::from(has_partition), "{context}");
        assert!(state.leases.is_empty(), "{context}: {:?}", state.leases);
        self.assert_sound(&context).await;
    }

    /// The slot waits for a repair, and nothing but its disk is left on the host.
    async fn still_blocked(&self, id: uuid::Uuid, context: &str) {
        let world = self.world;
        let slot = world.slot_of(id).await;
        assert_eq!(slot.status, SlotStatus::CleanupBlocked, "{context}");
        assert!(slot.health_detail.contains("WIPE_NOT_PROVEN"), "{context}");
        world.host_is_clean(true, context).await;
        world.nothing_runs(id, context).await;
        self.assert_sound(context).await;
    }
}
