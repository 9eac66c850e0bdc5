//! CPUs and memory: what the guest sees, and where they are taken from.
use quick_xml::events::BytesText;

use super::{DomainSpec, Xml, empty};
use crate::settings::HostProfile;

/// Binds virtual CPUs, the hypervisor's own threads and memory to the NUMA nodes of the VM's devices.
pub(super) fn pins(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    let cells = &spec.locality.cells;
    if cells.is_empty() {
        return Ok(());
    }
    let all = spec.locality.cpus();
    xml.create_element("cputune").write_inner_content(|xml| {
        let near = cells
            .iter()
            .flat_map(|cell| (0..cell.vcpus).map(|_| &cell.cpus));
        for (vcpu, cpus) in near.enumerate() {
            let pin = [("vcpu", vcpu.to_string()), ("cpuset", cpus.clone())];
            with(xml, "vcpupin", &pin)?;
        }
        empty(xml, "emulatorpin", &[("cpuset", &all)])?;
        for thread in 1..=spec.disks.len() {
            let pin = [("iothread", thread.to_string()), ("cpuset", all.clone())];
            with(xml, "iothreadpin", &pin)?;
        }
        Ok(())
    })?;
    let nodes: Vec<String> = cells
        .iter()
        .map(|cell| cell.host_node.to_string())
        .collect();
    xml.create_element("numatune").write_inner_content(|xml| {
        let strict = ("mode", "strict".to_owned());
        with(
            xml,
            "memory",
            &[strict.clone(), ("nodeset", nodes.join(","))],
        )?;
        for (cell, node) in nodes.iter().enumerate() {
            let id = ("cellid", cell.to_string());
            with(
                xml,
                "memnode",
                &[id, strict.clone(), ("nodeset", node.clone())],
            )?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The CPU model, and one socket and NUMA node for each of the host's that the VM lies on.
pub(super) fn cpu(xml: &mut Xml, spec: &DomainSpec, profile: &HostProfile) -> std::io::Result<()> {
    let passthrough = profile.cpu_model == "host-passthrough";
    let attributes = match passthrough {
        true => [("mode", "host-passthrough"), ("check", "none")],
        false => [("mode", "custom"), ("match", "exact")],
    };
    xml.create_element("cpu")
        .with_attributes(attributes)
        .write_inner_content(|xml| {
            if !passthrough {
                xml.create_element("model")
                    .with_attribute(("fallback", "forbid"))
                    .write_text_content(BytesText::new(&profile.cpu_model))?;
            }
            topology(xml, spec)?;
            if passthrough && spec.locality.window_bytes > 0 {
                // the firmware puts large registers as high as the guest's addresses go
                empty(xml, "maxphysaddr", &[("mode", "passthrough")])?;
            }
            cells(xml, spec)
        })?;
    Ok(())
}

fn topology(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    let sizes = || spec.locality.cells.iter().map(|cell| cell.vcpus);
    let Some(first) = sizes()
        .next()
        .filter(|first| sizes().all(|one| one == *first))
    else {
        return Ok(());
    };
    let sockets = spec.locality.cells.len().to_string();
    let cores = first.to_string();
    let topology = [
        ("sockets", sockets.as_str()),
        ("dies", "1"),
        ("cores", &cores),
        ("threads", "1"),
    ];
    empty(xml, "topology", &topology)
}

fn cells(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    let cells = &spec.locality.cells;
    if cells.is_empty() {
        return Ok(());
    }
    xml.create_element("numa").write_inner_content(|xml| {
        let mut first = 0;
        for (id, cell) in cells.iter().enumerate() {
            let last = first + cell.vcpus - 1;
            let (id, cpus) = (id.to_string(), format!("{first}-{last}"));
            first = last + 1;
            let memory = cell.memory_mib.to_string();
            let attributes = [
                ("id", id.as_str()),
                ("cpus", &cpus),
                ("memory", &memory),
                ("unit", "MiB"),
            ];
            xml.create_element("cell")
                .with_attributes(attributes)
                .write_inner_content(|xml| {
                    xml.create_element("distances").write_inner_content(|xml| {
                        for (other, distance) in cell.distances.iter().enumerate() {
                            let to = [("id", other.to_string()), ("value", distance.to_string())];
                            with(xml, "sibling", &to)?;
                        }
                        Ok(())
                    })?;
                    Ok(())
                })?;
        }
        Ok(())
    })?;
    Ok(())
}

/// An empty element with attributes that are made here.
pub(super) fn with(
    xml: &mut Xml,
    name: &str,
    attributes: &[(&str, String)],
) -> std::io::Result<()> {
    let attributes = attributes
        .iter()
        .map(|(name, value)| (*name, value.as_str()));
    xml.create_element(name)
        .with_attributes(attributes)
        .write_empty()?;
    Ok(())
}
