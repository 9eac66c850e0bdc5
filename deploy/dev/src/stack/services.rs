//! The services of a stack and the settings file of each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::ca::{Authority, Identity};
use crate::error::{Error, Result};
use crate::ports::{Instance, Service};

/// A service: its name, the number that its ports follow from, and its database role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Name of the service; its program is `gpuaas-<name>`.
    pub name: &'static str,
    /// Place of its ports.
    number: u16,
    /// Database role.
    pub role: &'static str,
}

/// The six services, in start order.
pub const SERVICES: [Kind; 6] = [
    Kind {
        name: "inventory",
        number: 1,
        role: "gpuaas_inventory",
    },
    Kind {
        name: "scheduler",
        number: 2,
        role: "gpuaas_scheduler",
    },
    Kind {
        name: "allocation",
        number: 3,
        role: "gpuaas_allocation",
    },
    Kind {
        name: "image-catalog",
        number: 4,
        role: "gpuaas_images",
    },
    Kind {
        name: "terminal-gateway",
        number: 5,
        role: "gpuaas_terminal",
    },
    Kind {
        name: "billing",
        number: 6,
        role: "gpuaas_billing",
    },
];

/// The edge.
pub const GATEWAY: Kind = Kind {
    name: "gateway",
    number: 0,
    role: "gpuaas_edge",
};

/// Places of the ports at which inventory hears enrolled hosts, and those that enrol.
const HOSTS: u16 = 7;
const ENROLMENT: u16 = 8;
/// Who calls hosts, or is called by them.
const MEET_HOSTS: [&str; 3] = ["inventory", "allocation", "terminal-gateway"];

impl Kind {
    /// The service of this name.
    pub fn find(name: &str) -> Result<Self> {
        let known = SERVICES
            .into_iter()
            .chain([GATEWAY])
            .find(|kind| kind.name == name);
        known.ok_or_else(|| Error::other(format!("there is no service {name}")))
    }

    /// Loopback address of a replica; 1 is the first.
    pub fn address(self, instance: Instance, replica: u16) -> SocketAddr {
        let service = match self.number {
            0 => Service::Gateway,
            number => Service::Grpc { number, replica },
        };
        loopback(instance.port(service))
    }

    /// Loopback address of a replica's `/metrics`.
    pub fn metrics(self, instance: Instance, replica: u16) -> SocketAddr {
        let service = match self.number {
            0 => Service::GatewayMetrics,
            number => Service::Metrics { number, replica },
        };
        loopback(instance.port(service))
    }
}

/// What every settings file of a stack is made from.
#[derive(Debug)]
pub struct Setting<'a> {
    /// Number of the cell.
    pub cell: u16,
    /// Number of the stack.
    pub instance: Instance,
    /// Signs certificates.
    pub authority: &'a Authority,
    /// TCP port of PostgreSQL.
    pub database_port: u16,
    /// Folder of the files `<role>.password`.
    pub secrets: &'a Path,
    /// File with Redis' URL.
    pub redis_url_file: PathBuf,
    /// Where hosts reach inventory, besides loopback.
    pub host_facing: Option<IpAddr>,
    /// "host:port" of the registry that images come from.
    pub registry: String,
    /// Collector of traces; empty exports none.
    pub otlp_endpoint: &'a str,
}

impl Setting<'_> {
    /// Settings of a replica of a service, in TOML.
    ///
    /// # Errors
    /// A certificate cannot be made.
    pub fn file(&self, kind: Kind, replica: u16) -> Result<String> {
        let identity = self.authority.service(kind.name, &[])?;
        let token = self.authority.signing_key("internal-token")?;
        let mut file = json!({
            "cell": self.cell,
            "server": {
                "listen": [kind.address(self.instance, replica)],
                "metrics_listen": kind.metrics(self.instance, replica),
            },
            "tls": self.tls(kind.name, &identity),
            "token": {"public_key_file": token.public},
            "database": {
                "host": "127.0.0.1",
                "port": self.database_port,
                "name": super::DATABASE,
                "user": kind.role,
                "password_file": self.secrets.join(format!("{}.password", kind.role)),
            },
            "redis": {"url_file": self.redis_url_file},
            "telemetry": self.telemetry(),
            "peers": self.peers(),
        });
        if let Some((name, own)) = self.own(kind, replica)? {
            file[name] = own;
        }
        in_toml(&file)
    }

    /// The agent's settings that are not its own: cell, TLS, inventory's address.
    pub fn agent(&self, listen: SocketAddr, state: &Path) -> Value {
        let url = |number| format!("https://{}", self.host_facing(number, 1));
        let identity = Identity {
            certificate: state.join("tls/cert.pem"),
            key: state.join("tls/key.pem"),
        };
        json!({
            "cell": self.cell,
            // the host has a loopback of its own
            "server": {"listen": [listen], "metrics_listen": "127.0.0.1:7210"},
            "tls": self.tls("agent", &identity),
            "peers": {"inventory": url(HOSTS), "inventory-enrolment": url(ENROLMENT)},
            "telemetry": self.telemetry(),
        })
    }

    /// The section of the service's own settings.
    fn own(&self, kind: Kind, replica: u16) -> Result<Option<(&'static str, Value)>> {
        let hosts = self.authority.host_authority();
        let listen = |number| self.host_facing(number, replica);
        let private = |name| Ok::<_, Error>(self.authority.signing_key(name)?.private);
        // the same for every replica: each takes the others' tokens
        let gateway = format!("http://{}", GATEWAY.address(self.instance, 1));
        Ok(match kind.name {
            "inventory" => Some((
                "inventory",
                json!({
                    "host_listen": [listen(HOSTS)],
                    "enrolment_listen": [listen(ENROLMENT)],
                    "host_ca_cert_file": hosts.certificate,
                    "host_ca_key_file": hosts.key,
                    "instance_identity": {
                        "issuer": format!("{gateway}/instance-identity"),
                        "key_files": [self.authority.instance_identity_key("instance-identity")?],
                    },
                }),
            )),
            // who starts the stack again does not wait a minute for what ran in it
            "allocation" => Some(("allocation", json!({"reconcile_seconds": 5.0}))),
            "image-catalog" => Some((
                "image_catalog",
                json!({
                    "registry_ca_file": self.authority.authority().certificate,
                    "allowed_registries": [self.registry],
                }),
            )),
            "gateway" => Some((
                "gateway",
                json!({
                    "internal_key_file": private("internal-token")?,
                    "region": super::REGION,
                    "dev_issuer": {"key_file": private("dev-issuer")?, "url": gateway},
                    "serial_ssh": {
                        "listen": [serial_ssh(self.instance)],
                        "host_key_file": private("serial-ssh")?,
                    },
                }),
            )),
            _ => None,
        })
    }

    fn tls(&self, name: &str, identity: &Identity) -> Value {
        let mut files = json!({
            "ca_file": self.authority.authority().certificate,
            "cert_file": identity.certificate,
            "key_file": identity.key,
        });
        if MEET_HOSTS.contains(&name) {
            files["host_ca_file"] = json!(self.authority.host_root());
        }
        files
    }

    /// Where inventory hears hosts.
    fn host_facing(&self, number: u16, replica: u16) -> SocketAddr {
        let address = self.host_facing.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let port = self.instance.port(Service::Grpc { number, replica });
        SocketAddr::new(address, port)
    }

    fn telemetry(&self) -> Value {
        json!({"log": "info", "otlp_endpoint": self.otlp_endpoint})
    }

    fn peers(&self) -> Value {
        let url = |kind: Kind| format!("https://{}", kind.address(self.instance, 1));
        SERVICES
            .into_iter()
            .map(|kind| (kind.name, url(kind)))
            .collect()
    }
}

/// Where the gateway shows serial logs by SSH.
pub fn serial_ssh(instance: Instance) -> SocketAddr {
    loopback(instance.port(Service::GatewaySsh))
}

/// A settings file; its order is that of the names.
pub(super) fn in_toml(file: &Value) -> Result<String> {
    let text = toml::Table::try_from(file).and_then(|table| toml::to_string(&table));
    text.map_err(|error| Error::other(error.to_string()))
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::*;

    #[test]
    fn inventory_alone_listens_where_hosts_reach_it() {
        let folder = std::env::temp_dir().join(format!("gpuaas-services-{}", std::process::id()));
        let authority = Authority::open(&folder, 1).unwrap();
        let setting = Setting {
            cell: 1,
            instance: Instance::MAIN,
            authority: &authority,
            database_port: 7432,
            secrets: Path::new("/secrets"),
            redis_url_file: "/redis/url".into(),
            host_facing: Some("100.64.0.1".parse().unwrap()),
            registry: "100.64.0.1:7500".to_owned(),
            otlp_endpoint: "",
        };
        for kind in SERVICES.into_iter().chain([GATEWAY]) {
            let file: Table = setting.file(kind, 1).unwrap().parse().unwrap();
            let listen = file["server"]["listen"].as_array().unwrap();
            assert_eq!(listen.len(), 1, "{}", kind.name);
            assert!(listen[0].as_str().unwrap().starts_with("127.0.0.1:"));
            let text = toml::to_string(&file).unwrap();
            assert_eq!(
                text.contains("127.0.0.1:7022"),
                kind.name == "gateway",
                "{}",
                kind.name
            );
            let own = kind.name == "inventory";
            for address in ["100.64.0.1:7107", "100.64.0.1:7108"] {
                assert_eq!(text.contains(address), own, "{} {address}", kind.name);
            }
            // the key that signs services lies with none of them, the one that signs hosts with inventory
            assert!(!text.contains("/ca.key") && !text.contains("/host-root.key"));
            assert_eq!(text.contains("/host-ca.key"), own, "{}", kind.name);
            let trusts_hosts = file["tls"].get("host_ca_file").is_some();
            assert_eq!(
                trusts_hosts,
                MEET_HOSTS.contains(&kind.name),
                "{}",
                kind.name
            );
            assert_eq!(file["database"]["user"].as_str(), Some(kind.role));
            // audit records say where a call was taken
            let region = file.get(kind.name).and_then(|own| own.get("region"));
            let expected = (kind == GATEWAY).then_some("lab-1");
            assert_eq!(region.and_then(toml::Value::as_str), expected);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
