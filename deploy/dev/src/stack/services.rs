//! The services of a stack and the settings file of each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

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
        let listen = vec![kind.address(self.instance, replica).to_string()];
        let identity = self.authority.service(kind.name, &[])?;
        let token = self.authority.signing_key("internal-token")?;
        let mut file = table([
            ("cell", Value::from(i64::from(self.cell))),
            (
                "server",
                section([
                    ("listen", Value::from(listen)),
                    (
                        "metrics_listen",
                        text(kind.metrics(self.instance, replica).to_string()),
                    ),
                ]),
            ),
            ("tls", self.tls(kind.name, &identity)),
            ("token", section([("public_key_file", path(&token.public))])),
            (
                "database",
                section([
                    ("host", text("127.0.0.1")),
                    ("port", Value::from(i64::from(self.database_port))),
                    ("name", text(super::DATABASE)),
                    ("user", text(kind.role)),
                    (
                        "password_file",
                        path(&self.secrets.join(format!("{}.password", kind.role))),
                    ),
                ]),
            ),
            ("redis", section([("url_file", path(&self.redis_url_file))])),
            ("telemetry", self.telemetry()),
            ("peers", self.peers()),
        ]);
        if let Some((name, own)) = self.own(kind, replica)? {
            file.insert(name.to_owned(), own);
        }
        toml::to_string(&file).map_err(|error| Error::other(error.to_string()))
    }

    /// The agent's settings that are not its own: cell, TLS, inventory's address.
    pub fn agent(&self, listen: SocketAddr, state: &Path) -> Table {
        let url = |number| text(format!("https://{}", self.host_facing(number, 1)));
        let identity = Identity {
            certificate: state.join("tls/cert.pem"),
            key: state.join("tls/key.pem"),
        };
        table([
            ("cell", Value::from(i64::from(self.cell))),
            (
                "server",
                section([
                    ("listen", Value::from(vec![listen.to_string()])),
                    // the host has a loopback of its own
                    ("metrics_listen", text("127.0.0.1:7210")),
                ]),
            ),
            ("tls", self.tls("agent", &identity)),
            (
                "peers",
                section([
                    ("inventory", url(HOSTS)),
                    ("inventory-enrolment", url(ENROLMENT)),
                ]),
            ),
            ("telemetry", self.telemetry()),
        ])
    }

    /// The section of the service's own settings.
    fn own(&self, kind: Kind, replica: u16) -> Result<Option<(&'static str, Value)>> {
        let ca = self.authority.authority();
        let hosts = self.authority.host_authority();
        let listen = |number| Value::from(vec![self.host_facing(number, replica).to_string()]);
        Ok(match kind.name {
            "inventory" => Some((
                "inventory",
                section([
                    ("host_listen", listen(HOSTS)),
                    ("enrolment_listen", listen(ENROLMENT)),
                    ("host_ca_cert_file", path(&hosts.certificate)),
                    ("host_ca_key_file", path(&hosts.key)),
                    ("instance_identity", self.instance_identity()?),
                ]),
            )),
            // who starts the stack again does not wait a minute for what ran in it
            "allocation" => Some((
                "allocation",
                section([("reconcile_seconds", Value::from(5.0))]),
            )),
            "image-catalog" => Some((
                "image_catalog",
                section([
                    ("registry_ca_file", path(&ca.certificate)),
                    (
                        "allowed_registries",
                        Value::from(vec![self.registry.clone()]),
                    ),
                ]),
            )),
            "gateway" => Some((
                "gateway",
                section([
                    (
                        "internal_key_file",
                        path(&self.authority.signing_key("internal-token")?.private),
                    ),
                    (
                        "dev_issuer",
                        section([
                            (
                                "key_file",
                                path(&self.authority.signing_key("dev-issuer")?.private),
                            ),
                            // the same for every replica: each takes the others' tokens
                            (
                                "url",
                                text(format!("http://{}", GATEWAY.address(self.instance, 1))),
                            ),
                        ]),
                    ),
                    (
                        "serial_ssh",
                        section([
                            (
                                "listen",
                                Value::from(vec![serial_ssh(self.instance).to_string()]),
                            ),
                            (
                                "host_key_file",
                                path(&self.authority.signing_key("serial-ssh")?.private),
                            ),
                        ]),
                    ),
                ]),
            )),
            _ => None,
        })
    }

    /// Identity tokens of VMs, as the first gateway's address names their issuer for every replica.
    fn instance_identity(&self) -> Result<Value> {
        let gateway = GATEWAY.address(self.instance, 1);
        let key = self.authority.instance_identity_key("instance-identity")?;
        Ok(section([
            (
                "issuer",
                text(format!("http://{gateway}/instance-identity")),
            ),
            ("key_files", Value::Array(vec![path(&key)])),
        ]))
    }

    fn tls(&self, name: &str, identity: &Identity) -> Value {
        let mut files = table([
            ("ca_file", path(&self.authority.authority().certificate)),
            ("cert_file", path(&identity.certificate)),
            ("key_file", path(&identity.key)),
        ]);
        if MEET_HOSTS.contains(&name) {
            files.insert("host_ca_file".to_owned(), path(&self.authority.host_root()));
        }
        Value::Table(files)
    }

    /// Where inventory hears hosts.
    fn host_facing(&self, number: u16, replica: u16) -> SocketAddr {
        let address = self.host_facing.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let port = self.instance.port(Service::Grpc { number, replica });
        SocketAddr::new(address, port)
    }

    fn telemetry(&self) -> Value {
        section([
            ("log", text("info")),
            ("otlp_endpoint", text(self.otlp_endpoint)),
        ])
    }

    fn peers(&self) -> Value {
        let url = |kind: Kind| text(format!("https://{}", kind.address(self.instance, 1)));
        Value::Table(
            SERVICES
                .iter()
                .map(|kind| (kind.name.to_owned(), url(*kind)))
                .collect(),
        )
    }
}

/// Where the gateway shows serial logs by SSH.
pub fn serial_ssh(instance: Instance) -> SocketAddr {
    loopback(instance.port(Service::GatewaySsh))
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

pub(super) fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

pub(super) fn section<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Table(table(entries))
}

pub(super) fn text(value: impl Into<String>) -> Value {
    Value::String(value.into())
}

pub(super) fn path(value: &Path) -> Value {
    text(value.display().to_string())
}

#[cfg(test)]
mod tests {
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
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
