//! A gateway that shows serial logs by SSH, keys, and the `ssh` of this machine.
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use gpuaas_dev::ports;
use gpuaas_gateway::Config;
use gpuaas_gateway::serial_ssh::SerialSshSettings;
use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use uuid::Uuid;

use crate::world::World;

/// Longest wait for what is about to happen.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The allocation of the test's project.
pub const VM: Uuid = Uuid::from_u128(0x71);

/// A gateway and where it shows serial logs.
pub struct Setup {
    pub world: World,
    pub address: SocketAddr,
}

/// A project whose members are mia and, as a viewer, vera; the settings changed.
pub async fn start(change: impl FnOnce(&mut Config, &mut SerialSshSettings)) -> Setup {
    let port = ports::free().expect("port");
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let world = World::start_with(|config, folder| {
        let key = new_key(&folder.join("host-key"));
        let known = key.public_key().to_openssh().expect("a line");
        let known = format!("[127.0.0.1]:{port} {known}\n");
        fs::write(folder.join("known-hosts"), known).expect("written");
        let mut ssh = SerialSshSettings {
            listen: vec![address],
            host_key_file: folder.join("host-key"),
            max_connections: 64,
            max_connections_per_peer: 64,
            sign_in_timeout_seconds: 60,
            keep_alive_seconds: 15,
        };
        // what ends a stream is what the gateway hears of, and no later look
        config.stream_access_seconds = 3600.0;
        change(config, &mut ssh);
        config.serial_ssh = Some(ssh);
    })
    .await;
    world.users(&["mia", "vera"]).await;
    let project = world.seeded.project_id.to_string();
    for (who, role) in [("mia", "member"), ("vera", "viewer")] {
        world.member(&project, who, role).await;
    }
    Setup { world, address }
}

/// A new key in a file that only its owner reads.
fn new_key(path: &Path) -> PrivateKey {
    let mut random = russh::keys::key::safe_rng();
    let key = PrivateKey::random(&mut random, Algorithm::Ed25519).expect("a key");
    let text = key.to_openssh(LineEnding::LF).expect("written");
    fs::write(path, text.as_bytes()).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("mode");
    key
}

/// An SSH key of a client.
pub struct Key {
    pub private: PrivateKey,
    path: PathBuf,
}

impl Setup {
    /// A key that nobody has registered.
    pub fn key(&self, name: &str) -> Key {
        let path = self.world.folder.path().join(format!("{name}.key"));
        let private = new_key(&path);
        Key { private, path }
    }

    /// Registers a key of somebody, and answers its id.
    pub async fn register(&self, who: &str, name: &str, key: &Key) -> String {
        let line = key.private.public_key().to_openssh().expect("a line");
        let body = json!({ "name": name, "public_key": line });
        let made = self.world.made(who, "/api/v1/ssh-keys", body).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    /// A new key that somebody has registered.
    pub async fn key_of(&self, who: &str) -> Key {
        let key = self.key(who);
        self.register(who, "laptop", &key).await;
        key
    }

    /// Starts `ssh OPTIONS NAME@gateway COMMAND`.
    pub fn ssh(&self, key: &Key, name: &str, options: &[&str], command: &[&str]) -> Ssh {
        let known = self.world.folder.path().join("known-hosts");
        let mut ssh = Command::new("ssh");
        ssh.env_remove("SSH_AUTH_SOCK")
            .args(["-F", "/dev/null", "-o", "BatchMode=yes"])
            .args(["-o", "StrictHostKeyChecking=yes", "-o"])
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .args(["-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-i"])
            .arg(&key.path)
            .args(["-p", &self.address.port().to_string()])
            .args(options)
            .arg(format!("{name}@127.0.0.1"))
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = ssh.spawn().expect("ssh is installed");
        Ssh {
            input: child.stdin.take(),
            output: child.stdout.take().expect("piped"),
            errors: child.stderr.take().expect("piped"),
            child,
            seen: String::new(),
        }
    }

    /// Reads the log of [`VM`], not on a terminal.
    pub fn reads(&self, key: &Key) -> Ssh {
        self.ssh(key, &VM.to_string(), &["-T"], &[])
    }

    /// A connection that has said this.
    pub async fn says(&self, opening: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("connected");
        stream.write_all(opening).await.expect("sent");
        stream
    }

    /// Denials of reading a serial log that are on record for somebody.
    pub async fn denials(&self, principal: &str) -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE action = 'serial_log.read' AND resource = 'allocation'
                AND detail ->> 'outcome' = 'denied' AND principal = $1",
        )
        .bind(principal)
        .fetch_one(&self.world.pool().await)
        .await
        .expect("audit")
    }
}

/// An `ssh` that runs.
pub struct Ssh {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    errors: ChildStderr,
    seen: String,
}

/// How an `ssh` ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    pub status: Option<i32>,
    pub output: String,
    pub errors: String,
}

impl Ssh {
    /// Returns when it has shown this.
    pub async fn until(&mut self, text: &str) {
        let shown = async {
            let mut piece = [0; 4096];
            while !self.seen.contains(text) {
                let length = self.output.read(&mut piece).await.expect("read");
                if length == 0 {
                    let mut errors = String::new();
                    let _ = self.errors.read_to_string(&mut errors).await;
                    panic!("it ended with {:?} and {errors:?}", self.seen);
                }
                self.seen += &String::from_utf8_lossy(&piece[..length]);
            }
        };
        let in_time = tokio::time::timeout(TIMEOUT, shown).await;
        assert!(in_time.is_ok(), "{text:?} is shown: {:?}", self.seen);
    }

    /// Types this.
    pub async fn types(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("open");
        input.write_all(bytes).await.expect("typed");
        input.flush().await.expect("typed");
    }

    /// Returns when it has ended by itself.
    pub async fn ended(mut self) -> Ended {
        let (mut output, mut errors) = (String::new(), String::new());
        let ended = async {
            let (read, said) = tokio::join!(
                self.output.read_to_string(&mut output),
                self.errors.read_to_string(&mut errors),
            );
            read.expect("text");
            said.expect("text");
            self.child.wait().await.expect("ended")
        };
        let ended = tokio::time::timeout(TIMEOUT, ended).await;
        let status = ended.expect("it ends by itself").code();
        Ended {
            status,
            output: self.seen + &output,
            errors: errors.replace('\r', ""),
        }
    }
}
