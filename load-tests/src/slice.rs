//! A slice of the lab, launched as a user would.
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::bail;
use gpuaas_dev::process;
use gpuaas_dev::seed::{Api, IMAGE, LAB_SKU, REGION, list, string};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::system::System;

/// Longest time for any change of a slice.
const TIMEOUT: Duration = Duration::from_secs(180);

/// An active slice.
#[derive(Debug)]
pub struct Slice<'a> {
    /// Id of the allocation.
    pub id: String,
    user: &'a Api,
    key: PathBuf,
    access: Value,
}

/// Releases what an earlier run has left, so that the slots are free.
///
/// # Errors
/// What the API answered.
pub async fn release_all(user: &Api) -> anyhow::Result<()> {
    let left = user.get("/api/v1/allocations?page_size=500").await?;
    for allocation in list(&left["allocations"]) {
        release(user, string(&allocation["id"])).await?;
    }
    Ok(())
}

async fn release(user: &Api, id: &str) -> anyhow::Result<()> {
    call(user, id, "release").await?;
    wait(user, id, |status| status["state"] == "released").await?;
    Ok(())
}

/// Calls a method of an allocation; answers with the allocation.
async fn call(user: &Api, id: &str, method: &str) -> anyhow::Result<Value> {
    let path = format!("/api/v1/allocations/{id}:{method}");
    let key = Uuid::now_v7().to_string();
    Ok(user.post(&path, &key, &json!({})).await?)
}

/// Waits until the status of an allocation is as wanted; answers with it.
async fn wait(user: &Api, id: &str, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Value> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let mut allocation = user.get(&format!("/api/v1/allocations/{id}")).await?;
        let status = allocation["status"].take();
        if wanted(&status) {
            return Ok(status);
        }
        if status["state"] == "failed" {
            bail!("allocation {id} failed: {}", status["failure"]);
        }
        if Instant::now() > deadline {
            bail!("allocation {id} is not as wanted after {TIMEOUT:?}: {status}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl<'a> Slice<'a> {
    /// Launches a slice and waits until it is active.
    ///
    /// # Errors
    /// What the API answered; the launch failed.
    pub async fn launch(system: &'a System<'_>) -> anyhow::Result<Self> {
        let key = key(system)?;
        let user = &system.user;
        let public = std::fs::read_to_string(key.with_extension("pub"))?;
        let unique = Uuid::now_v7().to_string();
        let body = json!({
            "name": format!("bench-{unique}"), "region_code": REGION, "sku": LAB_SKU, "gpu_count": 1,
            "image": IMAGE, "ssh_public_keys": [public.trim()],
        });
        let created = user.post("/api/v1/allocations", &unique, &body).await?;
        let id = string(&created["id"]).to_owned();
        let mut active = wait(user, &id, |status| status["state"] == "active").await?;
        Ok(Self {
            id,
            user,
            key,
            access: active["access"].take(),
        })
    }

    /// The command that logs in, with these options.
    pub fn ssh(&self, options: &[&str]) -> Command {
        let (guest, host) = (&self.access["guest_user"], &self.access["ssh_host"]);
        let mut ssh = Command::new("ssh");
        ssh.arg("-i")
            .arg(&self.key)
            .args(["-o", "StrictHostKeyChecking=no"])
            .args(["-o", "UserKnownHostsFile=/dev/null"])
            .args(["-o", "LogLevel=ERROR", "-o", "BatchMode=yes"])
            .args(["-p", &self.access["ssh_host_port"].to_string()])
            .args(options)
            .arg(format!("{}@{}", string(guest), string(host)));
        ssh
    }

    /// Asks for a change of power; answers with the revision of the allocation that has it.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn power(&self, method: &str) -> anyhow::Result<i64> {
        let changed = call(self.user, &self.id, method).await?;
        Ok(string(&changed["metadata"]["revision"]).parse()?)
    }

    /// Waits until the power is as wanted.
    ///
    /// # Errors
    /// It does not become so.
    pub async fn wait_power(&self, wanted: &str) -> anyhow::Result<()> {
        wait(self.user, &self.id, |status| status["power"] == wanted).await?;
        Ok(())
    }

    /// Gives it back and waits until it is gone.
    ///
    /// # Errors
    /// What the API answered.
    pub async fn release(self) -> anyhow::Result<()> {
        release(self.user, &self.id).await
    }
}

/// The key that logs in, made if it is missing.
fn key(system: &System<'_>) -> anyhow::Result<PathBuf> {
    let key = system.root().join("bench-key");
    if !key.exists() {
        let file = key.display().to_string();
        process::run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", &file],
        )?;
    }
    Ok(key)
}
