//! Ports and instance numbers that do not collide.
//!
//! A stack's ports follow from its instance number, so that several stacks live beside each other and a second
//! start finds the same ports. Tests that need a single port take one of a range of their own.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::claims;
use crate::error::{Error, Result};

/// Folders of what a process of this machine holds.
const PORTS: &str = "gpuaas-ports";
const INSTANCE_NUMBERS: &str = "gpuaas-instances";
/// How many stacks fit beside each other on one machine.
const INSTANCES: u16 = 64;
/// First port of the blocks of instances other than the first one.
const BLOCK_BASE: u16 = 23_000;
/// Replicas of one service that have ports.
pub const REPLICAS: u16 = 3;
/// Ports per instance.
const BLOCK_SIZE: u16 = 100;

/// First of the ports that single tests take: behind all blocks, and below those that the kernel gives away.
const SINGLE_BASE: u16 = BLOCK_BASE + INSTANCES * BLOCK_SIZE;
/// How many there are of them.
const SINGLES: u16 = 3_000;

/// A loopback port on which nobody listens, and which no other caller on this machine is given before this process ends.
pub fn free() -> Result<u16> {
    /// Locked as long as the process lives.
    static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = claims::folder(PORTS).map_err(Error::file("share", Path::new(PORTS)))?;
    // tests that start together begin at different ones
    let first = u16::try_from(std::process::id() % u32::from(SINGLES)).unwrap_or_default();
    let ports = (0..SINGLES).map(|next| (first + next) % SINGLES + SINGLE_BASE);
    for port in ports {
        let claimed = claims::claim(&folder, port).map_err(Error::file("claim", &folder))?;
        if let Some(file) = claimed
            && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        {
            TAKEN
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(file);
            return Ok(port);
        }
    }
    Err(Error::other(format!(
        "none of the loopback ports {SINGLE_BASE} to {} is free",
        SINGLE_BASE + SINGLES - 1
    )))
}

/// The number of a stack; 0 is the one of `make up`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance(u16);

impl Instance {
    /// The stack that `make up` starts.
    pub const MAIN: Self = Self(0);

    /// Parses a number from the command line.
    pub fn new(number: u16) -> Result<Self> {
        if number < INSTANCES {
            Ok(Self(number))
        } else {
            Err(Error::other(format!(
                "an instance number is below {INSTANCES}"
            )))
        }
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The port of a well-known offset: the documented port for the main stack, one of its own block otherwise.
    pub fn port(self, service: Service) -> u16 {
        let (documented, offset) = service.place();
        if self == Self::MAIN {
            documented
        } else {
            BLOCK_BASE + (self.0 - 1) * BLOCK_SIZE + offset
        }
    }

    /// The port of the lab host through which guest `index` of the lab host answers SSH.
    pub fn ssh_port(self, index: u16) -> u16 {
        22_000 + index + self.0 * 10
    }
}

/// Parts with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// gRPC of a service of [`crate::stack::SERVICES`] (1 = inventory … 6 = billing), and where inventory hears hosts
    /// (7) and enrols them (8).
    Grpc {
        /// Number of the service.
        number: u16,
        /// Replica, from 1 to [`REPLICAS`].
        replica: u16,
    },
    /// `/metrics` of the same.
    Metrics {
        /// Number of the service.
        number: u16,
        /// Replica, from 1 to [`REPLICAS`].
        replica: u16,
    },
    /// JSON API.
    Gateway,
    /// Serial logs by SSH.
    GatewaySsh,
    /// `/metrics` of the gateway.
    GatewayMetrics,
    /// Database.
    Postgres,
    /// Wake-ups and caches.
    Redis,
    /// OCI registry, to read.
    Registry,
    /// The same, to push.
    RegistryPush,
}

impl Service {
    /// Documented port, and offset inside a block.
    fn place(self) -> (u16, u16) {
        match self {
            Self::Grpc { number, replica } => {
                let place = number + 10 * (replica - 1);
                (7100 + place, 10 + place)
            }
            Self::Metrics { number, replica } => {
                let place = number + 10 * (replica - 1);
                (7200 + place, 40 + place)
            }
            Self::Gateway => (7080, 1),
            Self::GatewaySsh => (7022, 3),
            Self::GatewayMetrics => (7280, 2),
            Self::Postgres => (7432, 5),
            Self::Redis => (7379, 6),
            Self::Registry => (7500, 7),
            Self::RegistryPush => (7501, 8),
        }
    }
}

/// An instance number that this process holds until the value is dropped.
#[derive(Debug)]
pub struct ClaimedInstance {
    instance: Instance,
    _lock: File,
}

impl ClaimedInstance {
    /// Takes the lowest free number above the main stack's, for a test.
    ///
    /// Numbers are claimed per machine, since ports and interfaces belong to the machine.
    pub fn claim() -> Result<Self> {
        let folder = claims::folder(INSTANCE_NUMBERS)
            .map_err(Error::file("share", Path::new(INSTANCE_NUMBERS)))?;
        for number in 1..INSTANCES {
            let claimed = claims::claim(&folder, number).map_err(Error::file("claim", &folder))?;
            if let Some(lock) = claimed {
                return Ok(Self {
                    instance: Instance(number),
                    _lock: lock,
                });
            }
        }
        Err(Error::other(
            "every instance number of this machine is in use",
        ))
    }

    /// The number that is held.
    pub fn instance(&self) -> Instance {
        self.instance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_used_twice_by_any_two_instances() {
        let mut seen = std::collections::HashSet::new();
        for number in 0..INSTANCES {
            let instance = Instance::new(number).unwrap();
            let mut services = vec![
                Service::Gateway,
                Service::GatewaySsh,
                Service::GatewayMetrics,
                Service::Postgres,
                Service::Redis,
                Service::Registry,
                Service::RegistryPush,
            ];
            for replica in 1..=REPLICAS {
                services.extend((1..=8).map(|number| Service::Grpc { number, replica }));
                services.extend((1..=6).map(|number| Service::Metrics { number, replica }));
            }
            for service in services {
                assert!(
                    seen.insert(instance.port(service)),
                    "{service:?} of instance {number}"
                );
            }
            for index in 0..10 {
                assert!(
                    seen.insert(instance.ssh_port(index)),
                    "ssh {index} of instance {number}"
                );
            }
        }
        assert!(Instance::new(INSTANCES).is_err());
    }

    #[test]
    fn a_single_port_is_given_once() {
        let (first, second) = (free().unwrap(), free().unwrap());
        assert_ne!(first, second);
        // another process finds it locked
        let folder = claims::folder(PORTS).unwrap();
        assert!(claims::claim(&folder, first).unwrap().is_none());
        TcpListener::bind((Ipv4Addr::LOCALHOST, first)).unwrap();
    }

    #[test]
    fn a_claimed_instance_is_claimed_once() {
        let first = ClaimedInstance::claim().unwrap();
        let second = ClaimedInstance::claim().unwrap();
        assert_ne!(first.instance(), second.instance());
    }
}
