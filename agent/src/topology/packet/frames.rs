//! UDP packets and DHCP messages, byte by byte.
use std::net::Ipv4Addr;

use crate::ids::Mac;

const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// Of the fixed part of a message.
const FIXED: usize = 236;
/// Some servers answer nothing shorter.
const SHORTEST: usize = 300;
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ETHERNET: u8 = 1;
const MESSAGE_TYPE: u8 = 53;
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const PAD: u8 = 0;
const END: u8 = 255;

/// A UDP packet without a checksum, which IPv4 allows.
pub fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + 8).unwrap_or(u16::MAX);
    let mut packet = Vec::with_capacity(usize::from(length));
    for field in [from, to, length, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// A DHCPDISCOVER of a client with this hardware address.
pub fn discover(id: [u8; 4], mac: &Mac) -> Vec<u8> {
    let octets = mac.as_str().split(':');
    let octets: Vec<u8> = octets
        .filter_map(|octet| u8::from_str_radix(octet, 16).ok())
        .collect();
    let mut message = vec![0; FIXED];
    message[..3].copy_from_slice(&[REQUEST, ETHERNET, 6]);
    message[4..8].copy_from_slice(&id);
    message[28..28 + octets.len()].copy_from_slice(&octets);
    message.extend(MAGIC);
    message.extend([MESSAGE_TYPE, 1, DISCOVER, END]);
    message.resize(SHORTEST, PAD);
    message
}

/// The address that a DHCPOFFER of this request offers; `None` of any other message.
pub fn offer(message: &[u8], id: [u8; 4]) -> Option<Ipv4Addr> {
    let (fixed, rest) = message.split_at_checked(FIXED)?;
    if fixed.first() != Some(&REPLY) || fixed.get(4..8)? != id {
        return None;
    }
    let mut options = rest.strip_prefix(&MAGIC)?;
    while let Some((&code, after)) = options.split_first() {
        match code {
            PAD => options = after,
            END => return None,
            _ => {
                let (&length, after) = after.split_first()?;
                let (value, after) = after.split_at_checked(usize::from(length))?;
                if code == MESSAGE_TYPE {
                    let ip: [u8; 4] = fixed.get(16..20)?.try_into().ok()?;
                    return (value == [OFFER]).then(|| Ipv4Addr::from(ip));
                }
                options = after;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: [u8; 4] = [1, 2, 3, 4];

    fn answer(kind: u8) -> Vec<u8> {
        let mut message = discover(ID, &"02:67:70:72:6f:62".parse().unwrap());
        message[0] = REPLY;
        message[16..20].copy_from_slice(&[10, 100, 0, 254]);
        message[FIXED + 6] = kind;
        message
    }

    #[test]
    fn a_request_is_as_the_rules_of_guests_want_it() {
        let message = discover(ID, &"02:67:70:72:6f:62".parse().unwrap());
        let packet = udp(68, 67, &message);
        assert_eq!(packet[..8], [0, 68, 0, 67, 1, 52, 0, 0]);
        assert_eq!(packet.len(), 308);
        // where the packet filter looks: bits 288 and 160 behind the UDP header's begin
        assert_eq!(packet[36..42], [0x02, 0x67, 0x70, 0x72, 0x6f, 0x62]);
        assert_eq!(packet[20..24], [0; 4]);
        assert_eq!(packet[32..36], [0; 4]);
    }

    #[test]
    fn only_an_offer_of_this_request_is_one() {
        assert_eq!(
            offer(&answer(OFFER), ID),
            Some(Ipv4Addr::new(10, 100, 0, 254))
        );
        assert_eq!(offer(&answer(OFFER), [9; 4]), None);
        for kind in [DISCOVER, 5, 6] {
            assert_eq!(offer(&answer(kind), ID), None);
        }
        let mut request = answer(OFFER);
        request[0] = REQUEST;
        assert_eq!(offer(&request, ID), None);
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(mut message in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
            let _ = offer(&message, ID);
            let mut good = answer(OFFER);
            good.truncate(cut);
            good.append(&mut message);
            let _ = offer(&good, ID);
        }
    }
}
