//! The step of a repair that binds devices to VFIO again, with a kernel that is played on the tree.
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpuaas_agent::error::HostResult;
use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::journal::{Kind, StepStatus};
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::Done;
use gpuaas_agent::prepare::machine::Kernel;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::binding::{Played, driver, native, process};
use super::{SLOT, TestHost};
use crate::recorded::reference_host::CORNERS;
use crate::world;

const OTHER_SLOT: &str = "0192f0c1-1111-7bbb-8ccc-000000000001";

/// A host whose slot is under repair: its GPU and its function were bound, and have the host's drivers now.
struct Repair {
    host: TestHost,
    node: Arc<Node>,
    played: Played,
    allocation: gpuaas_agent::ids::AllocationId,
    _state: tempfile::TempDir,
}

fn own() -> [String; 2] {
    [CORNERS[0].gpu_address(), CORNERS[0].function_address()]
}

impl Repair {
    fn of(host: TestHost, played: Played) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut settings = world::settings(state.path());
        settings["profile"]["mode"] = "slice".into();
        let mut node = world::node(settings);
        let parts = Arc::get_mut(&mut node).expect("nobody else has it");
        parts.root = HostRoot::new(host.tree());
        parts.kernel = Arc::new(played.clone());
        let repair = Self {
            host,
            node,
            played,
            allocation: world::allocation(),
            _state: state,
        };
        for address in own() {
            repair.keep(&address);
            repair.journal(
                "INSERT INTO slot_devices (slot_id, device) VALUES (?1, ?2)",
                [SLOT, &address],
            );
        }
        repair.hold(SLOT);
        repair
    }

    fn new() -> Self {
        Self::of(native(), Played::default())
    }

    /// The choice for the next start, as the binding left it.
    fn keep(&self, address: &str) {
        let file = format!("/etc/driverctl.d/pci-{address}");
        self.host.write(&file, "vfio-pci\n");
    }

    /// Neither the choice for the next start nor the record has the GPU.
    fn forget_gpu(&self) {
        let file = format!("/etc/driverctl.d/pci-{}", own()[0]);
        fs::remove_file(self.host.path(&file)).unwrap();
    }

    /// A generation of the slot before this one ended with the proof of its wipe.
    fn prove_wipe(&self) {
        self.journal(
            "UPDATE fences SET closed_cell_epoch = 1, closed_generation = 0 WHERE slot_id = ?1 AND ?2 <> ''",
            [SLOT, "proven"],
        );
    }

    fn journal(&self, sql: &str, values: [&str; 2]) {
        let path = self.node.settings.state_dir.join("journal.sqlite");
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.execute(sql, values).unwrap();
    }

    fn hold(&self, slot: &str) {
        let allocation = self.allocation.to_string();
        self.journal(
            "INSERT INTO holds (slot_id, allocation_id) VALUES (?1, ?2)",
            [slot, &allocation],
        );
        self.journal(
            "INSERT INTO fences (slot_id, cell_epoch, slot_generation, workflow_epoch)
             SELECT ?1, 1, 1, 1 WHERE ?2 <> ''",
            [slot, &allocation],
        );
    }

    async fn run_for(&self, purpose: pb::LeasePurpose) -> HostResult<Done> {
        let [gpu, function] = own();
        let slot = pb::SlotGrant {
            slot_id: SLOT.into(),
            bindings: Some(SlotBindings {
                gpu_pci_address: gpu,
                fabric_vf_pci_address: function,
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let mut new = world::operation(&self.node, Kind::RepairSlot, self.allocation, vec![slot]);
        new.lease_request.purpose = purpose.into();
        new.steps = vec!["rebind_devices"];
        self.node.journal.start_operation(&new)?;
        world::step(&self.node, new.id, "rebind_devices").await
    }

    async fn run(&self) -> HostResult<Done> {
        self.run_for(pb::LeasePurpose::Repair).await
    }

    fn drivers(&self) -> [String; 2] {
        own().map(|address| driver(&self.host, &address))
    }

    /// The GPU is left to the host's driver, and nothing was written to it.
    fn assert_left(&self, context: &str) {
        assert_eq!(self.drivers()[0], "nvidia", "{context}");
        let writes = self.played.writes();
        let gpu = &own()[0];
        assert!(
            writes.iter().all(|line| !line.contains(gpu)),
            "{context}: {writes:?}"
        );
    }

    async fn refused(&self, why: &str) {
        let failure = self.run().await.expect_err(why);
        assert_eq!(failure.reason, ErrorReason::DeviceNotBound, "{failure}");
        assert_eq!(failure.class, pb::FailureClass::Device);
        assert!(failure.message.contains(why), "{failure}");
        self.assert_left(why);
    }
}

#[tokio::test]
async fn d_56_d_80_what_another_driver_took_is_bound_again_and_no_neighbours() {
    let repair = Repair::new();
    let done = repair.run().await.expect("bound");
    assert_eq!(done.status, StepStatus::Done);
    for address in own() {
        assert!(done.message.contains(&address), "{}", done.message);
    }
    assert_eq!(repair.drivers(), ["vfio-pci", "vfio-pci"]);
    let neighbour = CORNERS[1].gpu_address();
    assert_eq!(driver(&repair.host, &neighbour), "nvidia");
    assert!(
        !repair
            .played
            .writes()
            .iter()
            .any(|line| line.contains(&neighbour))
    );
    // again, it changes nothing
    let before = repair.played.writes();
    let done = repair.run().await.expect("bound");
    assert_eq!(done.status, StepStatus::Skipped);
    assert_eq!(repair.played.writes(), before);
}

/// Somebody took the choice away, too; the record says that this agent had made it.
#[tokio::test]
async fn d_57_a_choice_that_somebody_removed_is_made_again() {
    let repair = Repair::new();
    let gpu = &own()[0];
    let file = format!("/etc/driverctl.d/pci-{gpu}");
    fs::remove_file(repair.host.path(&file)).unwrap();
    let record = repair.node.settings.state_dir.join("vfio-devices");
    repair
        .host
        .write(record.to_str().unwrap(), &format!("{gpu}\n"));
    repair.run().await.expect("bound");
    assert_eq!(repair.drivers(), ["vfio-pci", "vfio-pci"]);
    assert_eq!(repair.host.read(&file), "vfio-pci\n");
}

/// The first wipe comes before the first binding, which waits for a host that was prepared for it.
#[tokio::test]
async fn d_58_at_its_first_wipe_a_device_that_was_never_bound_here_is_left_to_the_host() {
    let repair = Repair::new();
    repair.forget_gpu();
    let done = repair.run().await.expect("told");
    assert!(done.message.contains("was never bound"), "{}", done.message);
    repair.assert_left("never bound");
    assert_eq!(repair.drivers()[1], "vfio-pci");
}

/// Another host may have bound it, or the record was lost: a slot that was offered needs its devices.
#[tokio::test]
async fn d_56_d_57_a_repair_after_the_first_wipe_binds_what_the_host_has_no_record_of() {
    let repair = Repair::new();
    repair.forget_gpu();
    repair.prove_wipe();
    let done = repair.run().await.expect("bound");
    assert_eq!(done.status, StepStatus::Done);
    assert_eq!(repair.drivers(), ["vfio-pci", "vfio-pci"]);
    let gpu = &own()[0];
    let kept = format!("/etc/driverctl.d/pci-{gpu}");
    assert_eq!(repair.host.read(&kept), "vfio-pci\n");

    // nor does it end well while something keeps the device from VFIO
    let repair = Repair::new();
    repair.forget_gpu();
    repair.prove_wipe();
    repair.host.write("/proc/900/comm", "nv-fabricmanage\n");
    repair.refused("runtime-prepare").await;
}

#[tokio::test]
async fn d_58_d_59_nothing_is_bound_again_outside_of_slice_mode() {
    for was_offered in [false, true] {
        let repair = Repair::new();
        if was_offered {
            repair.prove_wipe();
        }
        repair.node.assigned_mode.tell("baremetal");
        let done = repair.run().await.expect("told");
        assert!(done.message.contains("for baremetal"), "{}", done.message);
        assert_eq!(repair.played.writes(), Vec::<String>::new());
    }
    // nobody says what the host is for: that is no reason to offer a slot without its devices
    let mut repair = Repair::new();
    let node = Arc::get_mut(&mut repair.node).expect("nobody else has it");
    node.settings.profile.mode = None;
    let done = repair.run().await.expect("its first wipe");
    assert!(done.message.contains("is not bound"), "{}", done.message);
    repair.prove_wipe();
    repair
        .refused("nothing says that this host is in slice mode")
        .await;
    assert_eq!(repair.drivers()[1], "mlx5_core");
}

#[tokio::test]
async fn d_56_a_device_in_use_is_not_bound_again() {
    let gpu = &own()[0];
    let repair = Repair::new();
    process(&repair.host, 4242, "python3", "/dev/nvidia0");
    repair
        .refused("process 4242 (python3) has /dev/nvidia0 open")
        .await;

    let repair = Repair::new();
    repair.host.write("/proc/900/comm", "nv-fabricmanage\n");
    repair.refused("runtime-prepare").await;

    // nobody's, and its description alone has it
    let repair = Repair::new();
    let stranger = world::allocation();
    let bus = CORNERS[0].gpu;
    let devices = format!(
        "<devices><hostdev mode='subsystem' type='pci' managed='no'><source>\
         <address domain='0' bus='0x{bus}' slot='0' function='0'/></source></hostdev></devices>"
    );
    world::run_vm(&repair.node, stranger, &devices).await;
    let name = stranger.vm_name();
    repair.refused(&format!("domain {name} has it")).await;
    repair.node.hypervisor.destroy(name.as_str()).await.unwrap();
    repair.refused(&format!("domain {name} has it")).await;
    repair
        .node
        .hypervisor
        .undefine(name.as_str())
        .await
        .unwrap();
    repair.run().await.expect("nobody has it any more");
    assert_eq!(driver(&repair.host, gpu), "vfio-pci");
}

/// P6: the exception from "an allocation holds it" is for the slot under repair alone.
#[tokio::test]
async fn p6_only_the_slot_under_repair_gets_its_devices_and_only_for_a_repair() {
    let insert = "INSERT INTO slot_devices (slot_id, device) VALUES (?1, ?2)";
    let [gpu, _] = own();
    let repair = Repair::new();
    repair.journal(insert, [OTHER_SLOT, &gpu]);
    repair.hold(OTHER_SLOT);
    repair
        .refused(&format!("slot {OTHER_SLOT} is held with it"))
        .await;

    // the slot was approved with another GPU than the caller names
    let repair = Repair::new();
    repair.journal(
        "DELETE FROM slot_devices WHERE slot_id = ?1 AND device = ?2",
        [SLOT, &gpu],
    );
    repair.refused("is not held with it").await;

    for purpose in [pb::LeasePurpose::Release, pb::LeasePurpose::Provision] {
        let repair = Repair::new();
        let failure = repair.run_for(purpose).await.expect_err("not for this");
        assert_eq!(failure.reason, ErrorReason::LeaseRequired);
        assert_eq!(repair.played.writes(), Vec::<String>::new());
    }
    let repair = Repair::new();
    repair.journal(
        "DELETE FROM holds WHERE slot_id = ?1 AND ?2 <> ''",
        [SLOT, "all"],
    );
    let failure = repair.run().await.expect_err("its hold has ended");
    assert_eq!(failure.reason, ErrorReason::LeaseRequired);
    assert_eq!(repair.played.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn d_57_what_vfio_does_not_take_has_its_driver_again_and_its_slot_is_not_repaired() {
    let played = Played {
        refuses: Some("vfio-pci"),
        ..Played::default()
    };
    let repair = Repair::of(native(), played);
    let failure = repair.run().await.expect_err("refused");
    assert_eq!(failure.reason, ErrorReason::DeviceNotBound);
    for address in own() {
        assert!(failure.message.contains(&address), "{failure}");
    }
    assert_eq!(repair.drivers(), ["nvidia", "mlx5_core"]);
}

/// A kernel under which the agent ends at one of its writes, before or after it.
struct Dies {
    played: Played,
    left: AtomicUsize,
    is_written: bool,
}

impl Kernel for Dies {
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()> {
        if self.left.fetch_sub(1, Ordering::SeqCst) > 0 {
            return self.played.write(root, path, value);
        }
        if self.is_written {
            self.played.write(root, path, value)?;
        }
        panic!("the agent ends here");
    }
}

#[tokio::test]
async fn p5_an_agent_that_ends_at_any_write_of_a_binding_goes_on_with_it() {
    for left in 0..6 {
        for is_written in [false, true] {
            let mut repair = Repair::new();
            let dies = Dies {
                played: repair.played.clone(),
                left: AtomicUsize::new(left),
                is_written,
            };
            let node = Arc::get_mut(&mut repair.node).expect("nobody else has it");
            node.kernel = Arc::new(dies);
            let ended = repair.run().await;
            assert!(ended.is_err(), "{left}: six writes bind two devices");

            let node = Arc::get_mut(&mut repair.node).expect("nobody else has it");
            node.kernel = Arc::new(repair.played.clone());
            repair.run().await.expect("it goes on");
            assert_eq!(repair.drivers(), ["vfio-pci", "vfio-pci"], "{left}");
            for address in own() {
                let chosen = format!("/sys/bus/pci/devices/{address}/driver_override");
                assert_eq!(repair.host.read(&chosen).trim(), "vfio-pci");
            }
        }
    }
}

/// One of several drivers of VFIO is as good.
#[tokio::test]
async fn d_56_a_vendors_variant_of_the_driver_is_left_alone() {
    let repair = Repair::new();
    for address in own() {
        let link = repair
            .host
            .path(&format!("/sys/bus/pci/devices/{address}/driver"));
        fs::remove_file(&link).unwrap();
        symlink("../../../bus/pci/drivers/nvgrace_gpu_vfio_pci", link).unwrap();
    }
    let done = repair.run().await.expect("skipped");
    assert_eq!(done.status, StepStatus::Skipped);
    assert_eq!(repair.played.writes(), Vec::<String>::new());
}
