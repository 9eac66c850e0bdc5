//! Whether the site's bootstrap came to its end: its markers, and what its validation record says (I-88, I-191..I-193).
//! A host that is deployed, enrolled and half configured is not ready (INC-06).
use super::CheckResult;
use crate::checks::{HostKind, SITE_BOOTSTRAP};
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::Bootstrap;

pub(super) fn completed(node: &Node, kind: HostKind) -> CheckResult {
    if node.settings.profile.lab {
        return CheckResult::skip(&SITE_BOOTSTRAP, "a lab host has no site");
    }
    judge(&node.root, &node.settings.bootstrap, kind)
}

fn judge(root: &HostRoot, bootstrap: &Bootstrap, kind: HostKind) -> CheckResult {
    let of_slices = kind != HostKind::BareMetal;
    let mut markers: Vec<&String> = bootstrap.markers.iter().collect();
    if of_slices {
        markers.extend(&bootstrap.slice_markers);
    }
    let file = |name: &str| bootstrap.folder.join(name);
    let mut wrong: Vec<String> = markers
        .iter()
        .filter(|name| !root.exists(file(name)))
        .map(|name| format!("{name} is missing"))
        .collect();
    if of_slices && !bootstrap.slice_validation.is_empty() {
        let name = &bootstrap.slice_validation;
        match root.read_value(file(name)) {
            Some(text) => wrong.extend(faults(&text).map(|fault| format!("{name}: {fault}"))),
            None => wrong.push(format!("{name} is missing or cannot be read")),
        }
    }
    let detail = match (wrong.is_empty(), markers.is_empty()) {
        (false, _) => wrong.join("; "),
        (true, false) => {
            let names: Vec<&str> = markers.iter().map(|name| name.as_str()).collect();
            format!("completed: {}", names.join(", "))
        }
        (true, true) => return CheckResult::skip(&SITE_BOOTSTRAP, "this site has no markers"),
    };
    CheckResult::judge(&SITE_BOOTSTRAP, wrong.is_empty(), detail)
}

/// What a validation record says that is not good, or does not say. Its keys are on lines of their own.
fn faults(record: &str) -> impl Iterator<Item = String> {
    let value = |key: &str| {
        let mut lines = record.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    };
    let is_count = |value: &str| value.parse::<u32>().is_ok_and(|count| count > 0);
    let found = [
        ("kvm", value("kvm"), value("kvm") == Some("present")),
        (
            "iommu_groups",
            value("iommu_groups"),
            value("iommu_groups").is_some_and(is_count),
        ),
        (
            "libvirtd",
            value("libvirtd"),
            value("libvirtd") == Some("active"),
        ),
    ];
    let bad = found.into_iter().filter(|(_, _, good)| !good);
    let reported = bad.map(|(key, value, _)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("no {key}="),
    });
    reported.collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip};

    use super::*;

    const GOOD: &str =
        "cmdline=intel_iommu=on iommu=pt\nkvm=present\niommu_groups=510\nlibvirtd=active\n";

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("var/lib/gpuaas/site-bootstrap");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let root = HostRoot::new(dir.path());
        (dir, root)
    }

    /// Markers and record are those of I-191, I-192 and I-193; of a slice host both bundles ended (CON-15).
    /// no marker stands for another one, and the layer below slices has its own.
    ///
    // partly A-51: what ran is told by its markers; no record of a deployment has its name
    #[test]
    fn inc_06_a_host_whose_bootstrap_did_not_end_is_not_ready() {
        let all = [
            ("h200-ib.done", ""),
            ("h200-slice-vm.done", ""),
            ("h200-slice-vm.validation", GOOD),
        ];
        let (_dir, root) = host(&all);
        let settings = Bootstrap::default();
        let found = judge(&root, &settings, HostKind::Slice);
        assert_eq!(
            (found.status, found.detail.as_str()),
            (Pass, "completed: h200-ib.done, h200-slice-vm.done")
        );
        for missing in 0..all.len() {
            let rest = all
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != missing);
            let rest: Vec<_> = rest.map(|(_, file)| *file).collect();
            let (_dir, root) = host(&rest);
            let found = judge(&root, &settings, HostKind::Slice);
            assert_eq!(found.status, Fail);
            assert!(found.detail.contains(all[missing].0), "{}", found.detail);
        }
    }

    /// I-192.
    #[test]
    fn i_88_the_validation_record_counts_by_what_it_says() {
        let files = |record| {
            [
                ("h200-ib.done", ""),
                ("h200-slice-vm.done", ""),
                ("h200-slice-vm.validation", record),
            ]
        };
        for (record, said) in [
            (
                "kvm=missing\niommu_groups=510\nlibvirtd=active",
                "kvm=missing",
            ),
            (
                "kvm=present\niommu_groups=0\nlibvirtd=active",
                "iommu_groups=0",
            ),
            (
                "kvm=present\niommu_groups=510\nlibvirtd=failed",
                "libvirtd=failed",
            ),
            ("", "no kvm="),
            ("cmdline=kvm=present", "no kvm="),
        ] {
            let (_dir, root) = host(&files(record));
            let found = judge(&root, &Bootstrap::default(), HostKind::Slice);
            assert_eq!(found.status, Fail, "{record}");
            assert!(found.detail.contains(said), "{}", found.detail);
        }
    }

    /// The marker gates, and nothing of Netdata does (CON-09).
    #[test]
    fn inc_07_a_bare_metal_host_needs_the_common_baseline_alone() {
        let (_dir, root) = host(&[("h200-ib.done", "")]);
        let settings = Bootstrap::default();
        assert_eq!(judge(&root, &settings, HostKind::BareMetal).status, Pass);
        assert_eq!(judge(&root, &settings, HostKind::Slice).status, Fail);
        let none = Bootstrap {
            markers: Vec::new(),
            slice_markers: Vec::new(),
            slice_validation: String::new(),
            ..settings
        };
        assert_eq!(judge(&root, &none, HostKind::Slice).status, Skip);
    }
}
