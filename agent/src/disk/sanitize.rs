//! Sanitize of an NVMe subsystem: the controller does it by itself, also while no agent runs, and reports how far it is.
use std::path::Path;
use std::time::Duration;

use super::method::Erase;
use super::nvme::{self, SanitizeLog, SanitizeState};
use super::wipe_log::WipeLog;
use crate::error::{HostError, HostResult};
use crate::host::exec;

/// Between two looks at the log.
const POLL: Duration = Duration::from_secs(2);
/// The command returns when the sanitize has begun.
const BEGIN_LIMIT: Duration = Duration::from_secs(60);

/// What is to be done about a subsystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Begin,
    Wait,
    /// Nothing is left of what was on it.
    Done,
}

/// Decides. `counts`: a sanitize that has succeeded may be this wipe's own, begun before the agent died or seen to run; it
/// is when nothing was written since.
fn next(log: SanitizeLog, counts: bool) -> Next {
    match log.state {
        SanitizeState::Running => Next::Wait,
        SanitizeState::Completed if counts && log.global_erased => Next::Done,
        _ => Next::Begin,
    }
}

/// Sanitizes the subsystem of a namespace. `begun`: this wipe has noted that it begins one. One that runs is waited for and
/// never begun again, whoever began it.
///
/// # Errors
/// The controller refuses or fails it.
pub async fn sanitize(
    device: &Path,
    erase: Erase,
    begun: bool,
    log: &dyn WipeLog,
) -> HostResult<()> {
    let action = match erase {
        Erase::SanitizeCrypto => "--sanact=4",
        _ => "--sanact=2",
    };
    let mut first = nvme::sanitize_log(device).await?;
    let mut counts = begun;
    if first.state == SanitizeState::Running {
        first = wait(device, log).await?;
        counts = true;
    }
    if next(first, counts) == Next::Done {
        return Ok(());
    }
    let path = device.as_os_str();
    // after one that fails the controller may be told to take commands again
    let arguments = [
        "sanitize".as_ref(),
        path,
        action.as_ref(),
        "--ause".as_ref(),
    ];
    exec::run_bound("nvme", &arguments, BEGIN_LIMIT)
        .await?
        .success("nvme sanitize")
        .map_err(|error| HostError::wipe_not_proven(error.message))?;
    match wait(device, log).await?.state {
        SanitizeState::Completed => Ok(()),
        state => {
            let left = leave_failure(path).await;
            let left = left.map_or_else(|error| format!("; {}", error.message), |()| String::new());
            Err(HostError::wipe_not_proven(format!(
                "the controller ended the sanitize as {state:?}; see nvme sanitize-log{left}"
            )))
        }
    }
}

/// Until then a controller refuses to read and write.
async fn leave_failure(device: &std::ffi::OsStr) -> HostResult<()> {
    let arguments = ["sanitize".as_ref(), device, "--sanact=1".as_ref()];
    let done = exec::run_bound("nvme", &arguments, BEGIN_LIMIT).await?;
    done.success("nvme sanitize").map(drop)
}

/// Waits until no sanitize runs; the step's own limit ends it.
async fn wait(device: &Path, log: &dyn WipeLog) -> HostResult<SanitizeLog> {
    loop {
        let now = nvme::sanitize_log(device).await?;
        if next(now, true) != Next::Wait {
            return Ok(now);
        }
        log.progress(percent(now.progress), "the controller sanitizes the disk");
        tokio::time::sleep(POLL).await;
    }
}

fn percent(progress: u32) -> u32 {
    progress.min(0xffff) * 100 / 0x1_0000
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::wipe_log::Note;
    use super::*;
    use crate::host::recording::{self, Answer, Recording};

    #[test]
    fn p5_a_sanitize_is_never_begun_while_one_runs_nor_after_it_was_this_wipes() {
        use SanitizeState::{Completed, Failed, Never, Running};
        for (state, global_erased, counts, expected) in [
            (Never, false, false, Next::Begin),
            // new from the factory: nothing was written yet, says the log, and a sanitize was never made
            (Never, true, true, Next::Begin),
            (Running, false, false, Next::Wait),
            (Running, false, true, Next::Wait),
            // of an earlier tenant
            (Completed, true, false, Next::Begin),
            (Completed, false, false, Next::Begin),
            // the agent died after it had begun
            (Completed, true, true, Next::Done),
            // or before, and somebody has written since the last one
            (Completed, false, true, Next::Begin),
            (Failed, false, true, Next::Begin),
            (Failed, false, false, Next::Begin),
        ] {
            let log = SanitizeLog {
                state,
                progress: 0,
                global_erased,
            };
            assert_eq!(next(log, counts), expected, "{log:?} {counts}");
        }
        assert_eq!([0, 32768, 65535].map(percent), [0, 50, 99]);
    }

    struct Unnoted;

    impl WipeLog for Unnoted {
        fn noted(&self) -> Option<Note> {
            None
        }

        fn note(&self, _: Note) -> HostResult<()> {
            Ok(())
        }

        fn progress(&self, _: u32, _: &str) {}
    }

    /// Sanitizes on a recorded controller whose log says this, and that is told nothing.
    async fn on(status: &str, begun: bool) -> Result<(), String> {
        let log = format!(
            r#"{{"nvme0n1":{{"sprog":65535,"sstat":{{"global_erased":1,"status":"{status}"}},"cdw10_info":4}}}}"#
        );
        let device = "/dev/nvme0n1";
        let answer = (
            format!("nvme sanitize-log {device} --output-format=json"),
            Answer::text(log),
        );
        let recording = Arc::new(Recording {
            answers: BTreeMap::from([answer]),
            ..Recording::default()
        });
        let sanitized = sanitize(Path::new(device), Erase::SanitizeCrypto, begun, &Unnoted);
        let done = recording::replay(recording, sanitized).await;
        done.map_err(|error| error.message)
    }

    #[tokio::test]
    async fn p5_a_controller_is_told_to_sanitize_unless_this_wipe_has_done_it() {
        let completed = "(1) Most Recent Sanitize Command Completed Successfully.";
        let failed = "(3) Most Recent Sanitize Command Failed.";
        let told = Err("nvme is not run on a recorded host".to_owned());
        assert_eq!(on(completed, true).await, Ok(()));
        assert_eq!(on(completed, false).await, told);
        assert_eq!(on(failed, true).await, told);
    }
}
