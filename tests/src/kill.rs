//! Killing a process exactly at a step, and being sure that it was there.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::until::until;

/// A kill that is armed: the process kills itself at the step and leaves proof.
pub struct Kill {
    order: PathBuf,
    proof: PathBuf,
    text: String,
}

impl Kill {
    /// Orders a process that watches `order` to kill itself at `text` ("provision.activate:before"); it leaves
    /// the same text in `proof`.
    ///
    /// # Panics
    /// When the order cannot be written.
    pub fn arm(order: &Path, proof: &Path, text: &str) -> Self {
        let _ = std::fs::remove_file(proof);
        let draft = order.with_extension("draft");
        std::fs::write(&draft, text).expect("write the order");
        std::fs::rename(&draft, order).expect("place the order");
        Self {
            order: order.to_owned(),
            proof: proof.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Waits until the process was killed at that very step.
    ///
    /// # Panics
    /// When it never was, or somewhere else.
    pub async fn hit(self, deadline: Duration) {
        let found = until(
            &format!("the kill at {}", self.text),
            deadline,
            async || {
                std::fs::read_to_string(&self.proof)
                    .ok()
                    .filter(|text| !text.is_empty())
            },
        )
        .await;
        assert_eq!(found.trim(), self.text, "killed at another step");
        let _ = std::fs::remove_file(&self.proof);
    }
}

impl Drop for Kill {
    fn drop(&mut self) {
        // an order that was not carried out must not hit the next test
        let _ = std::fs::remove_file(&self.order);
    }
}

/// Every process that this one has started, directly or not, whatever its session.
pub fn tree() -> Vec<i32> {
    let mut processes: Vec<(i32, i32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_string_lossy().parse().ok();
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // the name before it may hold anything
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let parent = after_name.split_whitespace().nth(1);
        let parent = parent.and_then(|parent| parent.parse().ok());
        processes.extend(pid.zip(parent));
    }
    let mut found = vec![std::process::id().cast_signed()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = processes.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Longest wait for processes to stop: one that waits for a disk stops when the disk answers.
const STOPS: Duration = Duration::from_secs(10);

/// Whether no thread of a process runs any more: each has stopped or ended.
fn has_stopped(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat
            .rsplit(')')
            .next()
            .and_then(|rest| rest.trim_start().chars().next());
        state.is_none_or(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
    })
}

/// Kills every process that this one has started, directly or not, and that is still of its session. Parts of a stack,
/// which are meant to stay, have sessions of their own.
pub fn descendants() {
    let session = |pid: Option<Pid>| nix::unistd::getsid(pid);
    let own = session(None);
    let send = |pid, signal| {
        let _gone_is_fine = nix::sys::signal::kill(pid, signal);
    };
    // what is stopped starts nothing more, and stays the parent of what it has just started
    let mut stopped = BTreeSet::new();
    loop {
        let found = tree().into_iter().map(Pid::from_raw);
        let found = found.filter(|pid| !stopped.contains(pid) && session(Some(*pid)) == own);
        let found: Vec<Pid> = found.collect();
        if found.is_empty() {
            break;
        }
        for pid in &found {
            send(*pid, Signal::SIGSTOP);
        }
        // one that was about to fork makes its child first: the next look must come after that
        let asked = Instant::now();
        while !found.iter().all(|pid| has_stopped(*pid)) && asked.elapsed() < STOPS {
            std::thread::sleep(Duration::from_millis(1));
        }
        stopped.extend(found);
    }
    for pid in stopped {
        send(pid, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn what_a_shell_has_started_ends_with_it() {
        let mut shell = Command::new("bash")
            .args(["-c", "sleep 300 & wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let mut output = shell.stdout.take().expect("its output");
        super::descendants();
        assert!(!shell.wait().expect("ended").success());
        // it ends when nobody has it any more
        let mut rest = String::new();
        output.read_to_string(&mut rest).expect("an end");
    }
}
