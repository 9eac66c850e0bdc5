//! Envoy as a peer: installed by `load-tests/envoy.sh`, with a listener that carries everything to one HTTP server, or
//! turns JSON into calls of one gRPC service.
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use gpuaas_dev::process::{self, Process};
use gpuaas_dev::{paths, ports};
use serde_json::{Value, json};

use crate::system::{ALLOCATION, GATEWAY, System};

const TIMEOUT: Duration = Duration::from_secs(30);
const TYPES: &str = "type.googleapis.com/envoy.extensions";

/// A running Envoy; it ends with the value.
pub struct Envoy {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // it keeps nothing that would have to be written
        let _gone_is_fine = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Envoy {
    /// One that carries WebSockets, and everything else, to an HTTP server.
    ///
    /// # Errors
    /// It does not come up.
    pub fn relay(folder: &Path, to: SocketAddr) -> anyhow::Result<Self> {
        let http = json!({ "upgrade_configs": [{"upgrade_type": "websocket"}] });
        Self::start(folder, &http, &cluster(to))
    }

    /// One that turns JSON into calls of the service of allocations by the same contract as the gateway, with its
    /// identity. It checks no user: callers bring the internal token that the gateway would have made.
    ///
    /// # Errors
    /// It does not come up.
    pub fn transcoder(system: &System<'_>) -> anyhow::Result<Self> {
        let folder = system.root().join("envoy");
        std::fs::create_dir_all(&folder)?;
        let services = ["gpuaas.allocation.v1.AllocationService".to_owned()];
        let http = transcoding(&folder, &services)?;
        Self::start(&folder, &http, &grpc_cluster(system)?)
    }

    /// The same for these services, without TLS to a server that plays them all.
    ///
    /// # Errors
    /// It does not come up.
    pub fn transcoder_to(
        folder: &Path,
        services: &[String],
        to: SocketAddr,
    ) -> anyhow::Result<Self> {
        let http = transcoding(folder, services)?;
        let mut cluster = cluster(to);
        merge(&mut cluster, &http2());
        Self::start(folder, &http, &cluster)
    }

    fn start(folder: &Path, http: &Value, to: &Value) -> anyhow::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let program = Command::new(paths::checkout().join("load-tests/envoy.sh"))
            .stderr(Stdio::inherit())
            .output()?;
        if !program.status.success() {
            bail!("Envoy cannot be installed");
        }
        let program = String::from_utf8(program.stdout)?;
        let port = ports::free()?;
        let config = folder.join("envoy.json");
        std::fs::write(&config, bootstrap(port, http, to).to_string())?;
        let log = std::fs::File::create(folder.join("envoy.log"))?;
        let mut child = Command::new(program.trim())
            .arg("--config-path")
            .arg(&config)
            // as many threads as there are cores; no shared memory with other instances
            .args(["--disable-hot-restart", "--log-level", "warn"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("Envoy starts")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let ready = || std::net::TcpStream::connect(address).is_ok();
        let up = process::wait_until(TIMEOUT, || {
            ready() || child.try_wait().is_ok_and(|ended| ended.is_some())
        });
        let envoy = Self { child, address };
        if up && ready() {
            return Ok(envoy);
        }
        bail!(
            "Envoy did not start: {}",
            process::tail(&folder.join("envoy.log"))
        )
    }

    /// Its process.
    ///
    /// # Errors
    /// It has ended.
    pub fn process(&self) -> anyhow::Result<Process> {
        let pid = i32::try_from(self.child.id())?;
        Process::of(pid).context("Envoy has ended")
    }
}

fn address(address: SocketAddr) -> Value {
    json!({"socket_address": {"address": address.ip(), "port_value": address.port()}})
}

fn cluster(to: SocketAddr) -> Value {
    let endpoint = json!({"endpoint": {"address": address(to)}});
    json!({
        "name": "to", "type": "STATIC", "connect_timeout": "3s",
        "load_assignment": {"cluster_name": "to", "endpoints": [{"lb_endpoints": [endpoint]}]},
        // the default of 1024 is fewer than a benchmark may want
        "circuit_breakers": {"thresholds": [{"max_connections": 65536, "max_pending_requests": 65536,
                                             "max_requests": 65536}]},
    })
}

/// The transcoder with the contract, in front of the way to the server.
fn transcoding(folder: &Path, services: &[String]) -> anyhow::Result<Value> {
    let descriptors = folder.join("descriptors.bin");
    std::fs::write(&descriptors, gpuaas_proto::DESCRIPTORS)?;
    let transcoder = json!({
        "name": "envoy.filters.http.grpc_json_transcoder",
        "typed_config": {
            "@type": format!("{TYPES}.filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder"),
            "proto_descriptor": descriptors,
            "services": services,
            "convert_grpc_status": true,
            // a variable is one segment, of which the gateway decodes every character
            "url_unescape_spec": "ALL_CHARACTERS",
            "request_validation_options": {"reject_unknown_query_parameters": true},
            // as the gateway writes
            "print_options": {"preserve_proto_field_names": true, "always_print_primitive_fields": true,
                              "stream_newline_delimited": true, "stream_sse_style_delimited": true},
        },
    });
    Ok(json!({ "http_filters": [transcoder, router()] }))
}

fn http2() -> Value {
    let http2 = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    });
    json!({
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
    })
}

/// HTTP/2 with mutual TLS, as the gateway calls.
fn grpc_cluster(system: &System<'_>) -> anyhow::Result<Value> {
    let authority = system.stack.authority();
    let own = authority.service(GATEWAY, &[])?;
    let name = gpuaas_common::identity::service_dns(ALLOCATION);
    let certificate = json!({"certificate_chain": {"filename": own.certificate}, "private_key": {"filename": own.key}});
    let check = json!({
        "trusted_ca": {"filename": authority.authority().certificate},
        "match_typed_subject_alt_names": [{"san_type": "DNS", "matcher": {"exact": name}}],
    });
    let mut cluster = cluster(system.address(ALLOCATION)?);
    merge(&mut cluster, &http2());
    let more = json!({
        "transport_socket": {
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": format!("{TYPES}.transport_sockets.tls.v3.UpstreamTlsContext"),
                "sni": name,
                "common_tls_context": {
                    "alpn_protocols": ["h2"], "tls_certificates": [certificate], "validation_context": check,
                },
            },
        },
    });
    merge(&mut cluster, &more);
    Ok(cluster)
}

fn router() -> Value {
    json!({
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": format!("{TYPES}.filters.http.router.v3.Router")},
    })
}

fn bootstrap(port: u16, http: &Value, to: &Value) -> Value {
    // no timeout: it would end a stream
    let route = json!({"match": {"prefix": "/"}, "route": {"cluster": "to", "timeout": "0s"}});
    let mut manager = json!({
        "@type": format!("{TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "edge",
        "http_filters": [router()],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    });
    merge(&mut manager, http);
    json!({"static_resources": {
        "listeners": [{
            "address": address(([127, 0, 0, 1], port).into()),
            "filter_chains": [{"filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": manager,
            }]}],
        }],
        "clusters": [to],
    }})
}

fn merge(into: &mut Value, more: &Value) {
    if let (Some(into), Some(more)) = (into.as_object_mut(), more.as_object()) {
        into.extend(more.clone());
    }
}
