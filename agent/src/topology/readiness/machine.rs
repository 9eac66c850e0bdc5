//! The machine: what it is for, virtualisation, what holds the GPUs, hugepages, a pending restart.
use super::CheckResult;
use crate::checks::{GPU_DRIVER, GPU_SERVICES, HUGEPAGES, IOMMU, KVM, NODE_MODE, REBOOT, VFIO};
use crate::host::exec;
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::{GpuFabric, HostProfile, Hypervisor};
use crate::topology::pci::{self, PciKind};

/// Whether the host was deployed for what its node is offered as (A-48, INC-07).
pub(super) fn node_mode(node: &Node) -> CheckResult {
    match (node.settings.profile.mode, node.assigned_mode.get()) {
        (_, None) => CheckResult::skip(&NODE_MODE, "the platform has not sent the node's mode yet"),
        (None, Some(reported)) => {
            let detail = format!(
                "the node is for {}; the profile does not say",
                reported.as_str()
            );
            CheckResult::pass(&NODE_MODE, detail)
        }
        (Some(own), Some(reported)) => CheckResult::judge(
            &NODE_MODE,
            own == reported,
            format!(
                "deployed for {}, offered as {}",
                own.as_str(),
                reported.as_str()
            ),
        ),
    }
}

/// Hardware virtualisation (D-12..D-18). The kernel's command line and `/dev/kvm` alone prove nothing.
pub fn virtualisation(root: &HostRoot, profile: &HostProfile) -> Vec<CheckResult> {
    if profile.hypervisor == Hypervisor::Qemu {
        let why = format!(
            "profile {} runs guests under software emulation",
            profile.name
        );
        return [&KVM, &IOMMU, &VFIO]
            .map(|check| CheckResult::skip(check, why.clone()))
            .into();
    }
    let module = |name: &str| root.exists(format!("/sys/module/{name}"));
    let device = root.exists("/dev/kvm");
    let vendor = module("kvm_intel") || module("kvm_amd");
    let groups = root.names("/sys/kernel/iommu_groups").len();
    let vfio: Vec<&str> = ["vfio", "vfio_iommu_type1", "vfio_pci"]
        .into_iter()
        .filter(|name| !module(name))
        .collect();
    vec![
        CheckResult::judge(
            &KVM,
            device && vendor,
            format!("/dev/kvm: {device}, kvm_intel or kvm_amd: {vendor}"),
        ),
        CheckResult::judge(&IOMMU, groups > 0, format!("iommu_groups={groups}")),
        CheckResult::judge(
            &VFIO,
            vfio.is_empty(),
            if vfio.is_empty() {
                "modules are loaded".to_owned()
            } else {
                format!("missing: {}", vfio.join(", "))
            },
        ),
    ]
}

/// Programs that hold GPUs or the fabric, by the 15 characters the kernel stores of a name.
const HOLDERS: [&str; 3] = ["nvidia-persiste", FABRIC_MANAGER, "nv-hostengine"];
const FABRIC_MANAGER: &str = "nv-fabricmanage";

/// Host services that hold `/dev/nvidia*` prevent libvirt from detaching a GPU (D-96, D-97, INC-18).
pub fn gpu_services(root: &HostRoot, profile: &HostProfile, fabric: &GpuFabric) -> CheckResult {
    if profile.lab {
        return CheckResult::skip(&GPU_SERVICES, "a lab host has no GPU");
    }
    let running = gpu_service_holders(root, fabric);
    let detail = if running.is_empty() {
        "nothing holds the GPUs".to_owned()
    } else {
        format!("running: {}", running.join(", "))
    };
    CheckResult::judge(&GPU_SERVICES, running.is_empty(), detail)
}

/// Programs of services that hold GPUs, as they run now. A Fabric Manager that the settings name holds the NVSwitches alone.
pub fn gpu_service_holders(root: &HostRoot, fabric: &GpuFabric) -> Vec<String> {
    root.names("/proc")
        .iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| root.read_value(format!("/proc/{pid}/comm")))
        .filter(|name| HOLDERS.contains(&name.as_str()))
        .filter(|name| name != FABRIC_MANAGER || !fabric.runs_here())
        .collect()
}

/// Whether the driver answers for every GPU. Only a host without slices is asked: elsewhere VFIO has them (INC-37).
pub(super) async fn gpu_driver(root: &HostRoot, profile: &HostProfile) -> CheckResult {
    let devices = pci::devices(root);
    let gpus = devices.iter().filter(|one| one.kind == PciKind::Gpu);
    let on_bus = gpus.count();
    if profile.lab || on_bus == 0 {
        return CheckResult::skip(&GPU_DRIVER, "this host has no GPU");
    }
    let output = exec::run("nvidia-smi", &["--list-gpus"], exec::PROBE_LIMIT).await;
    match output.and_then(|output| output.success("nvidia-smi")) {
        Ok(output) => {
            let lines = output.stdout.lines();
            let listed = lines.filter(|line| line.starts_with("GPU ")).count();
            let detail = format!("the driver lists {listed} GPUs of {on_bus} on the bus");
            CheckResult::judge(&GPU_DRIVER, listed == on_bus, detail)
        }
        Err(error) => CheckResult::judge(&GPU_DRIVER, false, error.to_string()),
    }
}

/// Free 1 GiB hugepages.
pub fn free_hugepages(root: &HostRoot) -> u32 {
    pages(root, "free_hugepages")
}

fn pages(root: &HostRoot, which: &str) -> u32 {
    let folder = "/sys/kernel/mm/hugepages/hugepages-1048576kB";
    root.read_value(format!("{folder}/{which}"))
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// 1 GiB hugepages, those of VMs included: a host whose VMs use all of them is as ready as before.
pub(super) fn hugepages(root: &HostRoot, profile: &HostProfile) -> CheckResult {
    if !profile.hugepages {
        return CheckResult::skip(&HUGEPAGES, format!("profile {} offers none", profile.name));
    }
    let (all, free) = (pages(root, "nr_hugepages"), free_hugepages(root));
    CheckResult::judge(
        &HUGEPAGES,
        all > 0,
        format!("{all} pages of 1 GiB, {free} of them free"),
    )
}

/// Whether a pending package change requires a reboot.
pub fn wants_reboot(root: &HostRoot) -> bool {
    root.exists("/run/reboot-required")
}

pub(super) fn reboot_required(root: &HostRoot) -> CheckResult {
    if wants_reboot(root) {
        return CheckResult::warn(&REBOOT, "/run/reboot-required exists");
    }
    CheckResult::pass(&REBOOT, "no restart is pending")
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

    use super::super::check_result::failed;
    use super::*;
    use crate::settings::GpuFabricManager;

    fn profile(hypervisor: Hypervisor) -> HostProfile {
        let text = format!(
            "name = \"p\"\nhypervisor = \"{}\"\ncpu_model = \"host-passthrough\"",
            hypervisor.as_str()
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn inc_08_a_command_line_is_no_proof_of_an_iommu() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/cmdline"), "intel_iommu=on iommu=pt").unwrap();
        let blocked = virtualisation(&HostRoot::new(dir.path()), &profile(Hypervisor::Kvm));
        assert_eq!(failed(&blocked), ["kvm", "iommu", "vfio"]);
    }

    /// D-14, D-16
    #[test]
    fn d_12_a_dev_kvm_without_its_module_is_not_ready_and_emulation_does_not_ask() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "dev/kvm",
            "sys/kernel/iommu_groups/0/x",
            "sys/module/vfio/x",
            "sys/module/vfio_pci/x",
            "sys/module/vfio_iommu_type1/x",
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let root = HostRoot::new(dir.path());
        assert_eq!(
            failed(&virtualisation(&root, &profile(Hypervisor::Kvm))),
            ["kvm"]
        );
        std::fs::create_dir_all(dir.path().join("sys/module/kvm_intel")).unwrap();
        assert!(failed(&virtualisation(&root, &profile(Hypervisor::Kvm))).is_empty());
        std::fs::remove_file(dir.path().join("dev/kvm")).unwrap();
        assert_eq!(
            failed(&virtualisation(&root, &profile(Hypervisor::Kvm))),
            ["kvm"]
        );
        std::fs::remove_dir_all(dir.path().join("sys/module/vfio_pci")).unwrap();
        assert_eq!(
            failed(&virtualisation(&root, &profile(Hypervisor::Kvm))),
            ["kvm", "vfio"]
        );
        let emulated = virtualisation(&root, &profile(Hypervisor::Qemu));
        assert!(
            emulated
                .iter()
                .all(|f| f.status == EvidenceStatus::Skip && !f.detail.is_empty())
        );
    }

    #[test]
    fn d_54_a_host_whose_hugepages_are_all_taken_is_as_ready_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir
            .path()
            .join("sys/kernel/mm/hugepages/hugepages-1048576kB");
        std::fs::create_dir_all(&folder).unwrap();
        let root = HostRoot::new(dir.path());
        let found = |all: &str| {
            std::fs::write(folder.join("nr_hugepages"), all).unwrap();
            std::fs::write(folder.join("free_hugepages"), "0\n").unwrap();
            let mut profile = profile(Hypervisor::Kvm);
            profile.hugepages = true;
            hugepages(&root, &profile)
        };
        let in_use = found("512\n");
        assert_eq!(in_use.status, EvidenceStatus::Pass, "{}", in_use.detail);
        assert_eq!(in_use.detail, "512 pages of 1 GiB, 0 of them free");
        assert_eq!(found("0\n").status, EvidenceStatus::Fail);
    }

    #[test]
    fn inc_18_services_that_hold_gpus_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        assert_eq!(
            gpu_services(&root, &profile(Hypervisor::Kvm), &GpuFabric::default()).status,
            EvidenceStatus::Pass
        );
        std::fs::create_dir_all(dir.path().join("proc/77")).unwrap();
        std::fs::write(dir.path().join("proc/77/comm"), "nv-fabricmanage\n").unwrap();
        let found = gpu_services(&root, &profile(Hypervisor::Kvm), &GpuFabric::default());
        assert_eq!(found.status, EvidenceStatus::Fail);
        assert!(found.detail.contains("nv-fabricmanage"));
    }

    #[test]
    fn d_96_fabric_manager_runs_on_a_slice_host_only_where_the_settings_name_it_there() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        for (pid, name) in [(77, "nv-fabricmanage"), (78, "nvidia-persiste")] {
            std::fs::create_dir_all(dir.path().join(format!("proc/{pid}"))).unwrap();
            std::fs::write(dir.path().join(format!("proc/{pid}/comm")), name).unwrap();
        }
        let holders = |address: &str| {
            let fabric = GpuFabric {
                manager: GpuFabricManager::FabricManager,
                address: address.into(),
                ..GpuFabric::default()
            };
            gpu_service_holders(&root, &fabric).len()
        };
        assert_eq!(gpu_service_holders(&root, &GpuFabric::default()).len(), 2);
        assert_eq!(holders("10.0.0.5"), 2, "it is in its service VM");
        assert_eq!(holders(""), 1, "the others hold GPUs still");
        assert_eq!(holders("/run/fabric-manager.socket"), 1);
    }
}
