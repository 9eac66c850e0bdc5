//! The reset of a slot's GPU and virtual function, on a host whose sysfs is made of files.
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;

use gpuaas_agent::error::HostResult;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::journal::{Kind, StepStatus};
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::{Done, Work, wipe_result};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use uuid::Uuid;

use crate::world;

const GPUS: [&str; 3] = ["0000:1b:00.0", "0000:3d:00.0", "0000:4e:00.0"];
const FUNCTIONS: [&str; 3] = ["0000:9c:00.1", "0000:9c:00.2", "0000:9c:00.3"];

fn slot(index: usize) -> Uuid {
    Uuid::from_u128(0x4000_8000_0000_0000_0000 + index as u128)
}

/// A host with three slots, all devices of which are bound to VFIO.
struct Machine {
    node: Arc<Node>,
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut node = world::node(world::settings(folder.path()));
        let own = Arc::get_mut(&mut node).expect("nobody else has it");
        own.root = HostRoot::new(folder.path().join("root"));
        let machine = Self { node, folder };
        for address in GPUS.into_iter().chain(FUNCTIONS) {
            let device = machine.device(address);
            std::fs::create_dir_all(&device).expect("a folder");
            for (file, text) in [("vendor", "0x10de\n"), ("config", "\u{1}"), ("reset", "")] {
                std::fs::write(device.join(file), text).expect("a file");
            }
            let driver = "../../../bus/pci/drivers/vfio-pci";
            symlink(driver, device.join("driver")).expect("a link");
        }
        std::fs::create_dir_all(machine.folder.path().join("root/proc")).expect("a folder");
        machine
    }

    fn device(&self, address: &str) -> PathBuf {
        let devices = self.folder.path().join("root/sys/bus/pci/devices");
        devices.join(address)
    }

    /// Devices that were reset.
    fn reset(&self) -> BTreeSet<&'static str> {
        let is_reset = |address: &&str| {
            let file = self.device(address).join("reset");
            std::fs::read_to_string(file).is_ok_and(|text| text == "1\n")
        };
        let all = GPUS.into_iter().chain(FUNCTIONS);
        all.filter(is_reset).collect()
    }

    /// What the control plane gets of a release of all slots whose devices were reset so.
    fn evidence(&self, reset: &Done) -> Vec<pb::WipeEvidence> {
        let journal = &self.node.journal;
        let operation = journal.running_operations().expect("operations").pop();
        let id = operation.expect("one").id;
        let wiped = json!([{ "at": 1 }, { "at": 1 }, { "at": 1 }]);
        for (step, output) in [
            ("wipe", &wiped),
            ("verify_wipe", &wiped),
            ("reset_devices", &reset.output),
        ] {
            journal.begin_step(id, step, 1).expect("recorded");
            let ended = journal.end_step(id, step, StepStatus::Done, "", output, 1);
            ended.expect("recorded");
        }
        let operation = journal.operation(id).expect("a journal").expect("a row");
        let work = Work {
            node: Arc::clone(&self.node),
            operation,
            step: "reset_devices",
        };
        wipe_result(&work).expect("evidence").wipe_evidence
    }

    /// The step alone, of an operation on the slots of these indexes.
    async fn step(&self, kind: Kind, slots: &[usize]) -> HostResult<Done> {
        let grant = |index: &usize| pb::SlotGrant {
            slot_id: slot(*index).to_string(),
            bindings: Some(SlotBindings {
                gpu_pci_address: GPUS[*index].into(),
                fabric_vf_pci_address: FUNCTIONS[*index].into(),
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let slots = slots.iter().map(grant).collect();
        let mut new = world::operation(&self.node, kind, world::allocation(), slots);
        new.steps = vec!["wipe", "verify_wipe", "reset_devices"];
        self.node.journal.start_operation(&new)?;
        world::step(&self.node, new.id, "reset_devices").await
    }
}

#[tokio::test]
async fn p2_the_devices_of_the_slots_are_reset_and_no_neighbours() {
    for kind in [Kind::Release, Kind::RepairSlot] {
        let machine = Machine::new();
        let done = machine.step(kind, &[0, 2]).await.expect("reset");
        assert_eq!(done.status, StepStatus::Done);
        let own = [GPUS[0], GPUS[2], FUNCTIONS[0], FUNCTIONS[2]];
        assert_eq!(machine.reset(), own.into(), "{kind:?}");
        for address in own {
            assert!(done.message.contains(address), "{}", done.message);
        }
    }
}

#[tokio::test]
async fn p2_a_slot_whose_device_is_not_reset_is_no_success_of_its_release() {
    let machine = Machine::new();
    let gone = machine.device(FUNCTIONS[1]).join("reset");
    std::fs::remove_file(gone).expect("removed");
    let failure = machine.step(Kind::Release, &[1]).await.expect_err("failed");
    assert_eq!(failure.reason, ErrorReason::DeviceResetFailed);
    assert_eq!(failure.class, pb::FailureClass::Device);
    assert!(
        failure.message.contains(FUNCTIONS[1]),
        "{}",
        failure.message
    );
    // its neighbour's release is as before
    let done = machine.step(Kind::Release, &[0]).await.expect("reset");
    assert_eq!(done.status, StepStatus::Done);
}

/// Of an allocation of several slots.
#[tokio::test]
async fn p2_a_device_that_is_not_reset_takes_its_own_slot_out_of_service_and_no_other() {
    let machine = Machine::new();
    std::fs::remove_file(machine.device(GPUS[1]).join("reset")).expect("removed");
    let done = machine
        .step(Kind::Release, &[0, 1, 2])
        .await
        .expect("two are reset");
    let told = machine.evidence(&done);
    assert_eq!(told.len(), 3);
    for one in &told {
        let is_faulty = one.slot_id == slot(1).to_string();
        assert_eq!(!one.device_fault.is_empty(), is_faulty, "{one:?}");
    }
    let faults = done.output.as_object().expect("the faults");
    assert_eq!(faults.len(), 1, "{faults:?}");
    let why = faults[&slot(1).to_string()].as_str().expect("a text");
    assert!(
        why.starts_with("DEVICE_RESET_FAILED: ") && why.contains(GPUS[1]),
        "{why}"
    );
    // everything else is, the other device of the very slot too
    assert_eq!(
        machine.reset(),
        GPUS.into_iter()
            .chain(FUNCTIONS)
            .filter(|address| *address != GPUS[1])
            .collect()
    );
    // none of them may be allocated
    for index in [0, 2] {
        std::fs::remove_file(machine.device(GPUS[index]).join("reset")).expect("removed");
    }
    let failure = machine.step(Kind::Release, &[0, 1, 2]).await;
    let failure = failure.expect_err("nothing is proven");
    assert_eq!(failure.reason, ErrorReason::DeviceResetFailed);
}

/// A lab slot has none.
#[tokio::test]
async fn a_slot_without_devices_is_done_without_a_reset() {
    let machine = Machine::new();
    let done = machine.step(Kind::Release, &[]).await.expect("skipped");
    assert_eq!(done.status, StepStatus::Skipped);
    assert_eq!(machine.reset(), BTreeSet::new());
}
