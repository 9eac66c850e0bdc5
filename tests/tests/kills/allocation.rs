//! The allocation service is killed before and after every effect of provision, of release and of each change of
//! power; each time the allocation ends as it should and nothing is left over (P5). The cases are made from the step
//! tables.
use gpuaas_allocation::workflow::step_tables;
use gpuaas_tests::kill::Kill;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};

use super::case;

fn points(kind: &str) -> Vec<String> {
    let tables = step_tables();
    let table = tables
        .iter()
        .find(|t| t.kind == kind)
        .expect("the workflow exists");
    table.kill_points()
}

/// One allocation for each step; it carries one kill on its way up and one on its way down.
pub fn cases() -> Vec<Case> {
    let (provision, release) = (points("provision"), points("release"));
    let count = provision.len().max(release.len());
    let kills =
        (0..count).map(|number| (provision.get(number).cloned(), release.get(number).cloned()));
    kills
        .map(|(up, down)| {
            case("p5", &[&up.clone(), &down.clone()], 20, || {
                launch_and_release(up, down)
            })
        })
        .collect()
}

/// Two replicas at work.
pub fn replicas() -> Vec<Case> {
    gpuaas_tests::cases![Place::System; p6_two_replicas_one_killed_the_other_finishes: 23]
}

fn arm(system: &System, point: &str) -> Kill {
    let file = system.kill_file();
    let proof = file.with_file_name("kill-allocation.hit");
    Kill::arm(&file, &proof, point)
}

/// Carries out `request` while the service is killed at `point` and started again: the kill may come before the
/// request is answered, and then the client asks again.
async fn through_a_kill<T>(
    system: &System,
    point: Option<&str>,
    request: impl Future<Output = T>,
) -> T {
    let Some(point) = point else {
        return request.await;
    };
    let kill = arm(system, point);
    let (answer, ()) = tokio::join!(request, async {
        died(system, kill, &[1]).await;
        system.allocation_up(1).await;
    });
    answer
}

/// Waits until the kill was carried out at its point, and until exactly one of `replicas` is gone: the proof is
/// written before the signal is sent, and a replica that is about to die still looks alive.
async fn died(system: &System, kill: Kill, replicas: &[u16]) {
    kill.hit(TIMEOUT).await;
    gpuaas_tests::until::until("the killed replica to be gone", TIMEOUT, async || {
        let alive = replicas
            .iter()
            .filter(|replica| system.allocation(**replica).running().is_some());
        (alive.count() == replicas.len() - 1).then_some(())
    })
    .await;
}

async fn launch_and_release(up: Option<String>, down: Option<String>) {
    let system = System::get().await;
    system.allocation_up(1).await;

    let launch = system.user.launch("killed", "lab-mini", &system.public_key);
    let id = through_a_kill(&system, up.as_deref(), launch).await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let login = system.ssh(&active, "echo here");
    assert_eq!(
        String::from_utf8_lossy(&login.stdout).trim(),
        "here",
        "{login:?}"
    );

    through_a_kill(&system, down.as_deref(), system.user.release(&id)).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// Each allocation is stopped, started and rebooted, with one kill on each way.
pub fn power_cases() -> Vec<Case> {
    const CHANGES: [(&str, &str); 3] = [
        ("stop", "stopped"),
        ("start", "running"),
        ("reboot", "running"),
    ];
    let points = CHANGES.map(|(verb, _)| points(verb));
    let count = points.iter().map(Vec::len).max().unwrap_or_default();
    (0..count)
        .map(|number| {
            let kills = points.each_ref().map(|points| points.get(number).cloned());
            let [stop, start, reboot] = &kills.clone();
            case("p5", &[stop, start, reboot], 55, move || {
                change_power(CHANGES, kills)
            })
        })
        .collect()
}

async fn change_power(changes: [(&'static str, &'static str); 3], kills: [Option<String>; 3]) {
    let system = System::get().await;
    system.allocation_up(1).await;
    let id = system
        .user
        .launch("powered", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let mut boot = active["status"]["boot_id"].clone();
    for ((verb, power), point) in changes.into_iter().zip(kills) {
        let requested = format!("/api/v1/allocations/{id}:{verb}");
        let change = system.user.post(&requested, serde_json::json!({}));
        through_a_kill(&system, point.as_deref(), change)
            .await
            .unwrap_or_else(|refusal| panic!("{verb} refused: {}", refusal.body));
        let what = format!("{power} after a kill at {point:?}");
        let now = gpuaas_tests::until::until(&what, TIMEOUT, async || {
            let path = format!("/api/v1/allocations/{id}");
            let now = system.user.get(&path).await.ok()?;
            (now["status"]["power"] == power).then_some(now)
        })
        .await;
        if power == "running" {
            assert_ne!(now["status"]["boot_id"], boot, "{what}");
            boot = now["status"]["boot_id"].clone();
            let login = system.ssh(&now, "cat /proc/sys/kernel/random/boot_id");
            let said = String::from_utf8_lossy(&login.stdout).trim().to_owned();
            assert_eq!(boot, said, "{what}: {login:?}");
        }
    }
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// Both replicas run; whichever works dies in the middle, and nobody restarts it.
async fn p6_two_replicas_one_killed_the_other_finishes() {
    let system = System::get().await;
    system.allocation_up(1).await;
    system.allocation_up(2).await;
    let kill = arm(&system, "provision.provision:after");
    let id = system
        .user
        .launch("replicas", "lab-mini", &system.public_key)
        .await;
    died(&system, kill, &[1, 2]).await;

    // read from the ledger: the replica that the gateway talks to may be the dead one
    let mut database = system.database().await;
    gpuaas_tests::until::until("the other replica to finish", TIMEOUT, async || {
        let state: String =
            sqlx::query_scalar("SELECT state FROM placement.allocations WHERE id = $1::uuid")
                .bind(&id)
                .fetch_one(&mut database)
                .await
                .expect("the allocation");
        (state == "active").then_some(())
    })
    .await;
    system.allocation_up(1).await;
    system.allocation(2).stop();
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}
