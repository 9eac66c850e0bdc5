//! What the runner makes of operations it finds in the journal, on libvirt's test driver.
use gpuaas_dev::until::until;
use uuid::Uuid;

use super::*;
use crate::host::clock::BootMoment;
use crate::settings::Settings;

fn node(folder: &std::path::Path) -> Arc<Node> {
    let text = format!(
        "state_dir = {folder:?}\nlibvirt_uri = \"test:///default\"\n\
         [profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\ncpu_model = \"qemu64\"\n\
         [images]\ncache_dir = {cache:?}\n[relay]\nkey_file = {key:?}\n[dhcp]\nhosts_dir = {folder:?}\n\
         leases_file = {key:?}\npid_file = {key:?}\n[network]\nbridge_kind = \"linux\"\nmode = \"routed\"\n",
        cache = folder.join("cache"),
        key = folder.join("id"),
    );
    let settings: Settings = toml::from_str(&text).unwrap();
    Arc::new(Node::open(settings, b"").unwrap())
}

fn operation(kind: Kind, deadline: BootMoment) -> NewOperation {
    NewOperation {
        id: OperationId(Uuid::now_v7()),
        kind,
        allocation: AllocationId(Uuid::now_v7()),
        request: Vec::new(),
        request_hash: String::new(),
        lease: None,
        lease_request: pb::AcquireLeaseRequest::default(),
        plan: pb::BundlePlan::default(),
        traceparent: String::new(),
        deadline,
        started_ms: 0,
        steps: steps_of(kind).iter().map(|step| step.name).collect(),
    }
}

async fn ended(node: &Node, id: OperationId) -> OperationRow {
    let mut changes = node.journal.changes();
    loop {
        changes.mark_unchanged();
        let row = node.journal.operation(id).unwrap().unwrap();
        if row.state != State::Running {
            return row;
        }
        changes.changed().await.unwrap();
    }
}

#[tokio::test]
async fn d_10_an_operation_of_an_earlier_boot_is_undone_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let before = BootMoment {
        boot_id: "an earlier boot".into(),
        nanos: u64::MAX,
    };
    let new = operation(Kind::Provision, before);
    node.journal.start_operation(&new).unwrap();
    node.journal.begin_step(new.id, "seed", 0).unwrap();
    let seed = node.seed_dir(&new.allocation.vm_name());
    std::fs::create_dir_all(&seed).unwrap();
    assert_eq!(Runner::new(Arc::clone(&node)).resume().unwrap(), 1);
    let row = ended(&node, new.id).await;
    let failure = row.failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.host_clean),
        ("LEASE_EXPIRED", true)
    );
    assert!(!seed.exists());
    assert_eq!(
        Runner::new(node).resume().unwrap(),
        0,
        "an operation that ended is not taken up again"
    );
}

#[tokio::test]
async fn inc_22_a_budget_that_is_over_ends_the_operation() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let new = operation(Kind::Provision, node.clock.now());
    let id = new.id;
    Runner::new(Arc::clone(&node)).begin(new).unwrap();
    let row = ended(&node, id).await;
    assert_eq!(row.state, State::Failed);
    assert_eq!(row.failure.unwrap().reason, "DEADLINE_EXCEEDED");
}

/// Its steps are done, and it would be tried for ever.
#[tokio::test]
async fn p7_an_operation_without_a_result_is_undone_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let budget = node.clock.now().plus(Duration::from_secs(60));
    let new = operation(Kind::Provision, budget);
    node.journal.start_operation(&new).unwrap();
    let nothing = serde_json::Value::Null;
    for step in &new.steps {
        node.journal
            .end_step(new.id, step, StepStatus::Done, "", &nothing, 0)
            .unwrap();
    }
    assert_eq!(Runner::new(Arc::clone(&node)).resume().unwrap(), 1);
    let row = ended(&node, new.id).await;
    assert_eq!(row.state, State::Failed);
    let failure = row.failure.unwrap();
    assert_eq!(
        (failure.step.as_str(), failure.reason.as_str()),
        ("", "INTERNAL")
    );
    assert!(
        failure.message.contains("without slots"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_clean_up_of_nothing_succeeds_and_keeps_holds() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let new = operation(
        Kind::CleanUp,
        node.clock.now().plus(Duration::from_secs(60)),
    );
    let id = new.id;
    Runner::new(Arc::clone(&node)).begin(new).unwrap();
    let row = ended(&node, id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.failure);
    assert_eq!(row.steps[0].status, StepStatus::Skipped);
}

/// An operation on one slot under a lease that was taken for `purpose`.
fn on_slot(node: &Node, kind: Kind, purpose: pb::LeasePurpose) -> (NewOperation, SlotId) {
    let mut new = operation(kind, node.clock.now().plus(Duration::from_secs(60)));
    let slot = SlotId(Uuid::now_v7());
    let bindings = gpuaas_proto::gpuaas::common::v1::SlotBindings {
        nvme_device: format!("lab-disk:{}", Uuid::now_v7()),
        nvme_bytes: 1 << 20,
        destructive_wipe_policy: "blkdiscard".into(),
        ..Default::default()
    };
    new.lease_request = pb::AcquireLeaseRequest {
        allocation_id: new.allocation.to_string(),
        slots: vec![pb::SlotGrant {
            slot_id: slot.to_string(),
            bindings: Some(bindings),
            ..Default::default()
        }],
        purpose: purpose.into(),
        ..Default::default()
    };
    (new, slot)
}

fn hold(node: &Node, new: &NewOperation, slot: SlotId) {
    let spec = crate::lease::LeaseSpec {
        allocation: new.allocation,
        slots: vec![(slot, crate::ids::Token::default())]
            .try_into()
            .unwrap(),
        devices: Vec::new(),
        replaced: Vec::new(),
        purpose: crate::lease::Purpose::Release,
    };
    let now = node.clock.now();
    let id = crate::ids::LeaseId(Uuid::now_v7());
    let granted = node.journal.grant_lease(
        &spec,
        id,
        &new.deadline,
        &now,
        &new.lease_request,
        &new.plan,
    );
    granted.unwrap().unwrap();
}

/// A release requested again after its proof has a lease and no hold: the slot may be another's by now.
#[tokio::test]
async fn d_29_a_slot_that_is_not_held_is_never_wiped() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let (new, _) = on_slot(&node, Kind::Release, pb::LeasePurpose::Release);
    let id = new.id;
    Runner::new(Arc::clone(&node)).begin(new).unwrap();
    let failure = ended(&node, id).await.failure.unwrap();
    assert_eq!(
        (failure.step.as_str(), failure.reason.as_str()),
        ("wipe", "LEASE_REQUIRED"),
        "{}",
        failure.message
    );
}

/// A provision that was under way when another worker took the lease for a release: it comes too late.
#[tokio::test]
async fn d_08_a_late_provision_never_writes_under_the_lease_of_a_release() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let (new, slot) = on_slot(&node, Kind::Provision, pb::LeasePurpose::Release);
    hold(&node, &new, slot);
    node.journal.start_operation(&new).unwrap();
    let nothing = serde_json::Value::Null;
    node.journal
        .end_step(new.id, "verify_image", StepStatus::Done, "", &nothing, 0)
        .unwrap();
    Runner::new(Arc::clone(&node)).resume().unwrap();
    let failure = ended(&node, new.id).await.failure.unwrap();
    assert_eq!(
        (failure.step.as_str(), failure.reason.as_str()),
        ("prove_disk", "LEASE_REQUIRED"),
        "{}",
        failure.message
    );
}

/// The start of a VM was given up and undone, and comes true all the same afterwards: nothing runs in the end.
/// D-72, D-73: an undefine that leaves a domain is tried again, and a domain that is shut off keeps no disk.
#[tokio::test]
async fn inc_26_a_start_that_comes_after_its_undo_leaves_no_vm() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let new = operation(
        Kind::Provision,
        node.clock.now().plus(Duration::from_secs(60)),
    );
    node.journal.start_operation(&new).unwrap();
    node.journal.begin_step(new.id, "define", 0).unwrap();
    let name = new.allocation.vm_name();
    let xml = format!(
        "<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
    );
    node.hypervisor.define(xml).await.unwrap();
    node.hypervisor.start(name.as_str()).await.unwrap();
    let failure = Failure {
        reason: "STATE_CONFLICT".into(),
        message: String::new(),
        step: "start".into(),
        class: 0,
        host_clean: false,
        serial_log_end: String::new(),
    };
    node.journal.record_failure(new.id, &failure).unwrap();
    Runner::new(Arc::clone(&node)).resume().unwrap();
    ended(&node, new.id).await;
    let state = node.hypervisor.state(name.as_str()).await.unwrap();
    assert_eq!(state, None);
}

#[tokio::test]
async fn allocations_whose_operations_ended_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let runner = Runner::new(Arc::clone(&node));
    for _ in 0..3 {
        let new = operation(
            Kind::CleanUp,
            node.clock.now().plus(Duration::from_secs(60)),
        );
        let id = new.id;
        runner.begin(new).unwrap();
        ended(&node, id).await;
    }
    until(
        "turns that are dropped",
        Duration::from_secs(10),
        async || lock(&runner.turns).is_empty().then_some(()),
    )
    .await;
}

/// What removes a failed VM was journaled under another name by an earlier agent, which was stopped in the middle of it.
#[tokio::test]
async fn p5_an_operation_that_an_earlier_agent_began_is_taken_up() {
    let dir = tempfile::tempdir().unwrap();
    let id = {
        let node = node(dir.path());
        let budget = node.clock.now().plus(Duration::from_secs(60));
        let new = operation(Kind::CleanUp, budget);
        node.journal.start_operation(&new).unwrap();
        new.id
    };
    let journal = rusqlite::Connection::open(dir.path().join("journal.sqlite")).unwrap();
    let renamed = journal.execute("UPDATE operations SET kind = 'discard'", []);
    assert_eq!(renamed.unwrap(), 1);
    drop(journal);

    let node = node(dir.path());
    assert_eq!(Runner::new(Arc::clone(&node)).resume().unwrap(), 1);
    let row = ended(&node, id).await;
    assert_eq!((row.kind, row.state), (Kind::CleanUp, State::Succeeded));
}

/// It ends with the steps that it was begun with: what an agent of today would do besides is another's work.
#[tokio::test]
async fn p5_a_release_that_an_agent_without_the_reset_began_is_brought_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let mut new = operation(
        Kind::Release,
        node.clock.now().plus(Duration::from_secs(60)),
    );
    assert_eq!(new.steps.pop(), Some("reset_devices"));
    let id = new.id;
    node.journal.start_operation(&new).unwrap();
    Runner::new(Arc::clone(&node)).resume().unwrap();
    let row = ended(&node, id).await;
    assert_eq!(row.state, State::Succeeded, "{:?}", row.failure);
    assert_eq!(row.steps.last().unwrap().name, "verify_wipe");
}

#[tokio::test]
async fn p5_a_hold_that_nothing_came_of_is_ended_and_one_with_a_vm_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let [(_, _), (with_vm, its_slot)] = [(); 2].map(|()| {
        let (mut new, slot) = on_slot(&node, Kind::Provision, pb::LeasePurpose::Release);
        // the lease has ended by the time of the inspection
        new.deadline = node.clock.now();
        hold(&node, &new, slot);
        (new, slot)
    });
    let name = with_vm.allocation.vm_name();
    let xml = format!(
        "<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os></domain>"
    );
    node.hypervisor.define(xml).await.unwrap();
    let ended = crate::leftovers::end_empty_holds(&node).await.unwrap();
    assert_eq!(ended, 1);
    let left = node.journal.holds().unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].slot, its_slot);
    node.hypervisor.undefine(name.as_str()).await.unwrap();
    assert_eq!(crate::leftovers::end_empty_holds(&node).await.unwrap(), 1);
}

/// The disk of a host may take its time: a step that reads or writes files keeps no call waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_step_that_waits_for_the_disk_holds_up_no_call() {
    use std::io::Write as _;

    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let mut new = operation(
        Kind::Provision,
        node.clock.now().plus(Duration::from_secs(60)),
    );
    let request = pb::ProvisionRequest {
        hostname: "guest".into(),
        guest_user: "u_adda9308def04a2f".into(),
        ..Default::default()
    };
    new.request = prost::Message::encode_to_vec(&request);
    node.journal.start_operation(&new).unwrap();
    let nothing = serde_json::Value::Null;
    for done in ["verify_image", "prove_disk", "clone"] {
        node.journal
            .end_step(new.id, done, StepStatus::Done, "", &nothing, 0)
            .unwrap();
    }
    // a key that cannot be read to its end for a while
    let key_file = node.seed_host_key(&new.allocation.vm_name());
    std::fs::create_dir_all(key_file.parent().unwrap()).unwrap();
    nix::unistd::mkfifo(&key_file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    Runner::new(Arc::clone(&node)).resume().unwrap();
    let mut writer = std::fs::OpenOptions::new()
        .write(true)
        .open(&key_file)
        .unwrap();
    let (answer, answered) = std::sync::mpsc::channel();
    tokio::spawn(async move { answer.send(()) });
    let answered = answered.recv_timeout(Duration::from_secs(10));
    writer.write_all(b"no key").unwrap();
    drop(writer);
    let failure = ended(&node, new.id).await.failure.unwrap();
    assert_eq!(failure.step, "seed", "{}", failure.message);
    assert_eq!(answered, Ok(()), "the call waited for the file");
}

/// A removal that went on after its step was dropped would take away what the step writes when it is repeated.
#[tokio::test]
async fn p5_a_removal_of_a_seed_or_rescue_disk_does_not_outlive_its_step() {
    let dir = tempfile::tempdir().unwrap();
    let node = node(dir.path());
    let of = AllocationId(Uuid::now_v7());
    let folders = [node.seed_dir(&of.vm_name()), node.rescue_dir(&of.vm_name())];
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
    }
    let removals = async {
        crate::operation::remove::seed(&node, of).await.unwrap();
        crate::operation::remove::rescue(&node, of).await.unwrap();
    };
    tokio::select! {
        biased;
        () = removals => {}
        () = std::future::ready(()) => panic!("the removal goes on elsewhere"),
    }
    assert!(folders.iter().all(|folder| !folder.exists()));
}
