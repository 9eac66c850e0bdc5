//! The domain description, written element by element: UEFI with Secure Boot off (D-50, D-52, INC-23), no TPM (D-49, INC-21),
//! no graphics (D-61), raw block disks, the seed on a CD, one vNIC (D-60), complete PCI functions by VFIO, CPUs and memory
//! of the NUMA nodes that they are on (D-47).
//!
//! partly J-09: the one vNIC is a port of the host's bridge; no function of a BlueField card is below it
pub mod allowed;
mod devices;
mod numa;
mod pci;
#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use uuid::Uuid;

use super::locality::Locality;
use crate::error::{HostError, HostResult};
use crate::ids::{Mac, PciAddress, VmName};
use crate::settings::{HostProfile, Network};

/// What a vNIC may send, and what it may receive (D-60).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bandwidth {
    /// Megabits per second.
    pub mbits: u32,
    /// Kilobytes that may pass at once before that; none: what the switch takes.
    pub burst_kb: Option<u32>,
}

/// What the VM owns.
#[derive(Debug, Clone)]
pub struct DomainSpec {
    pub name: VmName,
    /// UUID: the allocation's.
    pub uuid: Uuid,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Memory from hugepages (D-53).
    pub hugepages: bool,
    /// Block devices, the boot disk first; none where the disks' controllers are passed through.
    pub disks: Vec<PathBuf>,
    /// A file that is booted from instead; the block devices follow it.
    pub rescue: Option<PathBuf>,
    /// Seed image, for the first boot.
    pub seed: Option<PathBuf>,
    /// MAC of the vNIC.
    pub mac: Mac,
    /// Name of its port on the bridge.
    pub port: String,
    /// Limit of the vNIC; none: as much as the wire takes.
    pub bandwidth: Option<Bandwidth>,
    /// PCI functions that are passed through, and where CPUs and memory are taken from.
    pub locality: Locality,
    /// The one of these functions whose disk the VM boots from; otherwise it boots from its first disk.
    pub boots_from: Option<PciAddress>,
    /// Where the hypervisor writes what the guest prints on its serial console.
    pub serial_log: PathBuf,
}

/// Name of the drive that the seed is in.
pub const SEED_DEVICE: &str = "sda";

/// Name of a disk in the domain, by its place; the guest may call it otherwise.
pub fn disk_name(index: usize) -> String {
    let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
    format!("vd{letter}")
}

type Xml = Writer<Cursor<Vec<u8>>>;

/// Writes the description.
pub fn domain_xml(
    spec: &DomainSpec,
    profile: &HostProfile,
    network: &Network,
) -> HostResult<String> {
    let mut xml = Writer::new_with_indent(Cursor::new(Vec::new()), b' ', 2);
    write(&mut xml, spec, profile, network).map_err(|error| {
        HostError::internal(format!("cannot write the domain description: {error}"))
    })?;
    String::from_utf8(xml.into_inner().into_inner()).map_err(|_| {
        HostError::host(
            ErrorReason::HypervisorFailed,
            "the domain description is not UTF-8",
        )
    })
}

fn write(
    xml: &mut Xml,
    spec: &DomainSpec,
    profile: &HostProfile,
    network: &Network,
) -> std::io::Result<()> {
    xml.create_element("domain")
        .with_attribute(("type", profile.hypervisor.as_str()))
        .write_inner_content(|xml| {
            text(xml, "name", spec.name.as_str())?;
            text(xml, "uuid", &spec.uuid.hyphenated().to_string())?;
            xml.create_element("memory")
                .with_attribute(("unit", "MiB"))
                .write_text_content(BytesText::new(&spec.memory_mib.to_string()))?;
            text(xml, "vcpu", &spec.vcpus.to_string())?;
            text(xml, "iothreads", &spec.disks.len().to_string())?;
            memory(xml, spec, profile)?;
            numa::pins(xml, spec)?;
            os(xml, spec, profile)?;
            instance(xml, spec)?;
            xml.create_element("features").write_inner_content(|xml| {
                empty(xml, "acpi", &[])?;
                empty(xml, "apic", &[])
            })?;
            numa::cpu(xml, spec, profile)?;
            empty(xml, "clock", &[("offset", "utc")])?;
            text(xml, "on_poweroff", "destroy")?;
            text(xml, "on_reboot", "restart")?;
            text(xml, "on_crash", "destroy")?;
            xml.create_element("devices")
                .write_inner_content(|xml| devices::devices(xml, spec, profile, network))?;
            Ok(())
        })?;
    Ok(())
}

fn memory(xml: &mut Xml, spec: &DomainSpec, profile: &HostProfile) -> std::io::Result<()> {
    if !spec.hugepages && !profile.memory_locking {
        return Ok(());
    }
    xml.create_element("memoryBacking")
        .write_inner_content(|xml| {
            if spec.hugepages {
                empty(xml, "hugepages", &[])?;
            }
            if profile.memory_locking {
                empty(xml, "locked", &[])?;
            }
            Ok(())
        })?;
    Ok(())
}

fn os(xml: &mut Xml, spec: &DomainSpec, profile: &HostProfile) -> std::io::Result<()> {
    xml.create_element("os").write_inner_content(|xml| {
        xml.create_element("type")
            .with_attributes([("arch", "x86_64"), ("machine", profile.machine.as_str())])
            .write_text_content(BytesText::new("hvm"))?;
        xml.create_element("loader")
            .with_attributes([("readonly", "yes"), ("secure", "no"), ("type", "pflash")])
            .write_text_content(BytesText::new(&shown(&profile.firmware_code)))?;
        empty(
            xml,
            "nvram",
            &[("template", &shown(&profile.firmware_vars_template))],
        )?;
        // a device that has an order of its own leaves no room for this one
        if spec.boots_from.is_none() {
            empty(xml, "boot", &[("dev", "hd")])?;
        }
        empty(xml, "smbios", &[("mode", "sysinfo")])
    })?;
    Ok(())
}

/// cloud-init reads its instance id here: without the seed it knows that it has configured this instance already, and
/// does not begin anew with keys of its own making.
fn instance(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    xml.create_element("sysinfo")
        .with_attribute(("type", "smbios"))
        .write_inner_content(|xml| {
            xml.create_element("system").write_inner_content(|xml| {
                xml.create_element("entry")
                    .with_attribute(("name", "serial"))
                    .write_text_content(BytesText::new(&format!(
                        "ds=nocloud;i={}",
                        spec.uuid.hyphenated()
                    )))?;
                Ok(())
            })?;
            Ok(())
        })?;
    Ok(())
}

fn empty(xml: &mut Xml, name: &str, attributes: &[(&str, &str)]) -> std::io::Result<()> {
    xml.create_element(name)
        .with_attributes(attributes.iter().copied())
        .write_empty()?;
    Ok(())
}

fn text(xml: &mut Xml, name: &str, value: &str) -> std::io::Result<()> {
    xml.create_element(name)
        .write_text_content(BytesText::new(value))?;
    Ok(())
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
