//! A host whose own file system is full, on a small one of this machine.
use std::path::Path;
use std::sync::Arc;

use gpuaas_agent::ids::{AllocationId, Digest};
use gpuaas_agent::journal::{Kind, State, StepStatus};
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::{Runner, steps_of};
use gpuaas_agent::vm::PowerState;
use gpuaas_dev::process::run;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;
use sha2::Digest as _;

use crate::world::{self, allocation};

/// A file system of this size, until it is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let size = format!("size={size}");
        let path = folder.path().to_string_lossy();
        run("mount", &["-t", "tmpfs", "-o", &size, "gpuaas-test", &path]).expect("mounted");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all that is left of it, into a file.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).expect("a file");
        let full = std::io::copy(&mut std::io::repeat(1), &mut file).expect_err("full");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path().join("filler")).expect("removed");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _best_effort = run("umount", &["-l", &self.0.path().to_string_lossy()]);
    }
}

/// An image in the cache.
fn cached(node: &Node, content: &[u8]) -> pb::ImageRef {
    let digest = Digest::of_bytes(&sha2::Sha256::digest(content));
    std::fs::write(node.images.file(&digest), content).expect("a file");
    pb::ImageRef {
        digest: digest.to_string(),
        ..pb::ImageRef::default()
    }
}

async fn state(node: &Node, of: AllocationId) -> Option<PowerState> {
    let state = node.hypervisor.state(of.vm_name().as_str()).await;
    state.expect("libvirt")
}

/// The guest could fill its rescue disk up to the last byte, and the journal lies on the same file system.
#[tokio::test]
async fn p5_a_rescue_that_a_full_disk_has_no_room_for_leaves_the_vm_running() {
    let small = Small::mount("16m");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let mut settings = world::settings(small.path());
    settings["images"]["cache_dir"] = elsewhere.path().to_string_lossy().into();
    let node = world::node(settings);
    let request = pb::PowerRequest {
        rescue_image: Some(cached(&node, &[7; 1 << 20])),
        ..pb::PowerRequest::default()
    };
    let vm = allocation();
    world::run_vm(&node, vm, "").await;
    let mut rescue = world::operation(&node, Kind::Rescue, vm, Vec::new());
    rescue.request = request.encode_to_vec();
    let id = rescue.id;
    let row = world::driven(&node, rescue).await;
    let failure = row.failure.expect("failed");
    assert_eq!(
        (failure.step.as_str(), failure.reason.as_str()),
        ("verify_image", "HOST_NOT_READY")
    );
    assert!(failure.message.contains("MiB free"), "{}", failure.message);
    assert_eq!(state(&node, vm).await, Some(PowerState::Running));

    // room that went away after the VM was stopped: nothing is copied
    node.hypervisor
        .destroy(vm.vm_name().as_str())
        .await
        .expect("libvirt");
    let refused = world::step(&node, id, "copy_image")
        .await
        .expect_err("refused");
    assert_eq!(refused.reason, ErrorReason::HostNotReady);
    assert!(!node.rescue_dir(&vm.vm_name()).join("disk.raw").exists());

    // the same image on a file system with room for it
    let roomy = tempfile::tempdir().expect("a folder");
    let node = world::node(world::settings(roomy.path()));
    cached(&node, &[7; 1 << 20]);
    let mut rescue = world::operation(&node, Kind::Rescue, vm, Vec::new());
    rescue.request = request.encode_to_vec();
    assert!(node.journal.start_operation(&rescue).expect("a journal"));
    let room = world::step(&node, rescue.id, "verify_image").await;
    room.expect("room");
    node.hypervisor
        .undefine(vm.vm_name().as_str())
        .await
        .expect("libvirt");
}

/// What cannot be journaled is not done; it goes on by itself when there is room.
#[tokio::test]
async fn p5_a_journal_on_a_full_disk_begins_nothing_and_loses_nothing() {
    let small = Small::mount("16m");
    let node = world::node(world::settings(small.path()));
    let runner = Runner::new(Arc::clone(&node));
    let (vm, other) = (allocation(), allocation());
    for one in [vm, other] {
        world::run_vm(&node, one, "").await;
    }
    let mut stop = world::operation(&node, Kind::Stop, vm, Vec::new());
    stop.steps = steps_of(Kind::Stop).iter().map(|step| step.name).collect();
    let id = stop.id;
    assert!(node.journal.start_operation(&stop).expect("a journal"));
    small.fill();
    // one that is known waits, and one that is new is refused
    runner.resume().expect("a journal that can be read");
    let mut new = world::operation(&node, Kind::Stop, other, Vec::new());
    // more than what is left of the journal's last page
    new.request = vec![1; 1 << 20];
    let refused = runner.begin(new).expect_err("no room");
    assert!(refused.message.contains("full"), "{refused}");
    for one in [vm, other] {
        assert_eq!(state(&node, one).await, Some(PowerState::Running));
    }

    small.make_room();
    let row = world::until(&node, id, |row| row.state != State::Running).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.failure);
    assert_eq!(row.steps[0].status, StepStatus::Done);
    assert_eq!(state(&node, vm).await, Some(PowerState::ShutOff));
    for one in [vm, other] {
        let name = one.vm_name();
        node.hypervisor
            .destroy(name.as_str())
            .await
            .expect("libvirt");
        node.hypervisor
            .undefine(name.as_str())
            .await
            .expect("libvirt");
    }
}
