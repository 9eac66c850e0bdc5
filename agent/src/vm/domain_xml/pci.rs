//! PCI of the guest: each function that is passed through has a root port of its own, below a bus of the NUMA cell it is near.
use quick_xml::events::BytesText;

use super::numa::with;
use super::{DomainSpec, Xml};
use crate::vm::locality::Function;

/// The index of the root bus.
const ROOT: usize = 0;
/// Bus numbers of a guest.
const BUSES: usize = 256;

/// The root with its window, a bus for each NUMA cell when there are several, and a port for each function. Ports have the
/// indexes that [`functions`] names.
pub(super) fn controllers(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    let locality = &spec.locality;
    if locality.functions.is_empty() {
        return Ok(());
    }
    xml.create_element("controller")
        .with_attributes([("type", "pci"), ("index", "0"), ("model", "pcie-root")])
        .write_inner_content(|xml| {
            if locality.window_bytes > 0 {
                let kib = (locality.window_bytes / 1024).to_string();
                xml.create_element("pcihole64")
                    .with_attribute(("unit", "KiB"))
                    .write_text_content(BytesText::new(&kib))?;
            }
            Ok(())
        })?;
    let buses = buses(spec);
    for cell in 0..buses {
        let number = BUSES / (buses + 1) * (cell + 1);
        xml.create_element("controller")
            .with_attributes([
                ("type", "pci"),
                ("index", &*(ROOT + 1 + cell).to_string()),
                ("model", "pcie-expander-bus"),
            ])
            .write_inner_content(|xml| {
                xml.create_element("target")
                    .with_attribute(("busNr", &*number.to_string()))
                    .write_inner_content(|xml| super::text(xml, "node", &cell.to_string()))?;
                Ok(())
            })?;
    }
    let mut taken = vec![0; buses];
    for (index, function) in locality.functions.iter().enumerate() {
        let port = port(spec, index).to_string();
        let attributes = [
            ("type", "pci"),
            ("index", port.as_str()),
            ("model", "pcie-root-port"),
        ];
        let port = xml.create_element("controller").with_attributes(attributes);
        match function.cell.filter(|cell| *cell < buses) {
            Some(cell) => {
                let slot = taken[cell];
                taken[cell] += 1;
                port.write_inner_content(|xml| address(xml, ROOT + 1 + cell, slot))?;
            }
            None => {
                port.write_empty()?;
            }
        }
    }
    Ok(())
}

/// The devices of a NUMA cell are told apart by their bus only where there are several cells.
fn buses(spec: &DomainSpec) -> usize {
    match spec.locality.cells.len() {
        1 => 0,
        cells => cells,
    }
}

/// Index of the port of a function.
fn port(spec: &DomainSpec, function: usize) -> usize {
    ROOT + 1 + buses(spec) + function
}

fn address(xml: &mut Xml, bus: usize, slot: usize) -> std::io::Result<()> {
    let address = [
        ("type", "pci".to_owned()),
        ("domain", "0x0000".to_owned()),
        ("bus", format!("0x{bus:02x}")),
        ("slot", format!("0x{slot:02x}")),
        ("function", "0x0".to_owned()),
    ];
    with(xml, "address", &address)
}

/// The functions themselves.
pub(super) fn functions(xml: &mut Xml, spec: &DomainSpec) -> std::io::Result<()> {
    for (index, Function { address: at, .. }) in spec.locality.functions.iter().enumerate() {
        let (domain, bus, slot, function) = at.parts();
        xml.create_element("hostdev")
            .with_attributes([("mode", "subsystem"), ("type", "pci"), ("managed", "yes")])
            .write_inner_content(|xml| {
                xml.create_element("source").write_inner_content(|xml| {
                    let source = [
                        ("domain", format!("0x{domain}")),
                        ("bus", format!("0x{bus}")),
                        ("slot", format!("0x{slot}")),
                        ("function", format!("0x{function}")),
                    ];
                    with(xml, "address", &source)
                })?;
                if spec.boots_from.as_ref() == Some(at) {
                    super::empty(xml, "boot", &[("order", "1")])?;
                }
                address(xml, port(spec, index), 0)
            })?;
    }
    Ok(())
}
