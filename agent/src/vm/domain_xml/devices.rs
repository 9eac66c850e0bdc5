//! Disks, the seed, the vNIC, the serial console, and nothing that a server in a rack has no use for.
use quick_xml::events::BytesText;

use super::{Bandwidth, DomainSpec, SEED_DEVICE, Xml, disk_name, empty, pci, shown, text};
use crate::settings::{BridgeKind, HostProfile, Network};

pub(super) fn devices(
    xml: &mut Xml,
    spec: &DomainSpec,
    profile: &HostProfile,
    network: &Network,
) -> std::io::Result<()> {
    text(xml, "emulator", &shown(&profile.emulator))?;
    pci::controllers(xml, spec)?;
    if let Some(rescue) = &spec.rescue {
        rescue_disk(xml, &shown(rescue))?;
    }
    let first = usize::from(spec.rescue.is_some());
    for (index, disk) in spec.disks.iter().enumerate() {
        let thread = (index + 1).to_string();
        let driver = [
            ("name", "qemu"),
            ("type", "raw"),
            ("cache", "none"),
            ("io", "native"),
            ("discard", "unmap"),
            ("iothread", thread.as_str()),
        ];
        xml.create_element("disk")
            .with_attributes([("type", "block"), ("device", "disk")])
            .write_inner_content(|xml| {
                empty(xml, "driver", &driver)?;
                empty(xml, "source", &[("dev", &shown(disk))])?;
                empty(
                    xml,
                    "target",
                    &[("dev", &disk_name(first + index)), ("bus", "virtio")],
                )
            })?;
    }
    // the drive stays when the seed is gone: the guest's other devices keep their places
    xml.create_element("disk")
        .with_attributes([("type", "file"), ("device", "cdrom")])
        .write_inner_content(|xml| {
            empty(xml, "driver", &[("name", "qemu"), ("type", "raw")])?;
            if let Some(seed) = &spec.seed {
                empty(xml, "source", &[("file", &shown(seed))])?;
            }
            empty(
                xml,
                "target",
                &[("dev", SEED_DEVICE), ("bus", &profile.seed_bus)],
            )?;
            empty(xml, "readonly", &[])
        })?;
    if profile.seed_bus == "scsi" {
        empty(
            xml,
            "controller",
            &[("type", "scsi"), ("model", "virtio-scsi")],
        )?;
    }
    empty(xml, "controller", &[("type", "usb"), ("model", "none")])?;
    interface(xml, spec, network)?;
    pci::functions(xml, spec)?;
    xml.create_element("serial")
        .with_attribute(("type", "pty"))
        .write_inner_content(|xml| {
            let log = [("file", &*shown(&spec.serial_log)), ("append", "on")];
            empty(xml, "log", &log)?;
            empty(xml, "target", &[("port", "0")])
        })?;
    xml.create_element("rng")
        .with_attribute(("model", "virtio"))
        .write_inner_content(|xml| {
            xml.create_element("backend")
                .with_attribute(("model", "random"))
                .write_text_content(BytesText::new("/dev/urandom"))?;
            Ok(())
        })?;
    empty(xml, "memballoon", &[("model", "none")])
}

/// A file through the page cache: nothing on it is kept.
fn rescue_disk(xml: &mut Xml, file: &str) -> std::io::Result<()> {
    xml.create_element("disk")
        .with_attributes([("type", "file"), ("device", "disk")])
        .write_inner_content(|xml| {
            let driver = [("name", "qemu"), ("type", "raw"), ("cache", "unsafe")];
            empty(xml, "driver", &driver)?;
            empty(xml, "source", &[("file", file)])?;
            empty(xml, "target", &[("dev", &disk_name(0)), ("bus", "virtio")])
        })?;
    Ok(())
}

fn interface(xml: &mut Xml, spec: &DomainSpec, network: &Network) -> std::io::Result<()> {
    xml.create_element("interface")
        .with_attribute(("type", "bridge"))
        .write_inner_content(|xml| {
            empty(xml, "mac", &[("address", spec.mac.as_str())])?;
            empty(xml, "source", &[("bridge", &network.bridge)])?;
            if network.bridge_kind == BridgeKind::Ovs {
                let id = spec.mac.ovs_interface_id().to_string();
                xml.create_element("virtualport")
                    .with_attribute(("type", "openvswitch"))
                    .write_inner_content(|xml| empty(xml, "parameters", &[("interfaceid", &id)]))?;
            }
            empty(xml, "target", &[("dev", &spec.port)])?;
            empty(xml, "model", &[("type", "virtio")])?;
            if let Some(limit) = spec.bandwidth {
                bandwidth(xml, limit)?;
            }
            if network.passes_in_user_space() {
                // what a guest leaves to its device nothing would compute, and its packets would be dropped
                xml.create_element("driver")
                    .write_inner_content(|xml| empty(xml, "host", &[("csum", "off")]))?;
            }
            Ok(())
        })?;
    Ok(())
}

/// What a vNIC may send and receive (D-60, J-22). libvirt counts in kilobytes a second. Of what a guest receives, the average
/// alone is a share that is guaranteed: without a peak Open vSwitch takes the nominal speed of a tap, 10 Mbit/s, as the limit.
fn bandwidth(xml: &mut Xml, limit: Bandwidth) -> std::io::Result<()> {
    let average = (u64::from(limit.mbits) * 125).to_string();
    let burst = limit.burst_kb.map(|burst| burst.to_string());
    let mut inbound = vec![("average", average.as_str()), ("peak", average.as_str())];
    let mut outbound = vec![("average", average.as_str())];
    if let Some(burst) = burst.as_deref() {
        inbound.push(("burst", burst));
        outbound.push(("burst", burst));
    }
    xml.create_element("bandwidth").write_inner_content(|xml| {
        empty(xml, "inbound", &inbound)?;
        empty(xml, "outbound", &outbound)
    })?;
    Ok(())
}
