//! Recorded hosts: `topology record` writes one, and `--host-root` runs discovery and readiness on it again, by the very
//! code that runs on a live host.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpuaas_proto::gpuaas::agent::v1::{ReadinessReport, TopologyReport};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::api::discover;
use crate::build;
use crate::error::{HostError, HostResult, io_error};
use crate::host::recorder::PathsRead;
use crate::host::recording::{self, Recording, SCHEMA};
use crate::host::root::HostRoot;
use crate::node::Node;
use crate::settings::{Dhcp, Settings};
use crate::topology::readiness;
use crate::validate;

/// What of the settings a recording has; the rest is of the machine that replays.
const SETTINGS: [&str; 6] = [
    "profile",
    "network",
    "fabric",
    "gpu_fabric",
    "dhcp",
    "location",
];

/// A recorded host, laid out below a folder of its own that ends with it.
pub struct Recorded {
    node: Node,
    recording: Arc<Recording>,
    folder: Scratch,
}

impl Recorded {
    /// Lays a recording out.
    ///
    /// # Errors
    /// It leads out of its folder, has settings that a recording has not, or cannot be laid out here.
    pub fn open(recording: Recording) -> HostResult<Self> {
        let folder = Scratch::new()?;
        let host = folder.0.join("host");
        std::fs::create_dir_all(&host).map_err(io_error("cannot make a folder"))?;
        recording.lay_out(&host)?;
        let settings = settings(&recording, &folder.0)?;
        let node = Node::open_at(HostRoot::new(&host), settings, b"")?;
        Ok(Self {
            node,
            recording: Arc::new(recording),
            folder,
        })
    }

    /// Discovery, as [`discover`] does it on a live host.
    pub async fn discover(&self) -> TopologyReport {
        let work = Box::pin(discover(&self.node, Vec::new()));
        recording::replay(Arc::clone(&self.recording), work).await
    }

    /// Readiness.
    pub async fn readiness(&self) -> ReadinessReport {
        let work = Box::pin(readiness::report(&self.node));
        recording::replay(Arc::clone(&self.recording), work).await
    }

    /// The report of an operator's validation.
    pub async fn validate(&self) -> validate::Report {
        let work = Box::pin(validate::report(&self.node));
        recording::replay(Arc::clone(&self.recording), work).await
    }

    /// The folder of the host's tree.
    pub fn tree(&self) -> PathBuf {
        self.folder.0.join("host")
    }

    /// Replaces what the programs answer.
    pub fn set_answers(&mut self, change: impl FnOnce(&mut Recording)) {
        change(Arc::make_mut(&mut self.recording));
    }
}

/// The settings of a recording, with every file that is written in the scratch folder.
fn settings(recording: &Recording, folder: &Path) -> HostResult<Settings> {
    let bad = |why: String| HostError::invalid("recording.settings", why);
    let mut all = recording.settings.as_object().cloned().unwrap_or_default();
    if let Some(other) = all.keys().find(|key| !SETTINGS.contains(&key.as_str())) {
        return Err(bad(format!(
            "has {other}, which is none of {}",
            SETTINGS.join(", ")
        )));
    }
    let own = all
        .remove("dhcp")
        .unwrap_or_else(|| Value::Object(Map::new()));
    let dhcp: Dhcp = serde_json::from_value(own).map_err(|error| bad(error.to_string()))?;
    let root = HostRoot::new(folder.join("host"));
    let state = [
        ("state_dir", json!(folder.join("state"))),
        ("root", json!(folder.join("host"))),
        // no call of libvirt leaves the recording
        ("libvirt_uri", json!("test:///default")),
        ("images", json!({ "cache_dir": folder.join("cache") })),
        // what is free here says nothing of the host
        ("limits", json!({ "min_free_bytes": 0 })),
        (
            "relay",
            json!({ "key_file": folder.join("relay/id_ed25519") }),
        ),
        (
            "dhcp",
            json!({
                "hosts_dir": root.path(&dhcp.hosts_dir),
                "leases_file": root.path(&dhcp.leases_file),
                "pid_file": root.path(&dhcp.pid_file),
            }),
        ),
    ];
    all.extend(state.map(|(key, value)| (key.to_owned(), value)));
    serde_json::from_value(Value::Object(all)).map_err(|error| bad(error.to_string()))
}

/// Records the live host: runs discovery once, and takes what it read.
///
/// # Errors
/// The agent's settings cannot be used on this host.
pub async fn record(settings: Settings, ca_pem: &[u8]) -> HostResult<Recording> {
    let kept = json!({
        "profile": settings.profile,
        "network": settings.network,
        "fabric": settings.fabric,
        "gpu_fabric": settings.gpu_fabric,
        "dhcp": settings.dhcp,
        "location": settings.location,
    });
    let dhcp = settings.dhcp.clone();
    let seen = Arc::new(PathsRead::default());
    let root = HostRoot::new(&settings.root).noting(Arc::clone(&seen));
    let folder = settings.root.clone();
    let node = Node::open_at(root, settings, ca_pem)?;
    let (_report, answers) = recording::record(Box::pin(discover(&node, Vec::new()))).await;
    seen.note(&dhcp.pid_file);
    // which guests have which address is theirs: that there is a folder is enough
    seen.note(&dhcp.hosts_dir);
    Ok(Recording {
        schema: SCHEMA,
        agent_version: build::version().to_owned(),
        settings: kept,
        entries: seen.tree(&folder),
        answers,
    })
}

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> HostResult<Self> {
        let name = format!("gpuaas-recorded-{}", Uuid::now_v7());
        // In memory where that can be: a tree is thousands of small files that are gone in a moment, and ext4 takes long to
        // make a file where many were just removed.
        let in_memory = Path::new("/dev/shm").join(&name);
        if std::fs::create_dir(&in_memory).is_ok() {
            return Ok(Self(in_memory));
        }
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).map_err(io_error("cannot make a folder"))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // nothing depends on it; what stays is in the folder for temporary files
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}
