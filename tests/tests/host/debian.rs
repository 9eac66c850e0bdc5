//! A slice with a real distribution in it: Debian 12, its systemd, its OpenSSH, its cloud-init. What the mini guest
//! only imitates, cloud-init does here with the seed that the host wrote.
//!
//! It takes minutes to build and to boot without KVM.
use std::time::Duration;

use gpuaas_dev::seed;
use gpuaas_tests::api::launch_body;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::{Value, json};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        d_38_d_39_d_40_cloud_init_of_a_real_distribution_takes_the_seed: 155,
    ]
}

/// Time for one boot of a distribution on an emulated processor that others use too; the platform itself gives up
/// after 20 minutes.
const BOOT: Duration = Duration::from_secs(21 * 60);

/// What the guest answers its owner. ssh itself (255) gives up on a guest that is slow to greet; it is tried again.
async fn said(system: &System, allocation: &Value, command: &str) -> String {
    until(&format!("an answer to {command}"), BOOT, async || {
        let login = system.ssh(allocation, command);
        if login.status.code() == Some(255) {
            return None;
        }
        assert!(login.status.success(), "{command}: {login:?}");
        Some(String::from_utf8_lossy(&login.stdout).trim().to_owned())
    })
    .await
}

/// Bytes of a block device of the guest.
async fn size(system: &System, allocation: &Value, device: &str) -> u64 {
    let size = said(system, allocation, &format!("lsblk -bdno SIZE {device}")).await;
    size.parse().expect("bytes")
}

/// User data of a tenant who would have the SSH server otherwise.
const USER_DATA: &str = "#cloud-config
users:
  - name: ada
ssh_pwauth: true
disable_root: false
ssh_keys: {rsa_private: nonsense}
write_files:
  - path: /etc/by-the-tenant
    content: written at the first boot
runcmd:
  - [sh, -c, 'echo ran > /var/tmp/by-the-tenant']
";

async fn d_38_d_39_d_40_cloud_init_of_a_real_distribution_takes_the_seed() {
    let system = System::get().await;
    seed::add_debian(&system.stack, &|_: &str| {})
        .await
        .unwrap_or_else(|error| panic!("{}", gpuaas_dev::error::chain(&error)));
    let mut request = launch_body("debian-guest", seed::DEBIAN_IMAGE, &system.public_key);
    // two vCPUs and 512 MiB: one GPU of the lab comes with half of that
    request["gpu_count"] = json!(2);
    request["user_data"] = json!(USER_DATA);
    let created = system
        .user
        .post("/api/v1/allocations", request)
        .await
        .unwrap_or_else(|refusal| panic!("launch refused: {}", refusal.body));
    let id = created["id"].as_str().expect("an id").to_owned();
    let active = system.user.wait_state(&id, &["active"], BOOT).await;
    let text = |key: &str| active["status"]["access"][key].as_str().expect("text");
    let guest_user = text("guest_user");

    // active means that a login works, which is before cloud-init has done all it does
    let status = said(&system, &active, "cloud-init status --wait --long").await;
    assert!(status.contains("status: done"), "{status}");
    assert!(status.contains("DataSourceNoCloud"), "{status}");
    let os = said(&system, &active, "cat /etc/os-release").await;
    assert!(os.contains("VERSION_CODENAME=bookworm"), "{os}");

    // what the seed says
    assert_eq!(said(&system, &active, "hostname").await, "debian-guest");
    assert_eq!(said(&system, &active, "id -un").await, guest_user);
    assert_eq!(said(&system, &active, "sudo -n id -u").await, "0");
    let instance = said(&system, &active, "cat /var/lib/cloud/data/instance-id").await;
    assert_eq!(instance, id);
    let keys = said(&system, &active, "cat .ssh/authorized_keys").await;
    let own: Vec<&str> = system.public_key.split(' ').take(2).collect();
    assert!(keys.contains(&own.join(" ")), "{keys}");
    assert_eq!(
        keys.lines().count(),
        2,
        "the relay's key and no other: {keys}"
    );
    // the tenant's part ran beside the platform's, which stayed in force
    let own = "cat /etc/by-the-tenant /var/tmp/by-the-tenant; id -un ada";
    assert_eq!(
        said(&system, &active, own).await,
        "written at the first bootran\nada"
    );
    let shown = active["config"]["user_data"]["size_bytes"].as_u64();
    assert_eq!(shown, Some(USER_DATA.len() as u64));
    assert!(!active.to_string().contains("by-the-tenant"));
    let passwords = said(
        &system,
        &active,
        "sudo -n grep -c ':\\$' /etc/shadow || true",
    )
    .await;
    assert_eq!(passwords, "0", "nobody has a password");
    let sshd = said(&system, &active, "sudo -n sshd -T").await;
    for rule in ["passwordauthentication no", "permitrootlogin no"] {
        assert!(sshd.lines().any(|line| line == rule), "{rule}: {sshd}");
    }

    // what the host reserved, and a disk that was grown to its slot's
    let addresses = said(&system, &active, "ip -4 -o addr show scope global").await;
    assert!(addresses.contains(text("private_ip")), "{addresses}");
    let boot = said(&system, &active, "cat /proc/sys/kernel/random/boot_id").await;
    assert_eq!(active["status"]["boot_id"], boot);
    let disk = size(&system, &active, "/dev/vda").await;
    let root = size(&system, &active, "/dev/vda2").await;
    assert!(
        disk - root < 8 << 20,
        "{root} of {disk} bytes are the root's"
    );
    let health = "systemctl is-system-running --wait || systemctl list-units --failed --plain";
    assert_eq!(said(&system, &active, health).await, "running");

    // P11: the host key is the one that the host made, and without the seed a later boot makes no other
    let own_key = "sudo -n cat /etc/ssh/ssh_host_*_key.pub";
    let recorded = active["status"]["access"]["ssh_host_keys"].clone();
    let words = said(&system, &active, own_key).await;
    let words: Vec<&str> = words.split(' ').take(2).collect();
    assert_eq!(recorded, json!([words.join(" ")]));
    let seed = said(&system, &active, "sudo -n blkid | grep -ci cidata || true").await;
    assert_eq!(seed, "0", "the seed is gone");
    // what it does at each boot; it finds the instance that it has configured already
    let again = "sudo -n sh -c 'cloud-init init --local; cloud-init init' > /dev/null 2>&1; \
        cat /var/lib/cloud/data/instance-id /var/lib/cloud/data/previous-instance-id";
    let instances = said(&system, &active, again).await;
    assert_eq!(instances, format!("{id}\n{id}"));
    let kept = said(&system, &active, own_key).await;
    assert!(kept.starts_with(&words.join(" ")) && kept.lines().count() == 1);

    system.user.release(&id).await;
    system
        .user
        .wait_state(&id, &["released"], 2 * TIMEOUT)
        .await;
    system.assert_nothing_left().await;
}
