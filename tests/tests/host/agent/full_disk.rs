//! A file system of the host that is full while a VM is launched, below each of what the agent and libvirt write there.
use std::path::{Path, PathBuf};

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_tests::runner::{Case, Place};

use super::host::LabHost;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::Host;
        p5_a_launch_that_a_full_disk_of_the_host_has_no_room_for_leaves_nothing_and_succeeds_with_room: 20,
    ]
}

/// A file system without room over a folder of the host, until it is dropped.
struct Full<'a> {
    host: &'a LabHost,
    at: PathBuf,
}

impl<'a> Full<'a> {
    fn over(host: &'a LabHost, at: &Path) -> Self {
        let full = Self {
            host,
            at: at.to_owned(),
        };
        let path = at.display().to_string();
        let size = "size=256k,mode=0755";
        let mounted = host
            .lab
            .exec("mount", &["-t", "tmpfs", "-o", size, "full", &path]);
        mounted.expect("mounted");
        let fill = format!("! head -c 1M /dev/zero > {path}/filler");
        let filled = host.lab.exec("sh", &["-c", &fill]);
        filled.expect("there is no room for all of it");
        full
    }

    /// What is there beside what fills it.
    fn names(&self) -> Vec<String> {
        let path = self.at.display().to_string();
        let listed = self.host.lab.exec("ls", &["-A", &path]).expect("a folder");
        let names = listed.lines().filter(|name| *name != "filler");
        names.map(str::to_owned).collect()
    }
}

impl Drop for Full<'_> {
    fn drop(&mut self) {
        let path = self.at.display().to_string();
        // a test that fails is on its way out: nothing may panic here
        let gone = self.host.lab.exec("umount", &["--lazy", &path]);
        if let Err(error) = gone {
            println!("{path} stays full: {error}");
        }
    }
}

async fn p5_a_launch_that_a_full_disk_of_the_host_has_no_room_for_leaves_nothing_and_succeeds_with_room()
 {
    let host = LabHost::get().await;
    let image = host.image("lab-mini").await;
    // where the first to be written to, the image's, is cached already, there is nothing to write
    let cache = Path::new("/var/lib/gpuaas/slice-images");
    let seeds = host.lab.agent_folder().join("seeds");
    let nvram = Path::new("/var/lib/libvirt/qemu/nvram");
    let mut generation = 1;
    for (folder, step, reason, said, is_touched) in [
        (cache, "verify_image", "HOST_NOT_READY", "0 MiB free", false),
        (&seeds, "seed", "HOST_NOT_READY", "No space left", true),
        (nvram, "start", "HYPERVISOR_FAILED", "No space left", true),
    ] {
        let mut tenant = host.tenant(0, generation).await;
        let full = Full::over(&host, folder);
        let failure = host
            .failed(host.provision(&tenant, image.clone()).await)
            .await;
        assert_eq!(
            (failure.step.as_str(), failure.reason.as_str()),
            (step, reason),
            "{failure:?}"
        );
        assert_eq!(failure.failure_class(), pb::FailureClass::Host);
        assert!(failure.message.contains(said), "{failure:?}");
        assert!(failure.host_clean, "{failure:?}");
        assert_eq!(full.names(), Vec::<String>::new());
        host.assert_no_residue().await;
        assert_eq!(host.is_empty(0), !is_touched, "{step}: the disk");
        drop(full);
        // the hold ends with the wipe, as after every launch that failed
        host.succeeded(host.repair(&mut tenant).await).await;
        assert!(host.is_empty(0));
        assert_eq!(host.holds().await.holds, []);
        generation += 2;
    }

    let tenant = host.tenant(0, generation).await;
    host.succeeded(host.provision(&tenant, image).await).await;
    assert!(host.ssh(&tenant, "true").expect("ssh").status.success());
    host.succeeded(host.release(&tenant).await).await;
    assert!(host.is_empty(0));
    host.assert_no_residue().await;
    assert_eq!(host.holds().await.holds, []);
}
