//! The shell or tunnel that a start message requests: dispatch by capacity shape, before anything is read (INC-25).
use std::net::{Ipv4Addr, SocketAddrV4};

use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use russh::keys::PublicKey;
use uuid::Uuid;

use super::shell::Size;
use crate::ids::AllocationId;
use crate::image::seed::GuestUser;

/// Smallest and largest window of output.
const OUTPUT_WINDOWS: std::ops::RangeInclusive<u32> = 4096..=4 << 20;

/// Most host keys of a guest: one for each kind there is, and some more.
const MAX_HOST_KEYS: usize = 16;

/// A checked start message.
#[derive(Debug, Clone, PartialEq)]
pub struct Start {
    pub session: Uuid,
    pub allocation: AllocationId,
    pub place: Place,
    pub output_window: u32,
}

/// The screen in front of a shell.
#[derive(Debug, Clone, PartialEq)]
pub struct Screen {
    pub size: Size,
    pub term: String,
}

/// Where the shell is, or what the tunnel leads to.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// In a VM, by SSH. No UNIX user of the host has anything to do with it (D-83).
    Guest(Guest, Screen),
    /// On the host, as this UNIX user (F-04).
    Local(GuestUser, Screen),
    /// The SSH server of a VM, which the user logs in to.
    Tunnel(SocketAddrV4),
}

impl Place {
    /// For logs.
    pub fn shape(&self) -> &'static str {
        match self {
            Self::Guest(..) | Self::Tunnel(_) => "gpu_slice",
            Self::Local(..) => "baremetal",
        }
    }
}

/// A guest's SSH server.
#[derive(Debug, Clone, PartialEq)]
pub struct Guest {
    pub address: Ipv4Addr,
    pub port: u16,
    pub user: GuestUser,
    /// The keys it was provisioned with; it must show one of them.
    pub host_keys: Vec<PublicKey>,
}

/// Checks a start message.
///
/// # Errors
/// Naming the field.
pub fn parse(start: &pb::TerminalStart) -> Result<Start, Error> {
    let place = if start.ssh_tunnel {
        tunnel(start)?
    } else {
        shell(start)?
    };
    if !OUTPUT_WINDOWS.contains(&start.output_window) {
        return Err(Error::invalid("output_window", "must be 4096 to 4194304"));
    }
    Ok(Start {
        session: gpuaas_common::id::parse("session_id", &start.session_id)?,
        allocation: AllocationId(gpuaas_common::id::parse(
            "allocation_id",
            &start.allocation_id,
        )?),
        place,
        output_window: start.output_window,
    })
}

fn shell(start: &pb::TerminalStart) -> Result<Place, Error> {
    let user: GuestUser = start
        .user
        .parse()
        .map_err(|_| Error::invalid("user", "must be u_ and 16 hexadecimal digits"))?;
    let screen = Screen {
        size: Size::parse(&start.size.unwrap_or_default())?,
        term: term(&start.term)?,
    };
    match CapacityShape::try_from(start.capacity_shape) {
        Ok(CapacityShape::GpuSlice) => Ok(Place::Guest(guest(start, user)?, screen)),
        Ok(CapacityShape::Baremetal) => Ok(Place::Local(user, screen)),
        _ => Err(Error::invalid(
            "capacity_shape",
            "must be gpu_slice or baremetal",
        )),
    }
}

/// A VM alone: on bare metal the SSH server would be that of the host.
fn tunnel(start: &pb::TerminalStart) -> Result<Place, Error> {
    match CapacityShape::try_from(start.capacity_shape) {
        Ok(CapacityShape::GpuSlice) => {
            let (address, port) = target(start)?;
            Ok(Place::Tunnel(SocketAddrV4::new(address, port)))
        }
        _ => Err(Error::invalid(
            "capacity_shape",
            "must be gpu_slice with ssh_tunnel",
        )),
    }
}

fn target(start: &pb::TerminalStart) -> Result<(Ipv4Addr, u16), Error> {
    let address = start
        .target_host
        .parse()
        .map_err(|_| Error::invalid("target_host", "must be an IPv4 address"))?;
    let port = u16::try_from(start.target_port)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| Error::invalid("target_port", "must be 1 to 65535"))?;
    Ok((address, port))
}

fn guest(start: &pb::TerminalStart, user: GuestUser) -> Result<Guest, Error> {
    let (address, port) = target(start)?;
    if start.ssh_host_keys.len() > MAX_HOST_KEYS {
        return Err(Error::invalid(
            "ssh_host_keys",
            format!("must be at most {MAX_HOST_KEYS}"),
        ));
    }
    let host_keys: Vec<PublicKey> = start
        .ssh_host_keys
        .iter()
        .filter_map(|line| PublicKey::from_openssh(line).ok())
        .collect();
    // without a recorded key anything at that address could pose as the guest
    if host_keys.is_empty() {
        return Err(Error::invalid(
            "ssh_host_keys",
            "must hold a key that was recorded when the guest was provisioned",
        ));
    }
    Ok(Guest {
        address,
        port,
        user,
        host_keys,
    })
}

fn term(term: &str) -> Result<String, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if (1..=64).contains(&term.len()) && term.bytes().all(plain) {
        Ok(term.to_owned())
    } else {
        Err(Error::invalid(
            "term",
            "must be 1 to 64 letters, digits, '-', '_', '.' or '+'",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILM+rvN+ot98qgEN796jTiQfZfG1KaT0PtFDJ/XFSqti";

    fn start(shape: CapacityShape) -> pb::TerminalStart {
        pb::TerminalStart {
            session_id: Uuid::now_v7().to_string(),
            allocation_id: Uuid::now_v7().to_string(),
            capacity_shape: shape.into(),
            target_host: "10.100.0.10".into(),
            target_port: 22,
            user: "u_adda9308def04a2f".into(),
            ssh_host_keys: vec![KEY.into()],
            size: Some(pb::TerminalSize { cols: 80, rows: 24 }),
            term: "xterm-256color".into(),
            output_window: 262_144,
            ssh_tunnel: false,
        }
    }

    /// D-85
    // partly D-85: no `ssh` program runs; the agent itself speaks SSH to the user at the guest's address
    #[test]
    fn inc_25_d_83_a_slice_is_a_guest_and_no_unix_user() {
        let parsed = parse(&start(CapacityShape::GpuSlice)).expect("good");
        let Place::Guest(guest, screen) = parsed.place else {
            panic!("a slice is entered by SSH")
        };
        // F-03
        assert_eq!(
            (guest.address, guest.port),
            (Ipv4Addr::new(10, 100, 0, 10), 22)
        );
        assert_eq!(guest.user.as_str(), "u_adda9308def04a2f");
        assert_eq!(screen.term, "xterm-256color");
    }

    #[test]
    fn a_tunnel_leads_to_a_guest_and_needs_no_login() {
        let tunnel = || pb::TerminalStart {
            ssh_tunnel: true,
            user: String::new(),
            ssh_host_keys: Vec::new(),
            size: None,
            term: String::new(),
            ..start(CapacityShape::GpuSlice)
        };
        let parsed = parse(&tunnel()).expect("good");
        let address = SocketAddrV4::new(Ipv4Addr::new(10, 100, 0, 10), 22);
        assert_eq!(parsed.place, Place::Tunnel(address));
        // an agent that does not know the field sees a shell without a user
        let older = pb::TerminalStart {
            ssh_tunnel: false,
            ..tunnel()
        };
        assert_eq!(parse(&older).expect_err("no shell").fields()[0].0, "user");
        for (field, wrong) in [
            (
                "capacity_shape",
                pb::TerminalStart {
                    capacity_shape: CapacityShape::Baremetal.into(),
                    ..tunnel()
                },
            ),
            (
                "target_host",
                pb::TerminalStart {
                    target_host: String::new(),
                    ..tunnel()
                },
            ),
            (
                "target_port",
                pb::TerminalStart {
                    target_port: 0,
                    ..tunnel()
                },
            ),
        ] {
            assert_eq!(parse(&wrong).expect_err(field).fields()[0].0, field);
        }
    }

    #[test]
    fn f_04_bare_metal_is_the_local_unix_user() {
        let mut message = start(CapacityShape::Baremetal);
        message.target_host.clear();
        message.ssh_host_keys.clear();
        let parsed = parse(&message).expect("needs no target");
        assert!(
            matches!(parsed.place, Place::Local(user, _) if user.as_str() == "u_adda9308def04a2f")
        );
    }

    #[test]
    fn bad_starts_name_their_field() {
        type Edit = fn(&mut pb::TerminalStart);
        let cases: [(&str, Edit); 12] = [
            ("capacity_shape", |s| s.capacity_shape = 0),
            ("capacity_shape", |s| s.capacity_shape = 99),
            ("user", |s| s.user = "root".into()),
            ("user", |s| s.user = "-oProxyCommand=x".into()),
            ("target_host", |s| s.target_host = "guest.example".into()),
            ("target_port", |s| s.target_port = 0),
            ("target_port", |s| s.target_port = 65_558),
            ("ssh_host_keys", |s| s.ssh_host_keys.clear()),
            ("ssh_host_keys", |s| {
                s.ssh_host_keys = vec![KEY.into(); 17];
            }),
            ("size", |s| s.size = None),
            ("term", |s| s.term = "x\0y".into()),
            ("output_window", |s| s.output_window = u32::MAX),
        ];
        for (field, edit) in cases {
            let mut message = start(CapacityShape::GpuSlice);
            edit(&mut message);
            let error = parse(&message).expect_err(field);
            assert_eq!(error.fields()[0].0, field);
        }
    }
}
