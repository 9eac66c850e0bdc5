//! Operations: tables of journaled steps that run to their end, whether or not anybody watches, and go on
//! after a restart of the agent.
//!
//! Every step may run again from its beginning: it was recorded before its effect and not after it, so it is
//! unknown how far it came. A step therefore either finds its effect done or does it anew.
mod address;
mod domain;
mod login;
mod partition;
mod power;
mod provision;
pub mod readiness;
mod rebind;
mod release;
mod remove;
mod rescue;
mod rescue_key;
mod reset;
mod runner;
mod seed;
mod wiping;
mod work;

pub use address::network_group;
pub(crate) use login::SSH_PORT;
pub(crate) use remove::{reservation as remove_reservation, seed as remove_seed};
pub(crate) use rescue_key::given_host_key as rescue_host_key;
pub use runner::Runner;
pub use wiping::result as wipe_result;
pub use work::{Done, StepDef, Work};

use crate::journal::Kind;

/// The steps of a kind of operation, in order.
pub fn steps_of(kind: Kind) -> &'static [StepDef] {
    match kind {
        Kind::Provision => provision::STEPS,
        Kind::Release => release::RELEASE,
        Kind::CleanUp => release::CLEAN_UP,
        Kind::RepairSlot => release::REPAIR,
        Kind::Stop => power::STOP,
        Kind::Start => power::START,
        Kind::Reboot => power::REBOOT,
        Kind::Rescue => rescue::RESCUE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D-23, D-25, D-74: an image is verified and a disk proven before a byte is cloned, and a release wipes and verifies. The devices
    /// of the slot are reset after their partition was deactivated, and never between an activation and a start.
    #[test]
    fn the_steps_are_those_of_the_contract() {
        let names = |kind| {
            steps_of(kind)
                .iter()
                .map(|step| step.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(Kind::Provision),
            [
                "verify_image",
                "prove_disk",
                "clone",
                "seed",
                "reserve_address",
                "define",
                "activate_partition",
                "start",
                "wait_address",
                "wait_login",
                "check_guest",
                "detach_seed"
            ]
        );
        assert_eq!(
            names(Kind::Release),
            [
                "stop",
                "deactivate_partition",
                "undefine",
                "remove_reservation",
                "wipe",
                "verify_wipe",
                "reset_devices"
            ]
        );
        assert_eq!(
            names(Kind::CleanUp),
            [
                "stop",
                "deactivate_partition",
                "undefine",
                "remove_reservation"
            ]
        );
        assert_eq!(
            names(Kind::RepairSlot),
            [
                "prove_disk",
                "deactivate_partition",
                "remove_reservation",
                "wipe",
                "verify_wipe",
                "rebind_devices",
                "reset_devices"
            ]
        );
        let stop = ["stop", "deactivate_partition"];
        assert_eq!(names(Kind::Stop), stop);
        let start = [
            "prove_disk",
            "define",
            "activate_partition",
            "start",
            "wait_login",
        ];
        assert_eq!(names(Kind::Start), start);
        assert_eq!(names(Kind::Reboot)[0], "find_partition");
        assert_eq!(names(Kind::Reboot)[1..3], stop);
        assert_eq!(names(Kind::Reboot)[3..], start);
        assert_eq!(
            names(Kind::Rescue),
            [
                "verify_image",
                "find_partition",
                "stop",
                "deactivate_partition",
                "prove_disk",
                "copy_image",
                "seed",
                "define",
                "activate_partition",
                "start",
                "wait_login",
                "detach_seed"
            ]
        );
    }

    /// What a disk is used for is the operator's to end: the only command that unmounts is the storage transition.
    #[test]
    fn d_35_no_operation_unmounts_anything() {
        let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut seen = 0;
        for folder in ["operation", "disk", "image", "vm", "lease", "guest", "host"] {
            for entry in std::fs::read_dir(source.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                // this very file names the words
                if path.is_dir() || path.ends_with("operation/mod.rs") {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                for word in ["umount", "nix::mount", "MNT_DETACH"] {
                    assert!(!text.contains(word), "{word}: {}", path.display());
                }
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen} files");
    }

    /// D-64
    #[test]
    fn inc_20_every_effect_of_a_provision_that_leaves_something_has_an_undo() {
        for step in steps_of(Kind::Provision) {
            let leaves = [
                "seed",
                "reserve_address",
                "define",
                "activate_partition",
                "start",
            ]
            .contains(&step.name);
            assert_eq!(step.undo.is_some(), leaves, "{}", step.name);
        }
    }
}
