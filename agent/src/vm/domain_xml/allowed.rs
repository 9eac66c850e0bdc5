//! What a VM may have (D-61): everything else is a way out of it, or a way to look in. By this list the description is
//! tested, and what libvirt says of a domain that runs.
use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};

/// A device by its element, with what its attributes must be.
struct Device {
    element: &'static str,
    /// Each an attribute and its values; an attribute that is not there breaks none of them.
    attributes: &'static [(&'static str, &'static [&'static str])],
}

const fn device(
    element: &'static str,
    attributes: &'static [(&'static str, &'static [&'static str])],
) -> Device {
    Device {
        element,
        attributes,
    }
}

/// What the description has.
const DESCRIBED: &[Device] = &[
    device("emulator", &[]),
    device(
        "disk",
        &[("type", &["block", "file"]), ("device", &["disk", "cdrom"])],
    ),
    device("controller", &[("type", &["pci", "scsi", "sata"])]),
    // no bus for devices of the host
    device("controller", &[("type", &["usb"]), ("model", &["none"])]),
    device("interface", &[("type", &["bridge"])]),
    device("hostdev", &[("mode", &["subsystem"]), ("type", &["pci"])]),
    device("serial", &[("type", &["pty"])]),
    device("rng", &[("model", &["virtio"])]),
    device("memballoon", &[("model", &["none"])]),
];

/// What libvirt adds to every machine of this kind.
const ADDED: &[Device] = &[
    // the serial port by another name
    device("console", &[("type", &["pty"])]),
    // the ports of a PC, at which nobody sits
    device("input", &[("bus", &["ps2"])]),
    device("audio", &[("type", &["none"])]),
    // the timer of the chipset
    device("watchdog", &[("model", &["itco"])]),
];

/// The devices of a description that are not on the list.
///
/// # Errors
/// What is no XML, or has no devices.
pub fn unlisted_in_description(xml: &str) -> Result<Vec<String>, String> {
    unlisted(xml, &[DESCRIBED])
}

/// The devices of a domain, as libvirt describes it while it runs, that are not on the list.
///
/// # Errors
/// What is no XML, or has no devices.
pub fn unlisted_in_domain(xml: &str) -> Result<Vec<String>, String> {
    unlisted(xml, &[DESCRIBED, ADDED])
}

fn unlisted(xml: &str, lists: &[&[Device]]) -> Result<Vec<String>, String> {
    let mut reader = Reader::from_str(xml);
    let (mut path, mut found, mut seen) = (Vec::<String>::new(), Vec::new(), 0_usize);
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        let (element, opens) = match &event {
            Event::Start(element) => (element, true),
            Event::Empty(element) => (element, false),
            Event::End(_) => {
                path.pop();
                continue;
            }
            Event::Eof if path.is_empty() => break,
            Event::Eof => return Err("it ends too early".to_owned()),
            _ => continue,
        };
        let name = String::from_utf8_lossy(element.name().as_ref()).into_owned();
        if path.len() == 2 && path[0] == "domain" && path[1] == "devices" {
            seen += 1;
            let attributes = attributes(element)?;
            let mut devices = lists.iter().flat_map(|list| list.iter());
            if !devices.any(|one| one.has(&name, &attributes)) {
                found.push(format!("{name} {attributes:?}"));
            }
        }
        // commands for QEMU itself go past every list
        if name.starts_with("qemu:") {
            found.push(name.clone());
        }
        if opens {
            path.push(name);
        }
    }
    match seen {
        0 => Err("it has no devices".to_owned()),
        _ => Ok(found),
    }
}

fn attributes(element: &BytesStart<'_>) -> Result<BTreeMap<String, String>, String> {
    let mut found = BTreeMap::new();
    for attribute in element.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let name = String::from_utf8_lossy(attribute.key.as_ref()).into_owned();
        let value = attribute
            .decoded_and_normalized_value(XmlVersion::Implicit1_0, element.decoder())
            .map_err(|error| error.to_string())?;
        found.insert(name, value.into_owned());
    }
    Ok(found)
}

impl Device {
    fn has(&self, element: &str, attributes: &BTreeMap<String, String>) -> bool {
        let fits = |(name, values): &(&str, &[&str])| {
            let given = attributes.get(*name);
            given.is_none_or(|given| values.contains(&given.as_str()))
        };
        self.element == element && self.attributes.iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(devices: &str) -> String {
        format!(
            "<domain type='kvm'><devices><emulator>/usr/bin/q</emulator>{devices}</devices></domain>"
        )
    }

    #[test]
    fn d_61_a_device_beside_the_list_is_named() {
        let ours = "<disk type='block' device='disk'><source dev='/dev/a'/></disk><controller type='usb' model='none'/>";
        assert_eq!(unlisted_in_description(&domain(ours)), Ok(vec![]));
        let added =
            "<input type='mouse' bus='ps2'/><audio id='1' type='none'/><console type='pty'/>";
        assert_eq!(unlisted_in_domain(&domain(added)), Ok(vec![]));
        assert_eq!(
            unlisted_in_description(&domain(added)).map(|all| Vec::len(&all)),
            Ok(3)
        );
        for device in [
            "<graphics type='vnc'/>",
            "<video><model type='vga'/></video>",
            "<tpm model='tpm-crb'/>",
            "<channel type='unix'/>",
            "<filesystem type='mount'/>",
            "<redirdev bus='usb' type='tcp'/>",
            "<input type='tablet' bus='usb'/>",
            "<controller type='usb' model='qemu-xhci'/>",
            "<hostdev mode='subsystem' type='usb'/>",
            "<interface type='network'/>",
            "<disk type='network' device='disk'/>",
            "<serial type='tcp'/>",
            "<audio id='1' type='spice'/>",
            "<memballoon model='virtio'/>",
        ] {
            let found = unlisted_in_domain(&domain(device)).expect("XML");
            assert_eq!(found.len(), 1, "{device}");
        }
        let command = domain("").replace("</domain>", "<qemu:commandline/></domain>");
        assert_eq!(
            unlisted_in_domain(&command),
            Ok(vec!["qemu:commandline".to_owned()])
        );
    }

    #[test]
    fn what_is_no_description_is_no_list_of_nothing() {
        for text in [
            "",
            "<domain/>",
            "<domain><devices>",
            "virsh: no such domain",
        ] {
            assert!(unlisted_in_domain(text).is_err(), "{text}");
        }
    }
}
