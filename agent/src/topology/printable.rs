//! What firmware, devices and switches say of themselves, in a form that can be shown: a control character in a serial number
//! or in a switch's port description is no reason to refuse what the host consists of, and inventory takes none in.
use gpuaas_proto::gpuaas::common::v1::HostInventory;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};

/// Longest text in bytes, as inventory takes it in.
const MAX_TEXT: usize = 4096;

/// The same with a space in place of each control character, and no text longer than is taken in.
pub fn inventory(host: HostInventory) -> HostInventory {
    let pool = gpuaas_proto::common();
    let kind = pool.get_message_by_name("gpuaas.common.v1.HostInventory");
    let message = kind.and_then(|kind| {
        let bytes = host.encode_to_vec();
        DynamicMessage::decode(kind, bytes.as_slice()).ok()
    });
    let Some(mut message) = message else {
        return host;
    };
    every_text(&mut message);
    message.transcode_to().unwrap_or(host)
}

fn every_text(message: &mut DynamicMessage) {
    for (_, value) in message.fields_mut() {
        each(value);
    }
}

fn each(value: &mut Value) {
    match value {
        Value::String(text) => {
            let end = text.floor_char_boundary(MAX_TEXT);
            let is_odd = end < text.len() || text.chars().any(char::is_control);
            if is_odd {
                *text = text[..end].replace(char::is_control, " ");
            }
        }
        Value::List(list) => list.iter_mut().for_each(each),
        Value::Message(message) => every_text(message),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::{LinkNeighbor, Machine, NvmeDisk};

    use super::*;

    #[test]
    fn what_a_device_or_a_switch_says_of_itself_can_be_shown() {
        let disk = |serial: &str| NvmeDisk {
            serial: serial.to_owned(),
            bytes: 7,
            ..NvmeDisk::default()
        };
        let host = |odd: bool| HostInventory {
            machine: Some(Machine {
                model: if odd {
                    "XE9680L\u{1b}[2J"
                } else {
                    "XE9680L [2J"
                }
                .into(),
                ..Machine::default()
            }),
            disks: vec![disk("S1"), disk(if odd { "S2\0" } else { "S2 " })],
            neighbors: vec![LinkNeighbor {
                port_description: if odd { "x\r\n" } else { "x  " }.into(),
                ..LinkNeighbor::default()
            }],
            unreadable: vec!["é".repeat(if odd { 3000 } else { 2048 })],
            ..HostInventory::default()
        };
        assert_eq!(inventory(host(true)), host(false));
        assert_eq!(inventory(host(false)), host(false));
    }
}
