//! What a VM uses, from libvirt and its guest to its owner, and to nobody else.
use std::time::Duration;

use gpuaas_agent::telemetry::GUEST_COMMAND;
use gpuaas_common::Error;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{GuestMetricsState, MetricSeries, VmMetric};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::platform::{Platform, good};

const TIMEOUT: Duration = Duration::from_secs(30);
const WITH_GPUS: &str = "MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\ngpuaas-gpus\n\
    0, 35, 1024, 143771, 41, 120.53\n1, 99, 2048, 143771, 70, 690.00\n";
const WITHOUT_TOOL: &str =
    "MemTotal: 4096 kB\nMemAvailable: 1024 kB\ngpuaas-gpus\ngpuaas-no-gpu-tool\n";
const HOSTILE: &str = "MemTotal: 4096 kB\nMemAvailable: 1024 kB\ngpuaas-gpus\n\"} 1\nevil{a=\"b";

fn of(id: Uuid) -> pb::GetAllocationMetricsRequest {
    pb::GetAllocationMetricsRequest {
        allocation_id: id.to_string(),
        ..pb::GetAllocationMetricsRequest::default()
    }
}

impl Platform {
    async fn metrics_as(
        &self,
        principal: &str,
        project: Uuid,
        request: pb::GetAllocationMetricsRequest,
    ) -> Result<pb::AllocationMetrics, Error> {
        let request = self.as_person(request, principal, project, false, None);
        let answer = self.users.clone().get_allocation_metrics(request).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    async fn metrics(&self, id: Uuid) -> Result<pb::AllocationMetrics, Error> {
        self.metrics_as("user:test", self.world.project, of(id))
            .await
    }

    /// Waits until the metrics are so.
    async fn until_metrics(
        &self,
        id: Uuid,
        holds: impl Fn(&pb::AllocationMetrics) -> bool,
    ) -> pb::AllocationMetrics {
        until("the metrics", TIMEOUT, async || {
            let metrics = self.metrics(id).await.expect("metrics");
            holds(&metrics).then_some(metrics)
        })
        .await
    }

    /// A platform whose host measures its VMs, with an active allocation. The guest answers with this.
    async fn measured(answer: &'static str) -> (Self, Uuid) {
        let platform = Self::start().await;
        let world = &platform.world;
        world.host.measure();
        world.host_gone().await;
        world.host_up().await;
        world.host.script(|script| {
            script.answers.insert(GUEST_COMMAND, vec![(0, answer)]);
        });
        let created = platform.create(good("web"), "web").await.expect("created");
        let id: Uuid = created.id.parse().expect("a uuid");
        world.until_state(id, "active").await;
        world.until_idle(id).await;
        (platform, id)
    }
}

fn found(
    metrics: &pb::AllocationMetrics,
    metric: VmMetric,
    gpu: Option<u32>,
) -> Option<&MetricSeries> {
    let is_it = |one: &&MetricSeries| one.metric() == metric && one.gpu == gpu;
    metrics.series.iter().find(is_it)
}

fn last(metrics: &pb::AllocationMetrics, metric: VmMetric, gpu: Option<u32>) -> Option<f64> {
    let points = &found(metrics, metric, gpu)?.points;
    points.last().map(|point| point.value)
}

#[tokio::test]
async fn d_90_what_libvirt_counts_and_the_guest_reports_is_its_owners_alone() {
    let (platform, id) = Platform::measured(WITH_GPUS).await;
    let world = &platform.world;
    let metrics = platform
        .until_metrics(id, |metrics| {
            metrics.guest_state() == GuestMetricsState::Complete
                && found(metrics, VmMetric::CpuPercent, None).is_some()
                && found(metrics, VmMetric::GpuUtilizationPercent, Some(1)).is_some()
        })
        .await;
    let cpu = last(&metrics, VmMetric::CpuPercent, None).expect("a value");
    assert!(cpu > 0.0 && cpu <= 100.0, "{cpu}");
    for metric in [
        VmMetric::NetworkReceivedBytesPerSecond,
        VmMetric::NetworkSentBytesPerSecond,
        VmMetric::DiskReadBytesPerSecond,
        VmMetric::DiskWrittenBytesPerSecond,
    ] {
        let value = last(&metrics, metric, None);
        assert!(value.is_some_and(|value| value >= 0.0), "{metric:?}");
    }
    let of = |metric, gpu| last(&metrics, metric, gpu);
    const KIB: f64 = 1024.0;
    assert_eq!(of(VmMetric::MemoryUsedBytes, None), Some(3072.0 * KIB));
    assert_eq!(of(VmMetric::MemoryTotalBytes, None), Some(4096.0 * KIB));
    assert_eq!(of(VmMetric::GpuUtilizationPercent, Some(1)), Some(99.0));
    // a mean of several
    let watts = of(VmMetric::GpuPowerWatts, Some(0)).expect("watts");
    assert!((watts - 120.53).abs() < 1e-9, "{watts}");
    assert_eq!(
        (metrics.guest_message.as_str(), metrics.step_seconds),
        ("", 15)
    );

    // the stranger's answer is that of what does not exist
    let mut reported = Vec::new();
    for (project, id) in [(Uuid::now_v7(), id), (world.project, Uuid::now_v7())] {
        let refused = platform
            .metrics_as("user:stranger", project, self::of(id))
            .await;
        let refused = refused.expect_err("refused");
        assert_eq!(refused.reason(), ErrorReason::AllocationNotFound);
        reported.push(refused.to_string());
    }
    assert_eq!(reported[0], reported[1]);
    let wrong = pb::GetAllocationMetricsRequest {
        step_seconds: 1,
        ..self::of(id)
    };
    let refused = platform.metrics_as("user:test", world.project, wrong).await;
    let refused = refused.expect_err("refused");
    assert_eq!(refused.fields()[0].0, "step_seconds");

    // what is lost with the agent's restart is measured anew, and a host that is away says so
    world.host_gone().await;
    let away = platform.metrics(id).await.expect_err("away");
    assert_eq!(away.reason(), ErrorReason::HostUnreachable, "{away}");
    world.host_up().await;
    platform
        .until_metrics(id, |metrics| !metrics.series.is_empty())
        .await;

    platform
        .release(&id.to_string(), "end")
        .await
        .expect("accepted");
    world.until_state(id, "released").await;
    let gone = platform.metrics(id).await.expect_err("gone");
    assert_eq!(gone.reason(), ErrorReason::MetricsUnavailable, "{gone}");
}

#[tokio::test]
async fn d_90_a_guest_without_gpus_or_good_will_has_the_metrics_of_its_host_and_the_reason() {
    let (platform, id) = Platform::measured(WITHOUT_TOOL).await;
    let world = &platform.world;
    let metrics = platform
        .until_metrics(id, |metrics| {
            metrics.guest_state() == GuestMetricsState::NoGpuTool
                && found(metrics, VmMetric::MemoryUsedBytes, None).is_some()
        })
        .await;
    assert_eq!(metrics.guest_message, "", "its SKU has no GPU");
    assert!(metrics.series.iter().all(|one| one.gpu.is_none()));

    world.host.script(|script| {
        script.answers.insert(GUEST_COMMAND, vec![(0, HOSTILE)]);
    });
    let metrics = platform
        .until_metrics(id, |metrics| {
            metrics.guest_state() == GuestMetricsState::GpuToolFailed
        })
        .await;
    assert_eq!(metrics.guest_message, "", "its SKU has no GPU");
    assert!(metrics.series.iter().all(|one| one.gpu.is_none()));
    world.host_gone().await;
    world.host.script(|script| script.no_login = true);
    world.host_up().await;
    let metrics = platform
        .until_metrics(id, |metrics| {
            metrics.guest_state() == GuestMetricsState::NoLogin
                && found(metrics, VmMetric::CpuPercent, None).is_some()
        })
        .await;
    assert!(metrics.guest_message.contains("log in"), "{metrics:?}");
    assert!(found(&metrics, VmMetric::MemoryUsedBytes, None).is_none());
}

#[tokio::test]
async fn d_90_a_rescued_vm_is_measured_over_the_login_of_its_rescue_image() {
    let (platform, id) = Platform::measured(WITHOUT_TOOL).await;
    platform.rescued(id, "r1").await;
    // an agent that has no session to the guest of before
    platform.world.host_gone().await;
    platform.world.host_up().await;
    let metrics = platform
        .until_metrics(id, |metrics| {
            found(metrics, VmMetric::MemoryUsedBytes, None).is_some()
                && found(metrics, VmMetric::DiskReadBytesPerSecond, None).is_some()
        })
        .await;
    assert_ne!(metrics.guest_state(), GuestMetricsState::NoLogin);
}
