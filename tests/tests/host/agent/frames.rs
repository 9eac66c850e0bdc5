//! Frames that a guest must not get through, byte by byte, as hex.
use std::net::Ipv4Addr;

/// In every frame that must reach nobody.
pub const FORGED: &str = "P11-forged";

/// An end of the wire.
#[derive(Debug, Clone, Copy)]
pub struct End {
    pub mac: [u8; 6],
    pub ip: Ipv4Addr,
}

const ALL: [u8; 6] = [0xff; 6];

/// A MAC address as text.
pub fn mac(text: &str) -> [u8; 6] {
    let octets: Vec<u8> = text
        .trim()
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).expect("hex"))
        .collect();
    octets.try_into().expect("six octets")
}

fn frame(to: [u8; 6], from: [u8; 6], kind: &[u8], content: &[u8]) -> String {
    // behind what the protocol reads
    hex::encode([&to, &from, kind, content, FORGED.as_bytes()].concat())
}

fn arp(to: [u8; 6], from: [u8; 6], operation: u8, sender: End, target: End) -> String {
    let content = [
        &[0, 1, 8, 0, 6, 4, 0, operation][..],
        &sender.mac,
        &sender.ip.octets(),
        &target.mac,
        &target.ip.octets(),
    ];
    frame(to, from, &[8, 6], &content.concat())
}

/// An IPv4 packet of UDP with these flags and this offset, and a right checksum of its header.
fn packet(from: Ipv4Addr, to: Ipv4Addr, fragment: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + content.len() + FORGED.len()).expect("short");
    let mut header = [
        &[0x45, 0][..],
        &length.to_be_bytes(),
        &[0, 0],
        &fragment.to_be_bytes(),
        &[64, 17, 0, 0],
        &from.octets(),
        &to.octets(),
    ]
    .concat();
    let words = header
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    [header.as_slice(), content].concat()
}

/// A datagram; its checksum is left out, as it may be.
fn datagram(ports: (u16, u16), payload: &[u8], rest: usize) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len() + FORGED.len() + rest).expect("short");
    [
        &ports.0.to_be_bytes()[..],
        &ports.1.to_be_bytes(),
        &length.to_be_bytes(),
        &[0, 0],
        payload,
    ]
    .concat()
}

fn ipv4(from: Ipv4Addr, to: Ipv4Addr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    packet(from, to, 0, &datagram(ports, payload, 0))
}

/// A DHCP message of this type, with the client's address and with that of the server, without which dnsmasq reads no decline
/// and no release.
fn dhcp(operation: u8, kind: u8, client: End, offered: Ipv4Addr, server: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![operation, 1, 6, 0, 0, 0, 0, 7, 0, 0, 0x80, 0];
    message.extend([0; 4]);
    message.extend(offered.octets());
    message.extend([0; 8]);
    message.extend(client.mac);
    message.extend([0; 10 + 64 + 128]);
    message.extend([99, 130, 83, 99, 53, 1, kind, 50, 4]);
    message.extend(client.ip.octets());
    message.extend([54, 4]);
    message.extend(server.octets());
    message.push(255);
    message
}

/// An IPv6 packet with this next header; checksums are for a receiver that must never come to read them.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len() + FORGED.len()).expect("short");
    let from = [
        &[0xfe, 0x80, 0, 0, 0, 0, 0, 0][..],
        &[0, 0, 0, 0, 0, 0, 0, 9],
    ]
    .concat();
    let to = [&[0xff, 2][..], &[0; 13], &[1]].concat();
    [
        &[0x60, 0, 0, 0][..],
        &length.to_be_bytes(),
        &[next, 255],
        &from,
        &to,
        payload,
    ]
    .concat()
}

/// What `own` sends to be taken for `other`, for the gateway or for nobody, each with a name.
pub fn forged(own: End, other: End, gateway: End) -> Vec<(&'static str, String)> {
    let as_own = |end: End| End {
        mac: own.mac,
        ..end
    };
    let broadcast = Ipv4Addr::BROADCAST;
    const V4: [u8; 2] = [8, 0];
    const V6: [u8; 2] = [0x86, 0xdd];
    let multicast = [0x33, 0x33, 0, 0, 0, 1];
    let advertisement = [&[134, 0, 0, 0, 64, 0, 7, 8][..], &[0; 8]].concat();
    let neighbour = [
        &[136, 0, 0, 0, 0xa0, 0, 0, 0][..],
        &[0xfe, 0x80],
        &[0; 13],
        &[9],
    ]
    .concat();
    let link_local = [&[0xfe, 0x80][..], &[0; 13], &[9]].concat();
    let solicitation = [&[135, 0, 0, 0, 0, 0, 0, 0][..], &link_local].concat();
    let redirect = [&[137, 0, 0, 0, 0, 0, 0, 0][..], &link_local, &link_local].concat();
    let dhcp6 = [
        &2_u16.to_be_bytes()[..],
        &547_u16.to_be_bytes(),
        &546_u16.to_be_bytes(),
    ]
    .concat();
    let udp = |from, to| ipv4(from, to, (5000, 5000), b"");
    let offer = |to| ipv4(own.ip, to, (67, 68), &dhcp(2, 2, other, other.ip, own.ip));
    vec![
        (
            "gratuitous ARP for the neighbour",
            arp(ALL, own.mac, 2, as_own(other), as_own(other)),
        ),
        (
            "gratuitous ARP request for the neighbour",
            arp(
                ALL,
                own.mac,
                1,
                as_own(other),
                End {
                    mac: [0; 6],
                    ..other
                },
            ),
        ),
        (
            "ARP answer for the neighbour",
            arp(gateway.mac, own.mac, 2, as_own(other), gateway),
        ),
        (
            "ARP answer as the neighbour's hardware",
            arp(gateway.mac, other.mac, 2, other, gateway),
        ),
        (
            "ARP answer of own address, other hardware inside",
            arp(
                gateway.mac,
                own.mac,
                2,
                End {
                    ip: own.ip,
                    ..other
                },
                gateway,
            ),
        ),
        (
            "ARP answer for the gateway to the neighbour",
            arp(other.mac, own.mac, 2, as_own(gateway), other),
        ),
        (
            "ARP request for the gateway to all",
            arp(ALL, own.mac, 1, as_own(gateway), other),
        ),
        (
            "IPv4 from the neighbour's address",
            frame(gateway.mac, own.mac, &V4, &udp(other.ip, gateway.ip)),
        ),
        (
            "IPv4 from the neighbour's hardware",
            frame(gateway.mac, other.mac, &V4, &udp(own.ip, gateway.ip)),
        ),
        (
            "IPv4 as the neighbour altogether",
            frame(gateway.mac, other.mac, &V4, &udp(other.ip, gateway.ip)),
        ),
        (
            "IPv4 from the gateway to the neighbour",
            frame(other.mac, gateway.mac, &V4, &udp(gateway.ip, other.ip)),
        ),
        (
            "IPv4 to all",
            frame(ALL, own.mac, &V4, &udp(own.ip, broadcast)),
        ),
        (
            "DHCP offer to all",
            frame(ALL, own.mac, &V4, &offer(broadcast)),
        ),
        (
            "DHCP offer to the neighbour",
            frame(other.mac, own.mac, &V4, &offer(other.ip)),
        ),
        (
            "DHCP offer to the gateway",
            frame(gateway.mac, own.mac, &V4, &offer(gateway.ip)),
        ),
        (
            "router advertisement",
            frame(multicast, own.mac, &V6, &ipv6(58, &advertisement)),
        ),
        (
            "router advertisement to the neighbour",
            frame(other.mac, own.mac, &V6, &ipv6(58, &advertisement)),
        ),
        (
            "neighbour advertisement",
            frame(multicast, own.mac, &V6, &ipv6(58, &neighbour)),
        ),
        (
            "neighbour solicitation",
            frame(multicast, own.mac, &V6, &ipv6(58, &solicitation)),
        ),
        (
            "redirect of a router",
            frame(other.mac, own.mac, &V6, &ipv6(58, &redirect)),
        ),
        (
            "IPv6 datagram to the gateway",
            frame(gateway.mac, own.mac, &V6, &ipv6(17, &dhcp6)),
        ),
        (
            "DHCPv6 answer",
            frame(other.mac, own.mac, &V6, &ipv6(17, &dhcp6)),
        ),
        (
            "unknown kind to all",
            frame(ALL, own.mac, &[0x88, 0xb5], b""),
        ),
        (
            "unknown kind to the neighbour",
            frame(other.mac, own.mac, &[0x88, 0xb5], b""),
        ),
        (
            "unknown kind to the gateway",
            frame(gateway.mac, own.mac, &[0x88, 0xb5], b""),
        ),
        (
            "tagged IPv4",
            frame(
                gateway.mac,
                own.mac,
                &[0x81, 0, 0, 7, 8, 0],
                &udp(own.ip, gateway.ip),
            ),
        ),
        (
            "twice tagged IPv4",
            frame(
                other.mac,
                own.mac,
                &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 7, 8, 0],
                &udp(own.ip, other.ip),
            ),
        ),
        (
            "LLDP",
            frame([1, 0x80, 0xc2, 0, 0, 0x0e], own.mac, &[0x88, 0xcc], b""),
        ),
        (
            "spanning tree",
            frame(
                [1, 0x80, 0xc2, 0, 0, 0],
                own.mac,
                &[0, 0x26, 0x42, 0x42, 3],
                b"",
            ),
        ),
        (
            "pause of the link",
            frame([1, 0x80, 0xc2, 0, 0, 1], own.mac, &[0x88, 8], &[0, 1]),
        ),
        ("PPPoE discovery", frame(ALL, own.mac, &[0x88, 0x63], b"")),
    ]
}

/// A datagram to the neighbour's DHCP client in two fragments, the second of which shows no ports. The host may get them.
pub fn fragments(own: End, other: End) -> [String; 2] {
    const MORE_FOLLOW: u16 = 0x2000;
    // offsets count in eight bytes
    let padding = vec![0; 8 - FORGED.len() % 8];
    let first = datagram((67, 68), &padding, FORGED.len());
    let offset = u16::try_from((first.len() + FORGED.len()) / 8).expect("short");
    [(MORE_FOLLOW, first.as_slice()), (offset, &[])].map(|(fragment, content)| {
        let packet = packet(own.ip, other.ip, fragment, content);
        frame(other.mac, own.mac, &[8, 0], &packet)
    })
}

/// A DHCP message about the neighbour, from one's own hardware: that its address is declined.
pub fn decline(own: End, other: End, gateway: End) -> String {
    let message = ipv4(
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::BROADCAST,
        (68, 67),
        &dhcp(1, 4, other, Ipv4Addr::UNSPECIFIED, gateway.ip),
    );
    frame(ALL, own.mac, &[8, 0], &message)
}

/// To the host's DHCP server and from the address of `own`, so of one flow: its own renewal, which is answered, then in the
/// neighbour's name that its address is declined, and that it is released.
pub fn over_own_renewal(own: End, other: End, gateway: End) -> [String; 3] {
    [(3, own), (4, other), (7, other)].map(|(kind, client)| {
        let mut message = dhcp(1, kind, client, Ipv4Addr::UNSPECIFIED, gateway.ip);
        // answered to the client's address
        message[10] = 0;
        message[12..16].copy_from_slice(&client.ip.octets());
        let packet = ipv4(own.ip, gateway.ip, (68, 67), &message);
        frame(gateway.mac, own.mac, &[8, 0], &packet)
    })
}

/// What `own` may send, with this text in it: it shows that frames before it have arrived, or never will.
pub fn honest(own: End, gateway: End, text: &str) -> String {
    let udp = ipv4(own.ip, gateway.ip, (5000, 5000), text.as_bytes());
    let all = [&gateway.mac[..], &own.mac, &[8, 0], &udp, &[0; 10]];
    hex::encode(all.concat())
}
