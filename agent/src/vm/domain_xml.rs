//! The domain description, written element by element: UEFI with Secure Boot off (D-50..D-52), no TPM (D-49),
//! no graphics (D-61), raw block disks, the seed on a CD, one vNIC (D-60), complete PCI functions by VFIO (D-47).
use std::io::Cursor;
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use quick_xml::Writer;
use quick_xml::events::BytesText;
use uuid::Uuid;

use crate::error::{HostError, HostResult};
use crate::ids::{Mac, PciAddress, VmName};
use crate::settings::{BridgeKind, HostProfile, Network};

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
    /// Block devices, the boot disk first.
    pub disks: Vec<PathBuf>,
    /// Seed image, for the first boot.
    pub seed: Option<PathBuf>,
    /// MAC of the vNIC.
    pub mac: Mac,
    /// Name of its port on the bridge.
    pub port: String,
    /// PCI functions passed through.
    pub hostdevs: Vec<PciAddress>,
    /// NUMA node of the memory.
    pub numa_node: Option<u32>,
}

/// Name of the drive that the seed is in.
pub const SEED_DEVICE: &str = "sda";

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
            memory_and_pins(xml, spec, profile)?;
            os(xml, profile)?;
            instance(xml, spec)?;
            xml.create_element("features").write_inner_content(|xml| {
                empty(xml, "acpi", &[])?;
                empty(xml, "apic", &[])
            })?;
            cpu(xml, profile)?;
            empty(xml, "clock", &[("offset", "utc")])?;
            text(xml, "on_poweroff", "destroy")?;
            text(xml, "on_reboot", "restart")?;
            text(xml, "on_crash", "destroy")?;
            xml.create_element("devices")
                .write_inner_content(|xml| devices(xml, spec, profile, network))?;
            Ok(())
        })?;
    Ok(())
}

fn memory_and_pins(xml: &mut Xml, spec: &DomainSpec, profile: &HostProfile) -> std::io::Result<()> {
    if spec.hugepages || profile.memory_locking {
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
    }
    if let Some(node) = spec.numa_node {
        xml.create_element("numatune").write_inner_content(|xml| {
            empty(
                xml,
                "memory",
                &[("mode", "strict"), ("nodeset", &node.to_string())],
            )
        })?;
    }
    Ok(())
}

fn os(xml: &mut Xml, profile: &HostProfile) -> std::io::Result<()> {
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
        empty(xml, "boot", &[("dev", "hd")])?;
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

fn cpu(xml: &mut Xml, profile: &HostProfile) -> std::io::Result<()> {
    if profile.cpu_model == "host-passthrough" {
        return empty(
            xml,
            "cpu",
            &[("mode", "host-passthrough"), ("check", "none")],
        );
    }
    xml.create_element("cpu")
        .with_attributes([("mode", "custom"), ("match", "exact")])
        .write_inner_content(|xml| {
            xml.create_element("model")
                .with_attribute(("fallback", "forbid"))
                .write_text_content(BytesText::new(&profile.cpu_model))?;
            Ok(())
        })?;
    Ok(())
}

fn devices(
    xml: &mut Xml,
    spec: &DomainSpec,
    profile: &HostProfile,
    network: &Network,
) -> std::io::Result<()> {
    text(xml, "emulator", &shown(&profile.emulator))?;
    for (index, disk) in spec.disks.iter().enumerate() {
        let letter = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
        let driver = [
            ("name", "qemu"),
            ("type", "raw"),
            ("cache", "none"),
            ("io", "native"),
            ("discard", "unmap"),
        ];
        xml.create_element("disk")
            .with_attributes([("type", "block"), ("device", "disk")])
            .write_inner_content(|xml| {
                empty(xml, "driver", &driver)?;
                empty(xml, "source", &[("dev", &shown(disk))])?;
                empty(
                    xml,
                    "target",
                    &[("dev", &format!("vd{letter}")), ("bus", "virtio")],
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
    for address in &spec.hostdevs {
        let (domain, bus, slot, function) = address.parts();
        xml.create_element("hostdev")
            .with_attributes([("mode", "subsystem"), ("type", "pci"), ("managed", "yes")])
            .write_inner_content(|xml| {
                xml.create_element("source").write_inner_content(|xml| {
                    empty(
                        xml,
                        "address",
                        &[
                            ("domain", &format!("0x{domain}")),
                            ("bus", &format!("0x{bus}")),
                            ("slot", &format!("0x{slot}")),
                            ("function", &format!("0x{function}")),
                        ],
                    )
                })?;
                Ok(())
            })?;
    }
    xml.create_element("serial")
        .with_attribute(("type", "pty"))
        .write_inner_content(|xml| empty(xml, "target", &[("port", "0")]))?;
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

fn interface(xml: &mut Xml, spec: &DomainSpec, network: &Network) -> std::io::Result<()> {
    xml.create_element("interface")
        .with_attribute(("type", "bridge"))
        .write_inner_content(|xml| {
            empty(xml, "mac", &[("address", spec.mac.as_str())])?;
            empty(xml, "source", &[("bridge", &network.bridge)])?;
            if network.bridge_kind == BridgeKind::Ovs {
                empty(xml, "virtualport", &[("type", "openvswitch")])?;
            }
            empty(xml, "target", &[("dev", &spec.port)])?;
            empty(xml, "model", &[("type", "virtio")])?;
            if network.passes_in_user_space() {
                // what a guest leaves to its device nothing would compute, and its packets would be dropped
                xml.create_element("driver")
                    .write_inner_content(|xml| empty(xml, "host", &[("csum", "off")]))?;
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Hypervisor;

    fn profile() -> HostProfile {
        HostProfile {
            name: "lab".into(),
            lab: true,
            mode: None,
            hypervisor: Hypervisor::Qemu,
            cpu_model: "qemu64".into(),
            machine: "q35".into(),
            seed_bus: "scsi".into(),
            memory_locking: false,
            hugepages: false,
            firmware_code: "/usr/share/OVMF/OVMF_CODE_4M.fd".into(),
            firmware_vars_template: "/usr/share/OVMF/OVMF_VARS_4M.fd".into(),
            emulator: "/usr/bin/qemu-system-x86_64".into(),
        }
    }

    fn spec() -> DomainSpec {
        DomainSpec {
            name: "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab"
                .parse()
                .unwrap(),
            uuid: Uuid::from_u128(7),
            vcpus: 2,
            memory_mib: 512,
            hugepages: false,
            disks: vec!["/dev/loop0".into(), "/dev/loop1".into()],
            seed: Some("/state/seeds/a<b>&'c.iso".into()),
            mac: "52:54:00:10:00:10".parse().unwrap(),
            port: "gs0123456789ab".into(),
            hostdevs: Vec::new(),
            numa_node: None,
        }
    }

    #[test]
    fn inc_21_inc_23_d_49_d_50_d_61_no_tpm_no_secure_boot_no_graphics() {
        let xml = domain_xml(&spec(), &profile(), &Network::default()).unwrap();
        for absent in [
            "<tpm",
            "<graphics",
            "<video",
            "vnc",
            "hugepages",
            "hostdev",
            "locked",
            "cputune",
        ] {
            assert!(!xml.contains(absent), "{absent} in {xml}");
        }
        assert!(xml.contains(r#"<loader readonly="yes" secure="no" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>"#));
        assert!(xml.contains(r#"<nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd"/>"#));
        assert!(xml.contains(r#"<source dev="/dev/loop1"/>"#) && xml.contains(r#"dev="vdb""#));
        assert!(xml.contains(r#"<virtualport type="openvswitch"/>"#));
        assert!(xml.contains("a&lt;b&gt;&amp;"), "paths are escaped");
        assert!(
            !xml.contains("csum"),
            "a switch in the kernel fills in checksums"
        );
    }

    #[test]
    fn a_switch_in_user_space_gets_whole_checksums_from_its_guests() {
        let network = Network {
            datapath: "netdev".into(),
            ..Network::default()
        };
        let xml = domain_xml(&spec(), &profile(), &network).unwrap();
        assert!(xml.contains(r#"<host csum="off"/>"#), "{xml}");
    }

    #[test]
    fn d_47_a_gpu_slice_gets_whole_functions_hugepages_and_memory_of_one_node() {
        let mut spec = spec();
        spec.hugepages = true;
        spec.hostdevs = vec!["0000:1b:00.0".parse().unwrap()];
        spec.numa_node = Some(1);
        let mut profile = profile();
        profile.hypervisor = Hypervisor::Kvm;
        profile.cpu_model = "host-passthrough".into();
        let xml = domain_xml(&spec, &profile, &Network::default()).unwrap();
        assert!(
            xml.contains(r#"<domain type="kvm">"#) && xml.contains(r#"mode="host-passthrough""#)
        );
        assert!(xml.contains(r#"<hostdev mode="subsystem" type="pci" managed="yes">"#));
        assert!(
            xml.contains(r#"<address domain="0x0000" bus="0x1b" slot="0x00" function="0x0"/>"#)
        );
        assert!(xml.contains("<hugepages/>"));
        assert!(xml.contains(r#"<memory mode="strict" nodeset="1"/>"#));
    }

    #[test]
    fn p11_the_seed_is_there_for_the_first_boot_alone_and_the_instance_always() {
        let mut spec = spec();
        let first = domain_xml(&spec, &profile(), &Network::default()).unwrap();
        spec.seed = None;
        let later = domain_xml(&spec, &profile(), &Network::default()).unwrap();
        assert!(first.contains("/state/seeds/") && !later.contains("/state/seeds/"));
        assert!(
            later.contains(r#"device="cdrom""#),
            "the drive stays: {later}"
        );
        for xml in [first, later] {
            assert!(xml.contains(r#"<smbios mode="sysinfo"/>"#), "{xml}");
            let serial = "ds=nocloud;i=00000000-0000-0000-0000-000000000007</entry>";
            assert!(xml.contains(serial), "{xml}");
        }
    }

    #[test]
    fn a_linux_bridge_has_no_virtual_port() {
        let network = Network {
            bridge_kind: BridgeKind::Linux,
            ..Network::default()
        };
        assert!(
            !domain_xml(&spec(), &profile(), &network)
                .unwrap()
                .contains("virtualport")
        );
    }
}
