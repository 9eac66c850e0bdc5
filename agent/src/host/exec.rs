//! External programs, always as argument vectors, never through a shell.
//!
//! A program that changes a disk must not outlive the agent: a clone that goes on after its agent died would
//! write below the next one. Such programs are started through `setpriv --pdeathsig KILL`, from the thread of [`forker`].
use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::output::Output;
use super::{forker, recording};
use crate::error::{HostError, HostResult};

/// Longest wait for a program that only looks at something.
pub const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Most bytes captured of each output stream.
const MAX_OUTPUT: u64 = 1 << 20;

/// A command that dies with its handle.
pub fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env("LC_ALL", "C").kill_on_drop(true);
    command
}

/// Starts a program that dies with its handle and with the agent.
///
/// # Errors
/// It cannot be started.
pub async fn spawn_bound<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> HostResult<Child> {
    let mut command = bound_command(program, arguments);
    let child = forker::run(move || command.spawn()).await;
    child.map_err(|error| cannot_run(program, &error))
}

fn bound_command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut all: Vec<&OsStr> = vec![
        "--pdeathsig".as_ref(),
        "KILL".as_ref(),
        "--".as_ref(),
        program.as_ref(),
    ];
    all.extend(arguments.iter().map(AsRef::as_ref));
    command("setpriv", &all)
}

/// Runs a program to its end within `limit`.
pub async fn run<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    limit: Duration,
) -> HostResult<Output> {
    let live = finish(program, command(program, arguments), "", limit);
    recording::answer(program, arguments, live).await
}

/// Runs a program that changes the host, with variables of its own. A recorded host is never changed.
pub async fn run_with(
    program: &str,
    arguments: &[String],
    environment: &[(String, String)],
    limit: Duration,
) -> HostResult<Output> {
    if recording::is_replay() {
        return Err(HostError::internal(format!(
            "{program} is not run on a recorded host"
        )));
    }
    let mut command = command(program, arguments);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    finish(program, command, "", limit).await
}

/// The same for a program that reads its orders from its standard input.
pub async fn run_with_input<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    input: &str,
    limit: Duration,
) -> HostResult<Output> {
    let mut command = command(program, arguments);
    command.stdin(Stdio::piped());
    let live = finish(program, command, input, limit);
    recording::answer(program, arguments, live).await
}

/// Runs a program that changes a disk to its end within `limit`. A recorded host has no disk.
pub async fn run_bound<S: AsRef<OsStr>>(
    program: &str,
    arguments: &[S],
    limit: Duration,
) -> HostResult<Output> {
    if recording::is_replay() {
        return Err(HostError::internal(format!(
            "{program} is not run on a recorded host"
        )));
    }
    let child = spawn_bound(program, arguments).await?;
    await_end(program, child, "", limit).await
}

/// The same for a program of somebody else's, without arguments: it sees these variables and no others, and what it has
/// started ends with it, since that may write to the disk as well.
pub async fn run_bound_alone(
    program: &str,
    environment: &[(&str, String)],
    limit: Duration,
) -> HostResult<Output> {
    if recording::is_replay() {
        return Err(HostError::internal(format!(
            "{program} is not run on a recorded host"
        )));
    }
    let mut command = bound_command(program, &[] as &[&str]);
    command.env_clear();
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.process_group(0);
    let spawned = forker::run(move || {
        let child = command.spawn()?;
        let group = ProcessGroup(child.id());
        Ok((child, group))
    });
    let (child, _group) = spawned.await.map_err(|error| cannot_run(program, &error))?;
    await_end(program, child, "", limit).await
}

/// Ends what is left of a process group when it is dropped.
struct ProcessGroup(Option<u32>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let leader = self.0.and_then(|id| i32::try_from(id).ok());
        if let Some(leader) = leader {
            let group = nix::unistd::Pid::from_raw(leader);
            // none is left, as a rule
            let _nobody = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

fn cannot_run(program: &str, error: &std::io::Error) -> HostError {
    HostError::host(
        ErrorReason::HostNotReady,
        format!("cannot run {program}: {error}"),
    )
}

async fn finish(
    program: &str,
    mut command: Command,
    input: &str,
    limit: Duration,
) -> HostResult<Output> {
    let child = command.spawn();
    let child = child.map_err(|error| cannot_run(program, &error))?;
    await_end(program, child, input, limit).await
}

async fn await_end(
    program: &str,
    mut child: Child,
    input: &str,
    limit: Duration,
) -> HostResult<Output> {
    let stdin = child.stdin.take();
    let stdout = child.stdout.take();
    let stderr = child.stderr.take();
    let feed = async {
        if let Some(mut stdin) = stdin {
            // what a program did not read is seen by what it answers
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let work = async {
        let ((), out, err) = tokio::join!(feed, drain(stdout), drain(stderr));
        let status = child.wait().await;
        let status = status.map_err(|error| cannot_run(program, &error))?;
        Ok(Output {
            status: status.code().unwrap_or(-1),
            stdout: out,
            stderr: err,
        })
    };
    tokio::time::timeout(limit, work).await.map_err(|_| {
        HostError::host(
            ErrorReason::DeadlineExceeded,
            format!("{program} did not end within {} s", limit.as_secs()),
        )
    })?
}

/// Reads a stream to its end, capturing the first [`MAX_OUTPUT`] bytes.
pub async fn drain(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let mut kept = Vec::new();
    // A program that was ended closes its pipes; what it wrote until then is what there is.
    let _ = (&mut stream).take(MAX_OUTPUT).read_to_end(&mut kept).await;
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use gpuaas_dev::until::until;

    use super::*;

    #[tokio::test]
    async fn arguments_are_never_a_shell_line() {
        let output = run("printf", &["%s", "$(id); `id` > x"], Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(output.stdout, "$(id); `id` > x");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_ended() {
        let error = run("sleep", &["60"], Duration::from_millis(50))
            .await
            .unwrap_err();
        assert_eq!(error.reason, ErrorReason::DeadlineExceeded);
    }

    #[tokio::test]
    async fn what_a_program_of_the_sites_has_started_ends_with_it() {
        use std::io::Read as _;
        let dir = tempfile::tempdir().unwrap();
        let (program, pipe) = (dir.path().join("erase"), dir.path().join("pipe"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // its child has the pipe open for as long as it lives
        let script = format!(
            "#!/bin/sh\n(echo; exec sleep 600) > {} &\nwait\n",
            pipe.display()
        );
        std::fs::write(&program, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&program, mode).unwrap();
        let running = tokio::spawn(async move {
            let environment = [("PATH", "/usr/bin:/bin".to_owned())];
            run_bound_alone(&program.to_string_lossy(), &environment, PROBE_LIMIT * 60).await
        });
        let mut file = tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::open(pipe).unwrap();
            file.read_exact(&mut [0]).unwrap();
            file
        })
        .await
        .unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        let rest = tokio::task::spawn_blocking(move || file.read(&mut [0]));
        let rest = tokio::time::timeout(PROBE_LIMIT * 6, rest).await;
        let rest = rest.expect("the end of the child is the end of the pipe");
        assert_eq!(rest.unwrap().unwrap(), 0);
    }

    /// The thread of a pool that has nothing to do ends, also while a program runs that was asked for on it.
    #[test]
    fn p5_a_bound_program_goes_on_when_the_thread_that_asked_for_it_ends() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (handle, at) = (runtime.handle().clone(), pipe.clone());
        let asking = std::thread::spawn(move || {
            let thread = nix::unistd::gettid();
            let child = handle.block_on(async {
                let child = spawn_bound("cat", &[at]).await.unwrap();
                let comm = format!("/proc/{}/comm", child.id().unwrap());
                until("the program to run", PROBE_LIMIT, async || {
                    let name = std::fs::read_to_string(&comm).ok()?;
                    (name.trim() == "cat").then_some(())
                })
                .await;
                child
            });
            (thread, child)
        });
        let (thread, child) = asking.join().unwrap();
        let output = runtime.block_on(async {
            let task = format!("/proc/self/task/{thread}");
            until("the end of the thread", PROBE_LIMIT, async || {
                (!std::path::Path::new(&task).exists()).then_some(())
            })
            .await;
            // what opens a pipe for both waits for nobody
            let both = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(pipe);
            std::io::Write::write_all(&mut both.unwrap(), b"on").unwrap();
            child.wait_with_output().await.unwrap()
        });
        assert!(output.status.success(), "{}", output.status);
        assert_eq!(output.stdout, b"on");
    }

    #[tokio::test]
    async fn a_bound_program_runs() {
        let output = run_bound("true", &[] as &[&str], Duration::from_secs(5))
            .await
            .unwrap();
        assert_eq!(output.status, 0);
    }
}
