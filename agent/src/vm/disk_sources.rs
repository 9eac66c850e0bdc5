//! Everything in a domain description that a disk may hide in. What is not understood is reported, never left out (P9).
use std::collections::{BTreeMap, BTreeSet};

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Decoder, Reader, XmlVersion};

use crate::ids::PciAddress;

/// The sources of a domain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// Every absolute path that the description names anywhere: disks, backing chains, mirrors, memory devices, folders;
    /// and, by its path in sysfs, every PCI device that is given to the guest: it may be the controller of a disk.
    pub paths: BTreeSet<String>,
    /// Volumes of storage pools: pool and volume.
    pub volumes: BTreeSet<(String, String)>,
    /// Disk sources that lead nowhere we can look.
    pub untraced: BTreeSet<String>,
}

/// Elements that have a source of a disk, by their attribute `type`.
const HOLD_A_SOURCE: [&[u8]; 4] = [b"disk", b"mirror", b"backingStore", b"dataStore"];
/// Types whose source is a path in its attributes.
const BY_PATH: [&str; 3] = ["file", "block", "dir"];

/// Path in sysfs of a PCI device.
pub fn pci_device(address: &PciAddress) -> String {
    format!("/sys/bus/pci/devices/{address}")
}

/// Reads a description.
///
/// # Errors
/// It is not well-formed.
pub fn sources(xml: &str) -> Result<Sources, String> {
    let mut reader = Reader::from_str(xml);
    let mut found = Sources::default();
    let (mut depth, mut text) = (0_u32, String::new());
    // depth of the source that is open
    let mut source = None;
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match &event {
            Event::Text(piece) => text.push_str(&piece.decode().map_err(|e| e.to_string())?),
            Event::CData(piece) => text.push_str(&piece.decode().map_err(|e| e.to_string())?),
            Event::GeneralRef(name) => {
                let name = name.decode().map_err(|error| error.to_string())?;
                let whole = format!("&{name};");
                let plain = quick_xml::escape::unescape(&whole).map_err(|e| e.to_string())?;
                text.push_str(&plain);
            }
            _ => {
                found.path(&std::mem::take(&mut text));
            }
        }
        match event {
            Event::Start(start) => {
                found.element(&start, reader.decoder(), source.is_some())?;
                if start.name().as_ref() == b"source" {
                    source.get_or_insert(depth);
                }
                depth += 1;
            }
            Event::Empty(start) => found.element(&start, reader.decoder(), source.is_some())?,
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                source = source.filter(|opened| *opened < depth);
            }
            Event::Eof if depth == 0 => return Ok(found),
            Event::Eof => return Err("the description ends in the middle".to_owned()),
            _ => {}
        }
    }
}

impl Sources {
    fn path(&mut self, text: &str) {
        let text = text.trim();
        if text.starts_with('/') {
            self.paths.insert(text.to_owned());
        }
    }

    /// An argument of QEMU, "vfio-pci,host=af:00.0" or the same as JSON: every path and every PCI address in it is a source. One
    /// that gives the guest a device or a file that cannot be told is untraced.
    fn argument(&mut self, value: &str) {
        let words = value.split(|sign: char| ",='\"{}[] \t".contains(sign));
        let mut found = false;
        for word in words {
            // "nvme://0000:af:00.0/1" of a block device, "file:/dev/sda", "\"host\":\"af:00.0\""
            let word = word.trim_matches(':');
            let rest = word.split_once("://").map_or(word, |(_, rest)| rest);
            let rest = rest.strip_prefix("file:").unwrap_or(rest);
            self.path(rest);
            found |= rest.starts_with('/');
            let address = rest.split('/').next().unwrap_or_default();
            let whole = format!("0000:{address}");
            if let Some(address) = address.parse().ok().or_else(|| whole.parse().ok()) {
                self.paths.insert(pci_device(&address));
                found = true;
            }
        }
        let gives = ["vfio", "file=", "filename", "host_device", "nvme://"];
        let gives_one = gives.iter().any(|word| value.contains(word));
        // a set of descriptors is a name for files that nobody sees here
        if value.contains("fdset") || gives_one && !found {
            self.untraced.insert(format!("an argument {value:?}"));
        }
    }

    fn element(
        &mut self,
        start: &BytesStart<'_>,
        decoder: Decoder,
        in_source: bool,
    ) -> Result<(), String> {
        let (mut kind, mut pool, mut volume) = (None, None, None);
        let name = start.name();
        let is_source = name.as_ref() == b"source";
        // of QEMU's own command line, past what libvirt describes
        let is_argument = start.local_name().as_ref() == b"arg";
        // elsewhere an address is the guest's
        let is_address = in_source && name.as_ref() == b"address";
        let mut address = BTreeMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let value = attribute
                .decoded_and_normalized_value(XmlVersion::Implicit1_0, decoder)
                .map_err(|error| error.to_string())?
                .into_owned();
            self.path(&value);
            if is_argument {
                self.argument(&value);
            }
            match attribute.key.as_ref() {
                key if is_address => {
                    address.insert(String::from_utf8_lossy(key).into_owned(), value);
                }
                b"type" => kind = Some(value),
                b"pool" if is_source => pool = Some(value),
                b"volume" if is_source => volume = Some(value),
                b"dev" | b"file" | b"dir" if is_source && !value.starts_with('/') => {
                    self.untraced.insert(format!("disk source {value:?}"));
                }
                _ => {}
            }
        }
        if let (Some(pool), Some(volume)) = (pool, volume) {
            self.volumes.insert((pool, volume));
        }
        // other buses' addresses have no slot
        if address.contains_key("slot") {
            match pci_path(&address) {
                Some(path) => self.paths.insert(path),
                None => self.untraced.insert(format!("a PCI device {address:?}")),
            };
        }
        let is_disk = HOLD_A_SOURCE.contains(&name.as_ref());
        if let Some(kind) = kind.filter(|_| is_disk) {
            // a network's disk is none of this host; a volume's path is looked up
            if !BY_PATH.contains(&kind.as_str()) && kind != "network" && kind != "volume" {
                self.untraced.insert(format!("a disk of type {kind:?}"));
            }
        }
        Ok(())
    }
}

/// Path in sysfs of the PCI device with an address; `None` when it is none.
fn pci_path(address: &BTreeMap<String, String>) -> Option<String> {
    let number = |part: &str| match address.get(part).map(String::as_str) {
        None => Some(0),
        Some(text) => match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        },
    };
    let (domain, bus) = (number("domain")?, number("bus")?);
    let (slot, function) = (number("slot")?, number("function")?);
    let address = format!("{domain:04x}:{bus:02x}:{slot:02x}.{function:x}");
    Some(pci_device(&address.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(found: &Sources) -> Vec<&str> {
        found.paths.iter().map(String::as_str).collect()
    }

    #[test]
    fn d_34_every_disk_source_is_seen() {
        let xml = "<domain><devices>
            <disk type='block'><source dev='/dev/loop3' index='1'/><backingStore><source file='/b.img'/></backingStore></disk>
            <disk type='file'><source file='/seed.iso'/></disk>
            <interface type='bridge'><source bridge='ovsbr0'/></interface></devices></domain>";
        let found = sources(xml).unwrap();
        assert_eq!(paths(&found), ["/b.img", "/dev/loop3", "/seed.iso"]);
        assert!(found.untraced.is_empty() && found.volumes.is_empty());
    }

    #[test]
    fn p9_volumes_mirrors_and_whatever_is_not_known_count_as_use() {
        let xml = "<domain><devices>
            <disk type='volume'><source pool='vg' volume='lv1'/></disk>
            <disk type='file'><source file='/a.img'/><mirror type='block' job='copy'><source dev='/dev/nvme1n1'/></mirror></disk>
            <disk type='file'><source file='/c.img'/><mirror file='/old&amp;style.img'/></disk>
            <disk type='nvme'><source type='pci' namespace='1'/></disk>
            <disk type='block'><source dev='sda'/></disk>
            <disk type='network'><source protocol='rbd' name='p/i'/></disk>
            <disk type='file' device='cdrom'><target dev='sdb'/></disk>
            <hostdev mode='capabilities' type='storage'><source><block>/dev/nvme2n1</block></source></hostdev>
            <memory model='nvdimm'><source><path>/dev/with&amp;sign</path></source></memory></devices></domain>";
        let found = sources(xml).unwrap();
        for path in [
            "/dev/nvme1n1",
            "/dev/nvme2n1",
            "/old&style.img",
            "/dev/with&sign",
        ] {
            assert!(found.paths.contains(path), "{path}: {found:?}");
        }
        let volume = ("vg".to_owned(), "lv1".to_owned());
        assert_eq!(found.volumes, BTreeSet::from([volume]));
        let untraced: Vec<_> = found.untraced.iter().map(String::as_str).collect();
        assert_eq!(untraced, ["a disk of type \"nvme\"", "disk source \"sda\""]);
    }

    #[test]
    fn d_34_a_pci_device_of_a_guest_is_a_source() {
        let xml = "<domain><devices>
            <hostdev mode='subsystem' type='pci' managed='yes'><driver name='vfio'/><source>
                <address domain='0x0000' bus='0xaf' slot='0x00' function='0x1'/></source>
                <address type='pci' domain='0x0000' bus='0x06' slot='0x00' function='0x0'/></hostdev>
            <interface type='hostdev'><source><address type='pci' bus='3' slot='0x1f'/></source></interface>
            <hostdev mode='subsystem' type='usb'><source><address bus='1' device='2'/></source></hostdev>
            <hostdev mode='subsystem' type='pci'><source><address bus='0xzz' slot='0x0'/></source></hostdev>
            </devices></domain>";
        let found = sources(xml).unwrap();
        let devices = ["0000:03:1f.0", "0000:af:00.1"];
        let devices = devices.map(|address| format!("/sys/bus/pci/devices/{address}"));
        assert_eq!(paths(&found), devices);
        assert_eq!(found.untraced.len(), 1, "{found:?}");
    }

    #[test]
    fn d_34_what_qemu_is_told_past_libvirt_is_a_source() {
        let argument = |value: &str| {
            let value = value.replace('"', "&quot;");
            let xml = format!(
                "<domain xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><qemu:commandline>
                 <qemu:arg value='-device'/><qemu:arg value='{value}'/></qemu:commandline></domain>"
            );
            let found = sources(&xml).unwrap();
            let paths: Vec<String> = found.paths.into_iter().collect();
            (paths.join(" "), found.untraced.len())
        };
        let device = |address: &str| (format!("/sys/bus/pci/devices/{address}"), 0);
        for given in [
            "vfio-pci,host=0000:af:00.1",
            "vfio-pci,host=af:00.1,id=disk",
            r#"{"driver":"vfio-pci","host":"0000:af:00.1"}"#,
            "driver=nvme,device=0000:af:00.1,namespace=1",
            "file=nvme://0000:af:00.1/1,if=none",
            "vfio-pci,sysfsdev=/sys/bus/pci/devices/0000:af:00.1",
        ] {
            assert_eq!(argument(given), device("0000:af:00.1"), "{given}");
        }
        for given in [
            "file=/dev/nvme1n1,if=none",
            r#"{"driver":"host_device","filename":"/dev/nvme1n1"}"#,
            "if=none,file.filename=/dev/nvme1n1",
        ] {
            assert_eq!(argument(given), ("/dev/nvme1n1".to_owned(), 0), "{given}");
        }
        assert_eq!(argument("virtio-rng-pci,id=rng0"), (String::new(), 0));
        for given in [
            "vfio-pci,host=first",
            "file=disk.img",
            "fd=3,set=2,opaque=fdset",
        ] {
            assert_eq!(argument(given), (String::new(), 1), "{given}");
        }
    }

    #[test]
    fn p9_a_description_that_cannot_be_read_is_no_empty_one() {
        for broken in [
            "<domain><devices><disk type='block'>",
            "<domain></devices>",
            "<domain><disk type='block><source/></disk></domain>",
            "<domain>&nosuch;</domain>",
        ] {
            assert!(sources(broken).is_err(), "{broken}");
        }
    }
}
