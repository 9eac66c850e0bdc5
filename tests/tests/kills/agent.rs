//! The host agent is killed at every step of provision and of release; it comes back, goes on, and nothing is
//! left over (P5). The cases are made from the agent's step tables.
use gpuaas_agent::journal::Kind;
use gpuaas_agent::operation::steps_of;
use gpuaas_tests::kill::Kill;
use gpuaas_tests::runner::Case;
use gpuaas_tests::system::{System, TIMEOUT};

use super::case;

fn points(kind: Kind) -> Vec<String> {
    let steps = steps_of(kind).iter();
    steps
        .flat_map(|step| ["before", "after"].map(|at| format!("{}:{at}", step.name)))
        .collect()
}

/// One slice for each step.
pub fn cases() -> Vec<Case> {
    let (provision, release) = (points(Kind::Provision), points(Kind::Release));
    let count = provision.len().max(release.len());
    let kills =
        (0..count).map(|number| (provision.get(number).cloned(), release.get(number).cloned()));
    kills
        .map(|(up, down)| {
            case("p5_agent", &[&up.clone(), &down.clone()], 20, || {
                launch_and_release(up, down)
            })
        })
        .collect()
}

fn arm(system: &System, point: &str) -> Kill {
    let folder = system.stack.lab().agent_folder();
    Kill::arm(&folder.join("kill-at"), &folder.join("killed-at"), point)
}

async fn launch_and_release(up: Option<String>, down: Option<String>) {
    let system = System::get().await;
    let kill = up.as_deref().map(|point| arm(&system, point));
    let id = system
        .user
        .launch("agent-killed", "lab-mini", &system.public_key)
        .await;
    if let Some(kill) = kill {
        kill.hit(TIMEOUT).await;
    }
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let login = system.ssh(&active, "echo here");
    assert_eq!(
        String::from_utf8_lossy(&login.stdout).trim(),
        "here",
        "{login:?}"
    );

    let kill = down.as_deref().map(|point| arm(&system, point));
    system.user.release(&id).await;
    if let Some(kill) = kill {
        kill.hit(TIMEOUT).await;
    }
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}
