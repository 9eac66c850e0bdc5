//! All services of the control plane are killed at once while a host works for them, and are started again: the launch and the
//! release end as if nobody had been away (P5).
use gpuaas_dev::stack::{GATEWAY, SERVICES};
use gpuaas_tests::hold::Hold;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;

/// The case.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        p5_the_whole_control_plane_is_killed_while_its_host_works: 45,
    ]
}

async fn p5_the_whole_control_plane_is_killed_while_its_host_works() {
    let system = System::get().await;
    let lab = system.stack.lab();
    let hold = Hold::order(&lab, "clone");
    let id = system
        .user
        .launch("all-killed", "lab-mini", &system.public_key)
        .await;
    killed_while(&system, hold).await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    assert_eq!(system.said(&active, "echo here"), "here");

    let hold = Hold::order(&lab, "wipe");
    system.user.release(&id).await;
    killed_while(&system, hold).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// Kills all while the host stays before a step, and starts them again while it goes on.
async fn killed_while(system: &System, hold: Hold<'_>) {
    let what = format!("the host before {}", hold.step);
    until(&what, TIMEOUT, async || hold.is_held().then_some(())).await;
    let parts: Vec<_> = SERVICES
        .into_iter()
        .chain([GATEWAY])
        .map(|kind| system.stack.service(kind, 1).expect("settings"))
        .collect();
    for part in &parts {
        let process = part.running();
        let process = process.unwrap_or_else(|| panic!("{} does not run", part.name));
        process.signal(nix::sys::signal::Signal::SIGKILL);
    }
    for part in &parts {
        part.kill();
        assert!(part.running().is_none(), "{} is gone", part.name);
    }
    hold.let_go();
    for part in &parts {
        part.ensure().expect("starts");
    }
    for part in &parts {
        part.wait_ready(system.stack.health()).await.expect("ready");
    }
}
