//! The scripts of the Terraform module, with a program in place of `gpuaas` that says by pipes what it is told.
use std::fs::{self, File};
use std::io::read_to_string;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::support::{ID, write};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../terraform/allocation");

/// A folder with the program, the pipes `launched` and `released`, and the file `listed`, each with what it was told. A script
/// holds the pipe `ended` open as long as one of its processes runs. Pauses of more than a second are none, and in `slept`.
struct Stage(TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().expect("folder"));
        for name in ["launched", "released", "ended"] {
            let made = Command::new("mkfifo").arg(stage.path(name)).status();
            assert!(made.expect("mkfifo").success());
        }
        let folder = stage.0.path().display();
        stage.program(
            "gpuaas",
            &format!(
                "case $1 in\n\
                 launch) echo \"$*\" > {folder}/launched; exec /bin/sleep 600 ;;\n\
                 list) echo \"$*\" >> {folder}/listed; count=$(wc -l < {folder}/listed)\n\
                 [ $count -gt $FAILED ] || exit 5\n\
                 [ $count -lt $FOUND_AT ] || echo {ID} ;;\n\
                 release) echo \"$*\" > {folder}/released ;;\n\
                 esac\n"
            ),
        );
        stage.program(
            "sleep",
            &format!(
                "[ $1 = 1 ] || {{ echo $1 >> {folder}/slept; exit 0; }}\nexec /bin/sleep 0.1\n"
            ),
        );
        stage
    }

    fn program(&self, name: &str, script: &str) {
        let program = self.path(name);
        write(&program, &format!("#!/bin/sh\n{script}"));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
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
        let ended = self.path("ended");
        // a pipe that is open for both does not wait for whoever reads it
        let script = format!("exec 9<> {}\n{script}", ended.display());
        let path = std::env::var("PATH").expect("a path");
        let mut command = Command::new("bash");
        command.args(["-c", &script]);
        command
            .env("PATH", format!("{}:{path}", self.0.path().display()))
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
            // so many lists fail; this one is the first that finds the allocation
            ("FAILED", "0"),
            ("FOUND_AT", "1"),
        ] {
            command.env(name, value);
        }
        command
    }

    /// Begins a launch and kills its shell, as an interrupted Terraform does, which no trap sees. The pipe is at its end once
    /// all processes of the launch have ended.
    fn interrupted(&self, failed: &str, found_at: &str) -> File {
        let mut command = self.script("launch.sh", "");
        command.env("FAILED", failed).env("FOUND_AT", found_at);
        let mut shell = command.spawn().expect("bash");
        let launched = self.told("launched");
        assert!(launched.contains("--label team=ml"), "{launched}");
        let ended = File::open(self.path("ended")).expect("a pipe");
        shell.kill().expect("killed");
        shell.wait().expect("ended");
        ended
    }
}

#[test]
fn a_launch_whose_terraform_is_interrupted_is_released() {
    let stage = Stage::new();
    let ended = stage.interrupted("0", "1");
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
    read_to_string(ended).expect("no process is left");
    assert_eq!(stage.told("slept"), "2\n");
}

#[test]
fn an_interrupted_launch_that_is_accepted_late_is_released() {
    // not accepted at the first looks; an API that does not answer for a while
    for (failed, found_at, slept) in [
        ("0", "3", "2\n10\n20\n"),
        ("4", "5", "2\n10\n20\n40\n300\n"),
    ] {
        let stage = Stage::new();
        let ended = stage.interrupted(failed, found_at);
        let released = stage.told("released");
        assert!(
            released.starts_with(&format!("release {ID} ")),
            "{released}"
        );
        read_to_string(ended).expect("no process is left");
        assert_eq!(stage.told("slept"), slept);
    }
}

#[test]
fn an_interrupted_launch_that_is_never_accepted_is_looked_for_until_its_request_has_timed_out() {
    let stage = Stage::new();
    let ended = stage.interrupted("0", "9");
    read_to_string(ended).expect("no process is left");
    assert_eq!(stage.told("slept"), "2\n10\n20\n40\n");
    assert_eq!(stage.told("listed").lines().count(), 4);
    // for Terraform that is no error
    let mut release = stage.script("release.sh", "");
    let released = release.env("FOUND_AT", "9").status().expect("bash");
    assert!(released.success());
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
