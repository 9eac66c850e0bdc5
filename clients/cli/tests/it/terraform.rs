//! The scripts of the Terraform module, with a program in place of `gpuaas` that says by pipes what it is told.
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{ID, write};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../terraform/allocation");

/// A folder with the program, the pipes `launched` and `released`, and the file `listed`, each with what it was told.
struct Stage(TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().expect("folder"));
        for name in ["launched", "released"] {
            let made = Command::new("mkfifo").arg(stage.path(name)).status();
            assert!(made.expect("mkfifo").success());
        }
        let program = stage.path("gpuaas");
        let folder = stage.0.path().display();
        write(
            &program,
            &format!(
                "#!/bin/sh\n\
                 case $1 in\n\
                 launch) echo \"$*\" > {folder}/launched; exec sleep 600 ;;\n\
                 list) echo \"$*\" >> {folder}/listed; echo {ID} ;;\n\
                 release) echo \"$*\" > {folder}/released ;;\n\
                 esac\n"
            ),
        );
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What the program was told, as soon as it is.
    fn told(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("text")
    }

    /// A script of the module as Terraform runs it.
    fn script(&self, name: &str, project: &str) -> Command {
        let script = fs::read_to_string(Path::new(MODULE).join(name)).expect("the script");
        let mut command = Command::new("bash");
        command.args(["-c", &script]);
        command
            .env("COMMAND", self.path("gpuaas"))
            .env("MODULE", MODULE);
        for (name, value) in [
            ("NAME", "training"),
            ("PROJECT", project),
            ("REGION", ""),
            ("SKU", "s"),
            ("GPUS", "1"),
            ("IMAGE", "i"),
            ("SSH_KEYS", ""),
            ("LABELS", "team=ml"),
            ("SECONDS_TO_WAIT", "600"),
            ("RESOURCE", "r-1"),
        ] {
            command.env(name, value);
        }
        command
    }
}

#[test]
fn a_launch_whose_terraform_is_interrupted_is_released() {
    let stage = Stage::new();
    let mut shell = stage.script("launch.sh", "").spawn().expect("bash");
    let launched = stage.told("launched");
    assert!(launched.contains("--label team=ml"), "{launched}");
    // Terraform kills the shell of a provisioner, which no trap sees
    shell.kill().expect("killed");
    shell.wait().expect("ended");
    let released = stage.told("released");
    assert!(
        released.starts_with(&format!("release {ID} --wait")),
        "{released}"
    );
    let listed = stage.told("listed");
    assert!(
        listed.contains("labels.\"terraform-resource\" = \"r-1\""),
        "{listed}"
    );
}

#[test]
fn a_release_looks_where_the_launch_was() {
    for (project, place) in [
        ("", "list --all-projects "),
        ("vision", "list --project vision "),
    ] {
        let stage = Stage::new();
        let mut shell = stage.script("release.sh", project).spawn().expect("bash");
        let released = stage.told("released");
        assert!(shell.wait().expect("ended").success());
        assert!(
            released.starts_with(&format!("release {ID} --wait")),
            "{released}"
        );
        let listed = stage.told("listed");
        assert!(listed.starts_with(place), "{listed}");
    }
}
