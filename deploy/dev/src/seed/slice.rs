//! The first slice: launched as a user would, followed step by step until it answers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::names::{IMAGE, LAB_SKU, Tokens};
use crate::error::{Error, Result};
use crate::paths;
use crate::process;
use crate::seed::api::{Api, list, string};
use crate::stack::{Progress, REGION, Stack};

/// Name of the first slice.
const NAME: &str = "first";
/// Longest time from request to login.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Longest time a guest takes to boot again after its host went down.
const BOOT: Duration = Duration::from_secs(120);

/// The first slice as it is now.
#[derive(Debug, Clone)]
pub struct FirstSlice {
    /// Id of the allocation.
    pub id: String,
    /// Its state, "active" after a launch.
    pub state: String,
    /// Command that logs in, while it is active.
    pub ssh: Option<String>,
    /// Time from request to login, when it was launched just now.
    pub took: Option<Duration>,
}

/// Launches the first slice unless it was launched before.
///
/// # Errors
/// The launch fails; the error says why.
pub async fn first_slice(stack: &Stack, progress: Progress<'_>) -> Result<FirstSlice> {
    let root = &stack.options().root;
    let user = Api::new(&stack.api_url(), &Tokens::of(root).user)?;
    let key = key(root)?;
    let all = user
        .get("/api/v1/allocations?include_ended=true&page_size=500")
        .await?;
    let existing = list(&all["allocations"])
        .iter()
        .find(|allocation| allocation["config"]["name"] == NAME);
    let (allocation, took) = match existing {
        Some(allocation) if !under_way(allocation) => (allocation.clone(), None),
        existing => {
            let started = Instant::now();
            let id = match existing {
                Some(allocation) => string(&allocation["id"]).to_owned(),
                None => create(&user, &key).await?,
            };
            (follow(&user, &id, progress).await?, Some(started.elapsed()))
        }
    };
    let ssh = ssh_command(&key, &allocation["status"])?;
    if let Some(command) = &ssh
        && !logs_in(command)
    {
        progress("waiting for the first slice to boot with its host");
        let command = command.clone();
        let booted = move || process::wait_until(BOOT, || logs_in(&command));
        let booted = tokio::task::spawn_blocking(booted).await;
        if !booted.unwrap_or(false) {
            return Err(Error::other(
                "the first slice is active, but a login does not work",
            ));
        }
    }
    Ok(FirstSlice {
        id: string(&allocation["id"]).to_owned(),
        state: string(&allocation["status"]["state"]).to_owned(),
        ssh,
        took,
    })
}

/// Whether the printed command works as printed.
fn logs_in(command: &str) -> bool {
    let mut words = command.split(' ');
    let mut ssh = Command::new(words.next().unwrap_or_default());
    ssh.args([
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=10",
        "-o",
        "LogLevel=ERROR",
    ]);
    process::output(ssh.args(words).arg("true")).is_ok()
}

async fn create(user: &Api, key: &Path) -> Result<String> {
    let public = key.with_extension("pub");
    let public = std::fs::read_to_string(&public).map_err(Error::file("read", &public))?;
    let desired = json!({
        "name": NAME,
        "region_code": REGION,
        "sku": LAB_SKU,
        "gpu_count": 1,
        "image": IMAGE,
        "ssh_public_keys": [public.trim()],
    });
    let allocation = user
        .post("/api/v1/allocations", "seed-first-slice", &desired)
        .await?;
    Ok(string(&allocation["id"]).to_owned())
}

/// Tells every step as it begins, until the allocation is active or has failed.
async fn follow(user: &Api, id: &str, progress: Progress<'_>) -> Result<Value> {
    let deadline = Instant::now() + TIMEOUT;
    let mut printed = 0;
    loop {
        let allocation = user.get(&format!("/api/v1/allocations/{id}")).await?;
        let timeline = user
            .get(&format!("/api/v1/allocations/{id}/timeline?page_size=500"))
            .await?;
        for entry in list(&timeline["entries"]).iter().skip(printed) {
            progress(&format!("  {}", string(&entry["message"])));
            printed += 1;
        }
        match string(&allocation["status"]["state"]) {
            "active" => return Ok(allocation),
            "failed" => {
                let failure = &allocation["status"]["failure"];
                let (message, advice) = (string(&failure["message"]), string(&failure["advice"]));
                return Err(Error::other(format!(
                    "the first slice failed: {message} {advice}"
                )));
            }
            state if Instant::now() >= deadline => {
                return Err(Error::other(format!(
                    "the first slice is still {state} after {TIMEOUT:?}"
                )));
            }
            _ => tokio::time::sleep(Duration::from_millis(150)).await,
        }
    }
}

fn under_way(allocation: &Value) -> bool {
    matches!(
        string(&allocation["status"]["state"]),
        "requested" | "reserved" | "provisioning"
    )
}

/// The key that logs into the first slice, made if it is missing.
fn key(root: &Path) -> Result<PathBuf> {
    let folder = root.join("ssh");
    paths::ensure_dir(&folder)?;
    let key = folder.join("id_ed25519");
    if !key.exists() {
        let file = key.to_string_lossy();
        process::run(
            "ssh-keygen",
            &[
                "-q",
                "-t",
                "ed25519",
                "-N",
                "",
                "-C",
                "gpuaas-demo",
                "-f",
                &file,
            ],
        )?;
    }
    Ok(key)
}

/// The command that logs in; the guest's host keys are pinned in a file of their own.
fn ssh_command(key: &Path, status: &Value) -> Result<Option<String>> {
    let access = &status["access"];
    let host_keys = list(&access["ssh_host_keys"]);
    let is_there = string(&status["state"]) == "active" && !string(&access["ssh_host"]).is_empty();
    if !is_there || host_keys.is_empty() {
        return Ok(None);
    }
    let (host, port) = (string(&access["ssh_host"]), &access["ssh_host_port"]);
    let known_hosts = key.with_file_name("known_hosts");
    let lines: Vec<String> = host_keys
        .iter()
        .map(|host_key| format!("[{host}]:{port} {}\n", string(host_key)))
        .collect();
    paths::write_with_mode(&known_hosts, lines.concat().as_bytes(), 0o644)?;
    Ok(Some(format!(
        "ssh -i {} -o IdentitiesOnly=yes -o UserKnownHostsFile={} -o StrictHostKeyChecking=yes -p {port} {}@{host}",
        key.display(),
        known_hosts.display(),
        string(&access["guest_user"]),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_pins_the_guests_host_keys() {
        let folder = std::env::temp_dir().join(format!("gpuaas-slice-{}", std::process::id()));
        paths::ensure_dir(&folder).unwrap();
        let status = json!({"state": "active", "access": {"guest_user": "u_1", "ssh_host": "127.0.0.1",
            "ssh_host_port": 22000, "ssh_host_keys": ["ssh-ed25519 AAAA"]}});
        let command = ssh_command(&folder.join("id_ed25519"), &status)
            .unwrap()
            .unwrap();
        assert!(
            command.ends_with("-o StrictHostKeyChecking=yes -p 22000 u_1@127.0.0.1"),
            "{command}"
        );
        let pinned = std::fs::read_to_string(folder.join("known_hosts")).unwrap();
        assert_eq!(pinned, "[127.0.0.1]:22000 ssh-ed25519 AAAA\n");
        let unknown = json!({"state": "active", "access": {"guest_user": "u_1", "ssh_host": "127.0.0.1",
            "ssh_host_port": 22000, "ssh_host_keys": []}});
        assert!(
            ssh_command(&folder.join("id_ed25519"), &unknown)
                .unwrap()
                .is_none()
        );
        let released = json!({"state": "released", "access": status["access"]});
        assert!(
            ssh_command(&folder.join("id_ed25519"), &released)
                .unwrap()
                .is_none()
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
