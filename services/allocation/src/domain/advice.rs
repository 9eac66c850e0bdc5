//! What a failure means to a user: a sentence, and what to do next (C-05, C-06).

/// The texts for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What happened.
    pub message: String,
    /// What the user can do.
    pub advice: &'static str,
}

const TRY_AGAIN: &str = "Launch again on another slot. You are not billed for this attempt.";
const OTHER_IMAGE: &str = "The image may not support this machine: try another image. The slot is being held for \
    cleanup and you are not billed for this attempt.";
const OPERATOR: &str = "Launch again. The slot is blocked until an operator repairs it. You are not billed for this attempt.";

/// The texts for a reason (a name of `ErrorReason` without prefix). `boot_timeout_seconds` is the boot timeout of the
/// image, when it is known.
#[must_use]
pub fn explain(reason: &str, boot_timeout_seconds: Option<u32>) -> Advice {
    let given = boot_timeout_seconds.map_or("the time this image is given".into(), |s| {
        format!("{s} seconds")
    });
    let (message, advice) = match reason {
        "GUEST_NO_LOGIN" => {
            let message = format!("The VM started, but no login succeeded within {given}.");
            return Advice {
                message,
                advice: OTHER_IMAGE,
            };
        }
        "GUEST_NO_ADDRESS" => {
            let message =
                format!("The VM started, but it never took its network address within {given}.");
            return Advice {
                message,
                advice: OTHER_IMAGE,
            };
        }
        "GUEST_NOT_READY" => (
            "The VM started and let the platform log in, but it did not pass the readiness checks of its image.",
            OTHER_IMAGE,
        ),
        "HOST_KEY_MISMATCH" => (
            "At the VM's address nobody showed an SSH host key that is recorded for the VM.",
            "The image must take its SSH host keys from cloud-init: try another image, and contact the operator. You are \
             not billed for this attempt.",
        ),
        "IMAGE_PULL_FAILED" => (
            "The host could not fetch the image from the registry.",
            TRY_AGAIN,
        ),
        "IMAGE_DIGEST_MISMATCH" => (
            "The digest of the pulled image does not match the published one, so the VM was not started.",
            "Try another image, and contact the operator. You are not billed for this attempt.",
        ),
        "DISK_UNSAFE" => (
            "The disk of the slot is in use on the host, so nothing was written to it.",
            OPERATOR,
        ),
        "DEVICE_MISSING" => ("A device of the slot is missing on the host.", OPERATOR),
        "DEVICE_NOT_BOUND" => ("A device of the slot is not prepared for VMs.", OPERATOR),
        "DEVICE_RESET_FAILED" => ("A device of the slot could not be reset.", OPERATOR),
        "GPU_PARTITION_UNAVAILABLE" => (
            "The host could not set up or take down the connections of the VM's GPUs.",
            OPERATOR,
        ),
        "HUGEPAGES_MISSING" => (
            "The host has fewer free hugepages than the VM needs.",
            TRY_AGAIN,
        ),
        "HOST_NOT_READY" => ("The host was not ready to start a VM.", TRY_AGAIN),
        "HOST_UNREACHABLE" => ("The host did not answer.", TRY_AGAIN),
        "HOST_REPLACED" => (
            "The host was installed anew in the meantime, so nothing was done on it.",
            OPERATOR,
        ),
        "LEASE_HELD" | "FENCED" => (
            "The slot is in use by another operation on the host.",
            OPERATOR,
        ),
        "HYPERVISOR_FAILED" => (
            "The host could not start, stop or change the VM.",
            TRY_AGAIN,
        ),
        "WIPE_NOT_PROVEN" => (
            "The disk of the slot could not be verified empty.",
            OPERATOR,
        ),
        "HOST_CLOCK_SKEWED" => (
            "The clock of the host is wrong, so nothing that it signs can be verified. Nothing is wrong with the disk.",
            "Launch again on another slot. The operator sets the host's clock, and the slot is repaired. You are not billed \
             for this attempt.",
        ),
        "DEADLINE_EXCEEDED" => ("The VM was not ready in time.", TRY_AGAIN),
        _ => ("The launch failed.", TRY_AGAIN),
    };
    Advice {
        message: message.to_owned(),
        advice,
    }
}

/// The text for a step that runs, as a timeline shows it.
#[must_use]
pub fn step_sentence(step: &str) -> &'static str {
    match step {
        "verify_image" => "Fetching and verifying the image.",
        "prove_disk" => "Checking the disk.",
        "clone" => "Copying the image to the disk.",
        "seed" => "Writing the cloud-init configuration.",
        "reserve_address" => "Reserving the network address.",
        "define" => "Defining the VM.",
        "copy_image" => "Copying the rescue image.",
        "find_partition" => "Looking up the partition of the GPUs.",
        "activate_partition" => "Connecting the GPUs.",
        "start" => "Starting the VM.",
        "wait_address" => "Waiting for the VM's address.",
        "wait_login" => "Waiting for a login that works.",
        "check_guest" => "Running the readiness checks of the image in the VM.",
        "detach_seed" => "Removing the cloud-init configuration.",
        "stop" => "Stopping the VM.",
        "deactivate_partition" => "Separating the GPUs.",
        "undefine" => "Removing the VM.",
        "remove_reservation" => "Removing the network reservation.",
        "wipe" => "Wiping the disk.",
        "verify_wipe" => "Verifying that the disk is empty.",
        "reset_devices" => "Resetting the GPUs.",
        "acquire_lease" => "Requesting the slot from the host.",
        "report_image" => "Recording the verified image.",
        "activate" => "Activating the VM.",
        _ => "Working.",
    }
}

/// The text for a step that is done: in the past tense, so that nobody waits for it.
#[must_use]
pub fn done_sentence(step: &str) -> &'static str {
    match step {
        "verify_image" => "Fetched and verified the image.",
        "prove_disk" => "Checked the disk.",
        "clone" => "Copied the image to the disk.",
        "seed" => "Wrote the cloud-init configuration.",
        "reserve_address" => "Reserved the network address.",
        "define" => "Defined the VM.",
        "copy_image" => "Copied the rescue image.",
        "find_partition" => "Found the partition of the GPUs.",
        "activate_partition" => "Connected the GPUs.",
        "start" => "Started the VM.",
        "wait_address" => "The VM has its address.",
        "wait_login" => "A login works.",
        "check_guest" => "Checked that the VM is ready.",
        "detach_seed" => "Removed the cloud-init configuration.",
        "stop" => "Stopped the VM.",
        "deactivate_partition" => "Separated the GPUs.",
        "undefine" => "Removed the VM.",
        "remove_reservation" => "Removed the network reservation.",
        "wipe" => "Wiped the disk.",
        "verify_wipe" => "Verified that the disk is empty.",
        "reset_devices" => "Reset the GPUs.",
        "report_image" => "Recorded the verified image.",
        _ => "Done.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_is_done_does_not_read_as_one_that_runs() {
        for step in [
            "verify_image",
            "prove_disk",
            "clone",
            "seed",
            "reserve_address",
            "define",
            "copy_image",
            "find_partition",
            "activate_partition",
            "start",
            "wait_address",
            "wait_login",
            "check_guest",
            "detach_seed",
            "stop",
            "deactivate_partition",
            "undefine",
            "remove_reservation",
            "reset_devices",
            "wipe",
            "verify_wipe",
            "report_image",
        ] {
            let first = |text: &'static str| text.split(' ').next().unwrap_or_default();
            assert!(first(step_sentence(step)).ends_with("ing"), "{step}");
            assert!(!first(done_sentence(step)).ends_with("ing"), "{step}");
            assert_ne!(done_sentence(step), "Done.", "{step}");
        }
    }
    use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

    /// The host gives the reason also when it has no key of the VM to compare with: then no other key answered.
    #[test]
    fn p11_the_sentence_on_host_keys_is_true_where_none_was_recorded() {
        let message = explain("HOST_KEY_MISMATCH", None).message;
        assert!(!message.contains("another SSH host key"), "{message}");
        assert!(message.contains("nobody showed"), "{message}");
    }

    #[test]
    fn c_06_a_disk_that_the_host_uses_is_told_and_left_to_the_operator() {
        let words = explain("DISK_UNSAFE", None);
        assert!(
            words.message.contains("in use on the host"),
            "{}",
            words.message
        );
        assert!(
            words.message.contains("nothing was written"),
            "{}",
            words.message
        );
        assert!(words.advice.contains("operator"), "{}", words.advice);
    }

    #[test]
    fn c_05_every_host_reason_has_words_of_its_own() {
        let general = explain("", None);
        for reason in 90..=110 {
            let Ok(reason) = ErrorReason::try_from(reason) else {
                continue;
            };
            let name = reason.as_str_name().trim_start_matches("ERROR_REASON_");
            // these are about calls between our own parts, or about reading, and never end an allocation
            if matches!(
                name,
                "LEASE_REQUIRED"
                    | "LEASE_EXPIRED"
                    | "OPERATION_NOT_FOUND"
                    | "OPERATION_CONFLICT"
                    | "SERIAL_LOG_UNAVAILABLE"
                    | "METRICS_UNAVAILABLE"
            ) {
                continue;
            }
            let words = explain(name, Some(90));
            assert_ne!(words.message, general.message, "{name}");
            assert!(
                words.message.ends_with('.') && words.advice.ends_with('.'),
                "{name}"
            );
        }
    }
}
