//! The lab node: registered, enrolled, inspected, and its slots approved, as an operator would do it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::names::LAB_SKU;
use crate::error::{Error, Result};
use crate::lab::Lab;
use crate::paths;
use crate::process;
use crate::seed::api::{Api, list, string};
use crate::stack::{Progress, REGION, Stack};

/// What the names of lab nodes begin with.
const HOSTNAMES: &str = "lab-host-";
/// How long enrolment, discovery and readiness may take each.
const TIMEOUT: Duration = Duration::from_secs(90);
/// A token that was not used within this time is replaced; inventory refuses it somewhat later.
const TOKEN_LIFETIME: Duration = Duration::from_secs(1800);

pub(super) async fn seed(stack: &Stack, admin: &Api, progress: Progress<'_>) -> Result<()> {
    for lab in stack.labs() {
        seed_one(stack, &lab, admin, progress).await?;
    }
    if stack.options().approve {
        schedulable(admin).await?;
    }
    Ok(())
}

/// Starts a lab host and brings its node as far as the stack wants it: enrolled, and its slots approved.
///
/// # Errors
/// What the host or the API answered.
pub async fn seed_one(stack: &Stack, lab: &Lab, admin: &Api, progress: Progress<'_>) -> Result<()> {
    let hostname = lab.hostname();
    let nodes = admin.get("/api/v1/admin/nodes?page_size=500").await?;
    let existing = list(&nodes["nodes"])
        .iter()
        .find(|node| node["config"]["hostname"] == hostname.as_str());
    let node = match existing {
        Some(node) => string(&node["id"]).to_owned(),
        None => {
            let desired = json!({"hostname": hostname, "region_code": REGION, "mode": "slice"});
            let key = lab.part_name("seed-node");
            let node = admin.post("/api/v1/admin/nodes", &key, &desired).await?;
            progress(&format!("node {hostname} registered"));
            string(&node["id"]).to_owned()
        }
    };
    let key = lab.agent_folder().join("tls/key.pem");
    if !lab.enrolled() && !usable(&lab.token_file(), &key) {
        // a key of its own: a repeated key would not show the token again
        let key = format!("seed-enrol-{}", uuid::Uuid::new_v4());
        let path = format!("/api/v1/admin/nodes/{node}/enrolment-tokens");
        let token = admin.post(&path, &key, &json!({})).await?;
        paths::ensure_dir(lab.folder())?;
        paths::write_secret(&lab.token_file(), string(&token["token"]).as_bytes())?;
    }
    stack.lab_up(lab, progress).await?;
    enrolled(stack, lab, admin, &node).await?;
    if !stack.options().approve {
        return Ok(());
    }
    let path = format!("/api/v1/admin/nodes/{node}/resource-slots");
    if list(&admin.get(&path).await?["slots"]).is_empty() {
        approve(lab, admin, &node).await?;
        progress(&format!(
            "{} slots of {hostname} discovered and approved",
            lab.slots()
        ));
        wiped(admin, &path).await?;
        progress(&format!("disks of {hostname} wiped and verified empty"));
    }
    Ok(())
}

/// Whether an earlier, interrupted start left a token that is still good. The agent may have used it up: then it is
/// good for the agent's key alone, so without a key it may be spent for one that is gone.
fn usable(token: &Path, key: &Path) -> bool {
    let written = std::fs::metadata(token).and_then(|metadata| metadata.modified());
    let young =
        written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age < TOKEN_LIFETIME));
    young && key.exists()
}

/// Waits until the agent has enrolled and reports.
async fn enrolled(stack: &Stack, lab: &Lab, admin: &Api, node: &str) -> Result<()> {
    let mut observed = String::new();
    let done = until(async || {
        let node = admin.get(&format!("/api/v1/admin/nodes/{node}")).await?;
        let state = string(&node["status"]["state"]);
        let mut serves = Err("not enrolled".to_owned());
        if let Some(probe) = lab.agent_probe() {
            serves = stack.health().check(&probe).await;
        }
        observed = format!("node is {state}, agent: {serves:?}");
        Ok((state == "enrolled" && serves.is_ok()).then_some(()))
    });
    match done.await? {
        Some(()) => Ok(()),
        None => Err(process::not_ready("agent", observed, lab.part().log())),
    }
}

/// Inspects the host and approves every slot that was found.
async fn approve(lab: &Lab, admin: &Api, node: &str) -> Result<()> {
    let path = format!("/api/v1/admin/nodes/{node}/slice-topology/discovery");
    let key = format!("seed-discovery-{}", uuid::Uuid::new_v4());
    let started = admin.post(&path, &key, &json!({})).await?;
    let mut last = Value::Null;
    let found = until(async || {
        last = admin.get(&path).await?;
        let state = string(&last["state"]);
        if last["id"] == started["id"] && state == "failed" {
            return Err(Error::other(format!(
                "discovery failed: {}",
                string(&last["error"])
            )));
        }
        Ok((last["id"] == started["id"] && state == "completed").then(|| last.clone()))
    });
    let found = found.await?;
    let found = found.ok_or_else(|| Error::other(format!("discovery did not complete: {last}")))?;
    let usable: Vec<&Value> = list(&found["candidates"])
        .iter()
        .filter(|candidate| list(&candidate["blockers"]).is_empty())
        .map(|candidate| &candidate["slot_index"])
        .collect();
    if usable.len() < usize::from(lab.slots()) {
        return Err(Error::other(format!(
            "the lab host offers {} slots: {found}",
            usable.len()
        )));
    }
    let indexes: Vec<u64> = usable
        .into_iter()
        .map(|index| index.as_u64().unwrap_or_default())
        .collect();
    let desired = json!({"discovery_id": found["id"], "slot_indexes": indexes});
    let path = format!("/api/v1/admin/nodes/{node}/resource-slots:approve");
    admin
        .post(
            &path,
            &format!("seed-approve-{}", string(&found["id"])),
            &desired,
        )
        .await?;
    Ok(())
}

/// Waits until the first wipe of every slot has ended, which approval has started.
async fn wiped(admin: &Api, path: &str) -> Result<()> {
    let mut last = Value::Null;
    let ended = until(async || {
        last = admin.get(path).await?;
        let in_status = |status: &'static str| {
            let slots = list(&last["slots"]).iter();
            slots.filter(move |slot| slot["status"] == status)
        };
        if let Some(slot) = in_status("cleanup_blocked").next() {
            let (index, why) = (&slot["slot_index"], string(&slot["health_detail"]));
            return Err(Error::other(format!(
                "the disk of slot {index} could not be wiped: {why}"
            )));
        }
        Ok(in_status("cleanup").next().is_none().then_some(()))
    });
    ended
        .await?
        .ok_or_else(|| Error::other(format!("the disks were not wiped in time: {last}")))
}

/// Waits until the scheduler offers the lab's capacity, or all of it is held.
async fn schedulable(admin: &Api) -> Result<()> {
    let path = format!("/api/v1/availability?region_code={REGION}&sku={LAB_SKU}");
    let mut last = Value::Null;
    let offered = until(async || {
        last = admin.get(&path).await?;
        let fits = list(&last["availability"])
            .iter()
            .any(|row| row["fits"].as_u64().unwrap_or(0) > 0);
        // a host whose slots are held offers nothing, as it should be
        Ok((fits || held(admin).await?).then_some(()))
    });
    match offered.await? {
        Some(()) => Ok(()),
        None => Err(Error::other(format!(
            "the lab's slots are not offered: {last}"
        ))),
    }
}

/// Statuses of a slot that nobody has; one in cleanup is about to be offered.
const FREE: [&str; 3] = ["available", "disabled", "cleanup"];

/// Whether a slot of the lab is held by somebody.
async fn held(admin: &Api) -> Result<bool> {
    let nodes = admin.get("/api/v1/admin/nodes?page_size=500").await?;
    let is_lab = |node: &&Value| string(&node["config"]["hostname"]).starts_with(HOSTNAMES);
    let nodes = list(&nodes["nodes"]).iter().filter(is_lab);
    let mut slots = nodes.filter_map(|node| node["status"]["slots"].as_object());
    Ok(slots.any(|slots| {
        slots
            .iter()
            .any(|(state, count)| !FREE.contains(&state.as_str()) && count != 0)
    }))
}

/// Asks until there is an answer or the timeout is over.
async fn until<T>(mut poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(answer) = poll().await? {
            return Ok(Some(answer));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_only_for_the_key_it_may_be_spent_for() {
        let folder = std::env::temp_dir().join(format!("gpuaas-token-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&folder).unwrap();
        let (token, key) = (folder.join("token"), folder.join("key.pem"));
        assert!(!usable(&token, &key));
        std::fs::write(&token, "x").unwrap();
        assert!(!usable(&token, &key), "the key it was spent for is gone");
        std::fs::write(&key, "x").unwrap();
        assert!(usable(&token, &key));
        let old = std::time::SystemTime::now() - TOKEN_LIFETIME;
        let file = std::fs::File::options().write(true).open(&token).unwrap();
        file.set_modified(old).unwrap();
        assert!(!usable(&token, &key), "too old");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
