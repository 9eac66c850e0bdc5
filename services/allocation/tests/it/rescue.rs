//! Rescue of an allocation by its API: Nova's `rescue` and `unrescue`, on a played host.
use gpuaas_common::Error;
use gpuaas_placement::model::SlotStatus;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::PowerState;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::{Platform, good};

const IMAGE: &str = "rescue-mini";

impl Platform {
    async fn web(&self) -> (Uuid, pb::AllocationStatus) {
        let created = self.create(good("web"), "key-1").await;
        let id: Uuid = created.expect("created").id.parse().expect("a uuid");
        self.world.until_state(id, "active").await;
        self.world.until_idle(id).await;
        (id, self.now(id).await)
    }

    async fn now(&self, id: Uuid) -> pb::AllocationStatus {
        self.get(&id.to_string()).await.status.expect("a status")
    }

    async fn rescue(&self, id: Uuid, image: &str, key: &str) -> Result<pb::Allocation, Error> {
        let request = pb::RescueAllocationRequest {
            allocation_id: id.to_string(),
            image: image.into(),
            force: false,
        };
        let request = self.user(request, Some(key));
        let accepted = self.users.clone().rescue_allocation(request).await;
        Ok(accepted.map_err(Error::from)?.into_inner())
    }

    /// Rescues, and waits until that has ended.
    pub async fn rescued(&self, id: Uuid, key: &str) -> pb::AllocationStatus {
        self.rescue(id, IMAGE, key).await.expect("accepted");
        self.world.until_idle(id).await;
        self.now(id).await
    }

    async fn unrescue(&self, id: Uuid, key: &str) -> Result<pb::Allocation, Error> {
        let request = pb::UnrescueAllocationRequest {
            allocation_id: id.to_string(),
            force: false,
        };
        let request = self.user(request, Some(key));
        let accepted = self.users.clone().unrescue_allocation(request).await;
        Ok(accepted.map_err(Error::from)?.into_inner())
    }

    fn is_rescued(&self, vm: &str) -> bool {
        let files = self.world.host.files_of(vm);
        files.contains(&"rescue".to_owned())
    }
}

fn keys(status: &pb::AllocationStatus) -> &[String] {
    &status.access.as_ref().expect("access").ssh_host_keys
}

#[tokio::test]
async fn p9_a_vm_is_rescued_with_its_own_disk_beside_it_and_comes_back() {
    let platform = Platform::start().await;
    let (id, first) = platform.web().await;
    let world = &platform.world;
    let accepted = platform.rescue(id, IMAGE, "r1").await.expect("accepted");
    let status = accepted.status.expect("a status");
    assert_eq!(status.power(), PowerState::Rescuing);
    world.until_idle(id).await;
    let rescued = platform.now(id).await;
    assert_eq!(rescued.state(), pb::AllocationState::Active);
    assert_eq!(rescued.power(), PowerState::Rescued);
    assert_eq!(rescued.rescue_image, IMAGE);
    assert!(platform.is_rescued(&first.vm));
    let at = world.host.boot_id(&first.vm).expect("it runs");
    assert_eq!(rescued.boot_id, at.to_string());
    assert_ne!(rescued.boot_id, first.boot_id);
    // the rescue image has a host key of its own, which is the one to pin
    assert_eq!(keys(&rescued).len(), 1);
    assert_ne!(keys(&rescued), keys(&first));
    assert!(
        rescued.billing.starts_with("Billed, "),
        "{}",
        rescued.billing
    );
    assert_eq!(world.periods(id).await, (1, 1));
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::Active);
    let dirty = world.host.state().await.dirty;
    assert!(
        dirty.contains(&slot.id.to_string()),
        "its own disk is as it was"
    );
    // the same call is the same rescue
    platform.rescue(id, IMAGE, "r1").await.expect("a replay");
    world.nothing_runs(id, "a replay").await;

    for (verb, reported) in [
        ("start", "end the rescue instead"),
        ("reboot", "end the rescue instead"),
    ] {
        let refused = match verb {
            "start" => {
                let request = pb::StartAllocationRequest {
                    allocation_id: id.to_string(),
                };
                let request = platform.user(request, Some("s"));
                platform.users.clone().start_allocation(request).await
            }
            _ => {
                let request = pb::RebootAllocationRequest {
                    allocation_id: id.to_string(),
                    force: false,
                };
                let request = platform.user(request, Some("b"));
                platform.users.clone().reboot_allocation(request).await
            }
        };
        let refused = Error::from(refused.expect_err("rescued"));
        assert_eq!(refused.reason(), ErrorReason::StateConflict);
        assert!(refused.message().contains(reported), "{refused}");
    }

    let accepted = platform.unrescue(id, "u1").await.expect("accepted");
    let status = accepted.status.expect("a status");
    assert_eq!(status.power(), PowerState::Unrescuing);
    world.until_idle(id).await;
    let back = platform.now(id).await;
    assert_eq!(back.power(), PowerState::Running);
    assert_eq!(
        (back.rescue_image.as_str(), keys(&back)),
        ("", keys(&first))
    );
    assert_ne!(back.boot_id, rescued.boot_id);
    assert!(!platform.is_rescued(&first.vm), "nothing of it is kept");
    let refused = platform.unrescue(id, "u2").await.expect_err("it runs");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    let audited: Vec<String> = sqlx::query_scalar(
        "SELECT action || coalesce(' ' || (detail->>'image'), '') FROM placement.audit
          WHERE action LIKE 'allocation.%rescue' ORDER BY id",
    )
    .fetch_all(&world.owner)
    .await
    .expect("audit rows");
    assert_eq!(
        audited,
        ["allocation.rescue rescue-mini", "allocation.unrescue"]
    );
}

#[tokio::test]
async fn p9_a_rescue_ends_by_a_stop_and_a_start_and_by_a_release() {
    let platform = Platform::start().await;
    let (id, first) = platform.web().await;
    let world = &platform.world;
    // from a VM that is off, too
    world.power(id, "stop").await;
    world.until_idle(id).await;
    let rescued = platform.rescued(id, "r1").await;
    assert_eq!(rescued.power(), PowerState::Rescued);
    world.power(id, "stop").await;
    world.until_idle(id).await;
    assert_eq!(platform.now(id).await.power(), PowerState::Stopped);
    world.power(id, "start").await;
    world.until_idle(id).await;
    let started = platform.now(id).await;
    assert_eq!(started.power(), PowerState::Running);
    assert_eq!(keys(&started), keys(&first), "its own disk has booted");
    assert!(!platform.is_rescued(&first.vm));

    assert_eq!(
        platform.rescued(id, "r2").await.power(),
        PowerState::Rescued
    );
    let released = platform.release(&id.to_string(), "end").await;
    released.expect("accepted");
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    assert_eq!(world.host.files_of(&first.vm), Vec::<String>::new());
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Available);
    assert!(world.host.state().await.dirty.is_empty(), "it was wiped");
}

#[tokio::test]
async fn p9_a_host_that_restarts_in_a_rescue_starts_the_vm_from_its_own_disk() {
    let platform = Platform::start().await;
    let (id, first) = platform.web().await;
    let world = &platform.world;
    platform.rescued(id, "r1").await;
    world.host_gone().await;
    world.host.restart_machine().await;
    world.host_up().await;
    let deps = world.deps(world.pool.clone(), crate::world::World::config());
    let found = gpuaas_allocation::reconcile::node(&deps, world.node_id).await;
    assert_eq!(found.expect("compared").len(), 1);
    world.until_idle(id).await;
    let back = platform.now(id).await;
    assert_eq!(back.power(), PowerState::Running);
    assert_eq!(keys(&back), keys(&first));
}

#[tokio::test]
async fn p9_a_rescue_takes_another_active_image_of_the_sku_and_leaves_a_vm_alone_that_it_cannot_rescue()
 {
    let platform = Platform::start().await;
    let (id, first) = platform.web().await;
    for (image, reason) in [
        ("", ErrorReason::FieldRequired),
        ("nonsense", ErrorReason::ImageUnknown),
        ("old-mini", ErrorReason::ImageNotActive),
        ("h200-base", ErrorReason::ImageNotCompatible),
        // its disk would look like the rescue's
        ("lab-mini", ErrorReason::ImageNotCompatible),
    ] {
        let refused = platform.rescue(id, image, "k").await.expect_err(image);
        assert_eq!(refused.reason(), reason, "{refused}");
        assert_eq!(refused.fields()[0].0, "image", "{refused:?}");
    }
    assert_eq!(platform.now(id).await, first);
    // an image that cannot be had leaves the VM running
    platform.world.host.script(|script| {
        let class = gpuaas_proto::gpuaas::agent::v1::FailureClass::Host;
        let reason = ErrorReason::ImagePullFailed;
        script.fail = Some(("rescue", "verify_image", reason, class));
    });
    let left = platform.rescued(id, "r1").await;
    assert_eq!(left.power(), PowerState::Running);
    assert_eq!(
        (left.boot_id, left.rescue_image),
        (first.boot_id, String::new())
    );
}

/// An image that takes its time to boot is no failure of the VM: who waits a little longer logs in, to the key that was given to it.
#[tokio::test]
async fn p11_a_rescue_whose_login_comes_late_has_a_host_key_to_pin() {
    let platform = Platform::start().await;
    let (id, first) = platform.web().await;
    platform.world.host.script(|script| {
        let class = gpuaas_proto::gpuaas::agent::v1::FailureClass::Guest;
        let reason = ErrorReason::GuestNoLogin;
        script.fail = Some(("rescue", "wait_login", reason, class));
    });
    let late = platform.rescued(id, "r1").await;
    assert_eq!(late.power(), PowerState::Rescued);
    assert_eq!(keys(&late).len(), 1, "{late:?}");
    assert_ne!(keys(&late), keys(&first));
    platform.unrescue(id, "u1").await.expect("accepted");
    platform.world.until_idle(id).await;
    let back = platform.now(id).await;
    assert_eq!(
        (back.power(), keys(&back)),
        (PowerState::Running, keys(&first))
    );
}
