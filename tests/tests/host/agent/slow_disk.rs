//! A disk that has become slow: what the agent and its programs write to it, the kernel holds back.
use std::fs;
use std::path::PathBuf;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_tests::runner::{Case, Place};
use uuid::Uuid;

use super::host::{LabHost, until};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p5_a_slow_disk_holds_up_no_other_slot: 40,
        p2_a_clone_that_a_slow_disk_keeps_beyond_its_deadline_writes_nothing_after_the_wipe: 65,
    ]
}

/// The throttle of one disk for the agent and every program it starts, in the kernel's first version of control groups.
struct Throttle {
    group: PathBuf,
    /// Major and minor number.
    device: String,
}

impl Throttle {
    /// Holds writes to a disk back to so many bytes a second. None where the kernel cannot.
    fn set(host: &LabHost, index: usize, bytes_per_second: u64) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").expect("mounts");
        let blkio = mounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(' ').collect();
            let is_blkio = fields[2] == "cgroup" && fields[3].split(',').any(|o| o == "blkio");
            is_blkio.then(|| PathBuf::from(fields[1]))
        });
        let Some(blkio) = blkio.filter(|at| at.join("blkio.throttle.write_bps_device").exists())
        else {
            println!(
                "skipped: this machine has no control group `blkio` (version 1) with a throttle"
            );
            return None;
        };
        let device = host.device(index);
        let name = device.trim_start_matches("/dev/");
        let device = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("a block device");
        let throttle = Self {
            group: blkio.join(format!("gpuaas-slow-{}", Uuid::now_v7())),
            device: device.trim().to_owned(),
        };
        fs::create_dir(&throttle.group).expect("a control group");
        throttle.limit(bytes_per_second);
        let agent = host.lab.agent_process().expect("an agent");
        throttle.write("cgroup.procs", &agent.pid.to_string());
        Some(throttle)
    }

    /// 0: as fast as it is.
    fn limit(&self, bytes_per_second: u64) {
        let limit = format!("{} {bytes_per_second}", self.device);
        self.write("blkio.throttle.write_bps_device", &limit);
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.group.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // a test that fails is on its way out: nothing may panic here
        let limit = format!("{} 0", self.device);
        let lifted = fs::write(self.group.join("blkio.throttle.write_bps_device"), limit);
        let all = self.group.join("../cgroup.procs");
        // what is started meanwhile is in the group, too
        for _ in 0..50 {
            let procs = fs::read_to_string(self.group.join("cgroup.procs")).unwrap_or_default();
            for pid in procs.lines() {
                let _ended_is_fine = fs::write(&all, pid);
            }
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        println!("{} stays; lifted: {lifted:?}", self.group.display());
    }
}

/// Waits until the step runs.
async fn until_in(host: &LabHost, operation: Uuid, step: &str) {
    until(&format!("step {step}"), async || {
        runs(host, operation, step).await.then_some(())
    })
    .await;
}

async fn runs(host: &LabHost, operation: Uuid, step: &str) -> bool {
    let request = pb::GetOperationRequest {
        operation_id: operation.to_string(),
    };
    let now = host
        .vms()
        .get_operation(request)
        .await
        .expect("answered")
        .into_inner();
    let found = now.steps.iter().find(|found| found.name == step);
    found.is_some_and(|found| found.state() == pb::StepState::Running)
}

async fn p5_a_slow_disk_holds_up_no_other_slot() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let Some(throttle) = Throttle::set(&host, 0, 32 << 10) else {
        return;
    };
    let slow = host.tenant(0, 1).await;
    let operation = host.provision(&slow, image.clone()).await;
    until_in(&host, operation, "clone").await;

    let other = host.tenant(1, 1).await;
    host.succeeded(host.provision(&other, image).await).await;
    host.succeeded(host.release(&other).await).await;
    assert!(host.is_empty(1));
    assert!(
        runs(&host, operation, "clone").await,
        "the disk was not slow"
    );

    throttle.limit(0);
    host.succeeded(operation).await;
    until("a login", async || {
        let login = host.ssh(&slow, "true").ok()?;
        login.status.success().then_some(())
    })
    .await;
    throttle.limit(64 << 20);
    host.succeeded(host.release(&slow).await).await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}

/// The clone's program cannot end while the disk has its writes: they reach the disk whenever it wakes.
async fn p2_a_clone_that_a_slow_disk_keeps_beyond_its_deadline_writes_nothing_after_the_wipe() {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    let Some(throttle) = Throttle::set(&host, 0, 4 << 10) else {
        return;
    };
    let mut tenant = host.tenant(0, 1).await;
    let id = Uuid::now_v7();
    let request = pb::ProvisionRequest {
        budget: Some(prost_types::Duration {
            seconds: 30,
            nanos: 0,
        }),
        ..host.provision_request(&tenant, id, image)
    };
    host.vms().provision(request).await.expect("it begins");
    let failure = host.failed(id).await;
    assert_eq!(
        (failure.reason.as_str(), failure.step.as_str()),
        ("DEADLINE_EXCEEDED", "clone")
    );

    // the writes of the clone still wait for the disk, and whoever opens it waits for them
    let refused = host.failed(host.repair(&mut tenant).await).await;
    assert_eq!(refused.step, "prove_disk", "{refused:?}");
    assert_eq!(refused.failure_class(), pb::FailureClass::Device);
    assert!(refused.message.contains("/dev/loop"), "{}", refused.message);
    assert_eq!(host.holds().await.holds.len(), 1);

    throttle.limit(0);
    until("a repair", async || {
        let ended = host.ended(host.repair(&mut tenant).await).await;
        (ended.state() == pb::OperationState::Succeeded).then_some(())
    })
    .await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}
