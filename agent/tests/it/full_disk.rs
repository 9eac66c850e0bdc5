//! A host whose own file system is full, on a small one of this machine.
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpuaas_agent::ids::{AllocationId, Digest};
use gpuaas_agent::image::clone::clone_image;
use gpuaas_agent::image::registry::Registry;
use gpuaas_agent::image::{ImageCache, ImageSource};
use gpuaas_agent::journal::{Journal, Kind, State, StepStatus};
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::{Runner, steps_of};
use gpuaas_agent::settings::Limits;
use gpuaas_agent::vm::PowerState;
use gpuaas_dev::process::run;
use gpuaas_dev::registry::TestRegistry;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig};
use prost::Message as _;
use sha2::Digest as _;

use crate::loop_disk::LoopDisk;
use crate::world::{self, allocation};

/// A file system of this size, until it is dropped.
struct Small {
    at: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl Small {
    fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().to_owned();
        Self::of(at, size, Some(folder))
    }

    /// Over a folder that is there.
    fn over(folder: &Path, size: &str) -> Self {
        Self::of(folder.to_owned(), size, None)
    }

    fn of(at: PathBuf, size: &str, folder: Option<tempfile::TempDir>) -> Self {
        let size = format!("size={size}");
        let path = at.to_string_lossy();
        run("mount", &["-t", "tmpfs", "-o", &size, "gpuaas-test", &path]).expect("mounted");
        Self {
            at,
            _folder: folder,
        }
    }

    fn path(&self) -> &Path {
        &self.at
    }

    /// Takes all that is left of it, into a file.
    fn fill(&self) {
        self.fill_but(0);
    }

    /// The same, but for so many bytes.
    fn fill_but(&self, left: u64) {
        let mut file = std::fs::File::create(self.path().join("filler")).expect("a file");
        let full = std::io::copy(&mut std::io::repeat(1), &mut file).expect_err("full");
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let taken = file.metadata().expect("a file").len();
        file.set_len(taken - left).expect("a file");
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path().join("filler")).expect("removed");
    }

    /// What is there beside what fills it.
    fn names(&self) -> Vec<OsString> {
        let entries = std::fs::read_dir(self.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names.filter(|name| name != "filler").collect()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _best_effort = run("umount", &["-l", &self.path().to_string_lossy()]);
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

/// The guest could fill its rescue disk up to the last byte, and the journal lies on the same file system. P11: nobody else reads it.
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
    // what an agent before had made for everybody to read is not read on
    let disk = node.rescue_dir(&vm.vm_name()).join("disk.raw");
    std::fs::create_dir_all(disk.parent().expect("a folder")).expect("a folder");
    std::fs::write(&disk, "left").expect("a file");
    let mut left = std::fs::File::open(&disk).expect("a file");
    let copied = world::step(&node, rescue.id, "copy_image").await;
    copied.expect("copied");
    let data = std::fs::metadata(&disk).expect("a disk");
    assert_eq!(data.permissions().mode() & 0o777, 0o600);
    assert!(data.blocks() * 512 >= 1 << 20, "it is whole");
    assert!(std::fs::read(&disk).expect("a disk") == [7_u8; 1 << 20]);
    let seen = std::io::read_to_string(&mut left).expect("a file");
    assert_eq!(seen, "left");
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
    // the caller calls again
    assert_eq!(refused.reason, ErrorReason::Overloaded, "{refused}");
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

/// D-24: half an image is none, and takes no room from what comes after it.
#[tokio::test]
async fn p5_an_image_that_a_full_disk_has_no_room_for_leaves_nothing_of_itself() {
    let registry = TestRegistry::start();
    let content = vec![7_u8; 4 << 20];
    let source = push(&registry, &content).await;
    let small = Small::mount("8m");
    let journal = Arc::new(Journal::in_memory().expect("a journal"));
    let ca = std::fs::read(registry.server().ca_file()).expect("a CA");
    let pulls = Registry::new(&ca);
    let limits = Limits {
        min_free_bytes: 0,
        ..Limits::default()
    };
    let cache = ImageCache::new(small.path(), pulls, journal, &limits).expect("a cache");
    // an image of unknown size is found to be too large when it is written
    let unknown = ImageSource {
        size_bytes: 0,
        ..source.clone()
    };
    for (source, said) in [(&source, "MiB free"), (&unknown, "No space left")] {
        for left in [0, 1 << 20] {
            small.fill_but(left);
            let full = cache.ensure(source, |_| {}).await.expect_err("no room");
            assert_eq!(full.reason, ErrorReason::HostNotReady, "{full}");
            assert!(full.message.contains(said), "{full}");
            assert_eq!(small.names(), Vec::<OsString>::new(), "{left}");
            assert_eq!(cache.verified().expect("a journal"), []);
        }
    }
    small.make_room();
    let file = cache.ensure(&source, |_| {}).await.expect("room");
    assert!(std::fs::read(file).expect("an image") == content);
    assert_eq!(cache.verified().expect("a journal"), [source.digest]);
}

/// The image that was used longest ago goes first, one that a running operation needs never, and none where all that may go is
/// too little.
#[tokio::test]
async fn p5_a_pull_makes_room_by_images_that_nothing_needs_and_leaves_the_reserve() {
    const MIB: u64 = 1 << 20;
    let registry = TestRegistry::start();
    let (small, elsewhere) = (Small::mount("9m"), tempfile::tempdir().expect("a folder"));
    let mut settings = world::settings(elsewhere.path());
    settings["images"]["cache_dir"] = small.path().to_string_lossy().into();
    settings["images"]["registry_ca_file"] = registry.server().ca_file().to_string_lossy().into();
    settings["limits"] = serde_json::json!({ "min_free_bytes": MIB });
    let node = world::node(settings);
    let mut sources = Vec::new();
    for (number, at_ms) in [(1_u8, 1), (2, 3), (3, 2)] {
        let source = push(&registry, &vec![number; 2 << 20]).await;
        let pulled = node.images.ensure(&source, |_| {}).await;
        pulled.expect("room");
        let used = node.journal.use_image(&source.digest, at_ms);
        used.expect("a journal");
        sources.push(source);
    }
    let [in_use, later, earlier]: [ImageSource; 3] = sources.try_into().expect("three");
    let named = node.images.name("lab-mini", &earlier.digest);
    named.expect("named");
    let mut launch = world::operation(&node, Kind::Provision, allocation(), Vec::new());
    launch.request = pb::ProvisionRequest {
        image: Some(pb::ImageRef {
            digest: in_use.digest.to_string(),
            ..pb::ImageRef::default()
        }),
        ..pb::ProvisionRequest::default()
    }
    .encode_to_vec();
    assert!(node.journal.start_operation(&launch).expect("a journal"));
    let sorted = |mut digests: Vec<Digest>| {
        digests.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        digests
    };
    let cached = || node.images.verified().expect("a journal");

    // 3 MiB are free: with the two images that may go, 7
    let large = push(&registry, &vec![4_u8; 7 << 20]).await;
    let full = node.images.ensure(&large, |_| {}).await;
    let full = full.expect_err("no room");
    assert_eq!(full.reason, ErrorReason::HostNotReady, "{full}");
    assert!(full.message.contains("3 MiB free"), "{full}");
    assert_eq!(cached().len(), 3);

    let next = push(&registry, &vec![5_u8; 3 << 20]).await;
    let pulled = node.images.ensure(&next, |_| {}).await;
    pulled.expect("room");
    let digests = vec![in_use.digest, later.digest, next.digest];
    assert_eq!(cached(), sorted(digests));
    assert!(!node.images.file(&earlier.digest).exists());
    // a name that leads nowhere would be taken for an image
    assert_eq!(small.names().len(), 3, "{:?}", small.names());
    let again = node.images.ensure(&earlier, |_| {}).await;
    again.expect("the second that may go makes room");
}

async fn push(registry: &TestRegistry, content: &[u8]) -> ImageSource {
    let server = registry.server();
    let config = ClientConfig {
        tls_certs_only: vec![Certificate {
            encoding: CertificateEncoding::Pem,
            data: std::fs::read(server.ca_file()).expect("a CA"),
        }],
        ..ClientConfig::default()
    };
    let digest = Digest::of_bytes(&sha2::Sha256::digest(content));
    let reference = format!("{}/lab/full-disk@{digest}", server.host());
    let client = oci_client::Client::new(config);
    let to = reference.parse().expect("a reference");
    let pushed = client.push_blob(&to, content.to_vec(), digest.as_str());
    pushed.await.expect("pushed");
    ImageSource {
        digest,
        source_uri: format!("oci://{reference}"),
        size_bytes: content.len() as u64,
    }
}

/// The seed has a private key: half of it is as much of a leftover as all of it.
#[tokio::test]
async fn p5_a_seed_that_a_full_disk_has_no_room_for_is_undone() {
    let folder = tempfile::tempdir().expect("a folder");
    let node = world::node(world::settings(folder.path()));
    let small = Small::over(&node.seeds_dir(), "2m");
    let request = pb::ProvisionRequest {
        hostname: "guest".into(),
        guest_user: "u_adda9308def04a2f".into(),
        ..pb::ProvisionRequest::default()
    };
    let begin = || {
        let mut new = world::operation(&node, Kind::Provision, allocation(), Vec::new());
        new.request = request.encode_to_vec();
        let steps = steps_of(Kind::Provision).iter();
        new.steps = steps.map(|step| step.name).collect();
        assert!(node.journal.start_operation(&new).expect("a journal"));
        for done in ["verify_image", "prove_disk", "clone"] {
            let nothing = serde_json::Value::Null;
            let ended = node
                .journal
                .end_step(new.id, done, StepStatus::Done, "", &nothing, 0);
            ended.expect("a journal");
        }
        new.id
    };
    // no room for the key, for the texts, and for the image of them
    for left in [0, 4 << 10, 64 << 10] {
        small.fill_but(left);
        let id = begin();
        let runner = Runner::new(Arc::clone(&node));
        assert_eq!(runner.resume().expect("a journal"), 1);
        let row = world::until(&node, id, |row| row.state != State::Running).await;
        let failure = row.failure.expect("failed");
        assert_eq!(
            (failure.step.as_str(), failure.reason.as_str()),
            ("seed", "HOST_NOT_READY"),
            "{left}: {}",
            failure.message
        );
        assert!(failure.host_clean, "{left}: {}", failure.message);
        assert_eq!(small.names(), Vec::<OsString>::new(), "{left}");
    }
    small.make_room();
    let id = begin();
    world::step(&node, id, "seed").await.expect("room");
    let row = node.journal.operation(id).expect("a journal");
    let vm = row.expect("a row").allocation.vm_name();
    assert!(node.seed_iso(&vm).exists());
}

/// A lab disk is a file that takes its room when it is written. The clone is whole or has failed, and is made anew.
#[tokio::test]
async fn p5_a_clone_onto_a_disk_that_has_no_room_fails_and_is_made_anew() {
    let small = Small::mount("4m");
    let disk = LoopDisk::attach_in(small.path());
    let content = std::fs::read(&disk.image).expect("an image");
    let limit = std::time::Duration::from_secs(60);
    // none at all: the kernel's loop device calls a write done of which a part found room
    small.fill();
    let opened = disk.open_exclusively().await;
    let cloned = clone_image(&disk.image, &opened, limit, |_| {}).await;
    let full = cloned.expect_err("no room");
    assert_eq!(full.reason, ErrorReason::HostNotReady, "{full}");
    assert!(full.message.contains("qemu-img convert failed"), "{full}");
    drop(opened);

    small.make_room();
    let opened = disk.open_exclusively().await;
    let cloned = clone_image(&disk.image, &opened, limit, |_| {}).await;
    cloned.expect("room");
    drop(opened);
    let written = std::fs::read(&disk.device).expect("a disk");
    assert!(written[..content.len()] == content);
    assert!(written[content.len()..].iter().all(|byte| *byte == 0));
}
