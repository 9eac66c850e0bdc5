//! A shell on the host itself, as the UNIX user of a bare-metal allocation (F-04).
use std::ffi::OsString;

use bytes::Bytes;
use nix::unistd::{Uid, User};
use pty_process::{Command, OwnedReadPty, OwnedWritePty};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Child;
use tokio::sync::mpsc;

use super::shell::{CHUNK, Ends, Shell, ShellMessage, Size};
use crate::image::seed::GuestUser;

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// No such user.
    #[error("this host has no UNIX user {0}")]
    UnknownUser(String),
    /// No terminal or no process.
    #[error("cannot start a shell: {0}")]
    Start(#[from] pty_process::Error),
}

/// Starts the login shell of a UNIX user.
///
/// # Errors
/// [`LocalError`].
pub fn log_in(user: &GuestUser, term: &str, size: Size) -> Result<Shell, LocalError> {
    let unknown = || LocalError::UnknownUser(user.as_str().to_owned());
    let account = User::from_name(user.as_str())
        .ok()
        .flatten()
        .ok_or_else(unknown)?;
    start(&login_command(&account, Uid::effective()), term, size)
}

/// The command that gives `account` a login shell of its own: its groups, its environment, its limits.
fn login_command(account: &User, agent: Uid) -> Vec<OsString> {
    if account.uid == agent {
        return vec![account.shell.clone().into_os_string(), "-l".into()];
    }
    vec![
        "/bin/su".into(),
        "--login".into(),
        "--".into(),
        account.name.clone().into(),
    ]
}

/// Runs a command in a terminal of its own.
fn start(command: &[OsString], term: &str, size: Size) -> Result<Shell, LocalError> {
    let (pty, pts) = pty_process::open()?;
    pty.resize(pty_size(size))?;
    let child = Command::new(&command[0])
        .args(&command[1..])
        // nothing of the agent's own environment concerns a tenant
        .env_clear()
        .env("TERM", term)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .kill_on_drop(true)
        .spawn(pts)?;
    let (from_shell, to_shell) = pty.into_split();
    Ok(Shell::spawn(size, move |ends| {
        run(child, from_shell, to_shell, ends)
    }))
}

fn pty_size(size: Size) -> pty_process::Size {
    pty_process::Size::new(size.rows, size.cols)
}

async fn run(mut child: Child, from_shell: OwnedReadPty, mut to_shell: OwnedWritePty, ends: Ends) {
    let Ends {
        messages,
        mut input,
        taken,
        mut size,
    } = ends;
    let writing = async {
        let mut rest = Bytes::new();
        loop {
            tokio::select! {
                // a size that was set before keys were typed is the size they are read at
                biased;
                changed = size.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let now = *size.borrow_and_update();
                    // a terminal that is gone has no size
                    let _ = to_shell.resize(pty_size(now));
                }
                data = input.recv(), if rest.is_empty() => match data {
                    Some(data) => rest = data,
                    None => break,
                },
                written = to_shell.write(&rest), if !rest.is_empty() => match written {
                    Ok(length) => {
                        drop(rest.split_to(length));
                        taken.send_modify(|taken| *taken += length as u64);
                    }
                    Err(_) => break,
                },
            }
        }
        // output may still come
        std::future::pending::<()>().await;
    };
    let reading = async {
        if !read(from_shell, &messages).await {
            return;
        }
        let status = child.wait().await.ok().and_then(|status| status.code());
        // nothing waits for it when the caller went first
        let _ = messages
            .send(ShellMessage::Exit(
                status.and_then(|code| u32::try_from(code).ok()),
            ))
            .await;
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

/// Passes output on until the terminal is closed by its last process; false when the receiver is gone.
async fn read(mut from_shell: OwnedReadPty, messages: &mpsc::Sender<ShellMessage>) -> bool {
    let mut buffer = vec![0_u8; CHUNK];
    loop {
        match from_shell.read(&mut buffer).await {
            // the kernel returns EIO when the terminal has no open descriptor any more
            Ok(0) | Err(_) => return true,
            Ok(length) => {
                let data = Bytes::copy_from_slice(&buffer[..length]);
                if messages.send(ShellMessage::Output(data)).await.is_err() {
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SIZE: Size = Size { cols: 80, rows: 24 };

    /// All output of the shell until `stop` holds; panics after ten seconds.
    async fn listen(
        shell: &mut Shell,
        stop: impl Fn(&str) -> bool,
    ) -> (String, Option<ShellMessage>) {
        let mut text = String::new();
        let heard = tokio::time::timeout(Duration::from_secs(10), async {
            while !stop(&text) {
                match shell.messages.recv().await {
                    Some(ShellMessage::Output(data)) => {
                        text.push_str(&String::from_utf8_lossy(&data));
                    }
                    other => return other,
                }
            }
            None
        });
        let ended = heard.await;
        (
            text.clone(),
            ended.unwrap_or_else(|_| panic!("heard only {text:?}")),
        )
    }

    fn account(name: &str, uid: u32) -> User {
        let mut account = User::from_uid(Uid::from_raw(0))
            .expect("readable")
            .expect("root");
        account.name = name.to_owned();
        account.uid = Uid::from_raw(uid);
        account.shell = "/bin/bash".into();
        account
    }

    #[test]
    fn f_04_a_login_shell_is_taken_with_the_users_own_rights() {
        let user = account("u_adda9308def04a2f", 1007);
        assert_eq!(
            login_command(&user, Uid::from_raw(0)),
            ["/bin/su", "--login", "--", "u_adda9308def04a2f"]
        );
        assert_eq!(
            login_command(&user, Uid::from_raw(1007)),
            ["/bin/bash", "-l"]
        );
    }

    #[tokio::test]
    async fn f_04_an_ordinary_user_gets_a_terminal_of_its_own() {
        // the first ordinary account of this machine; without one, whoever runs the test
        let ordinary = std::fs::read_to_string("/etc/passwd").expect("readable");
        let ordinary = ordinary.lines().find_map(|line| {
            let field: Vec<&str> = line.split(':').collect();
            let uid: u32 = field[2].parse().ok()?;
            ((100..60_000).contains(&uid) && field[6] == "/bin/bash").then(|| field[0].to_owned())
        });
        let account = match ordinary.filter(|_| Uid::effective().is_root()) {
            Some(name) => User::from_name(&name),
            None => User::from_uid(Uid::effective()),
        };
        let account = account.expect("readable").expect("an account");
        let mut shell =
            start(&login_command(&account, Uid::effective()), "vt100", SIZE).expect("a shell");
        shell
            .input
            .send("echo as-$(id -un)-$TERM; tty; stty size\n".into())
            .await
            .expect("takes input");
        let said = format!("as-{}-vt100", account.name);
        let (text, _) = listen(&mut shell, |text| {
            text.contains(&said) && text.contains("/dev/pts/") && text.contains("24 80")
        })
        .await;
        assert!(!text.contains("not a tty"), "{text}");

        shell.size.send_replace(Size {
            cols: 133,
            rows: 44,
        });
        shell
            .input
            .send("stty size; exit 7\n".into())
            .await
            .expect("takes input");
        let (text, end) = listen(&mut shell, |_| false).await;
        assert!(text.contains("44 133"), "{text}");
        assert_eq!(end, Some(ShellMessage::Exit(Some(7))));
    }

    #[tokio::test]
    async fn a_shell_nobody_listens_to_stops_and_ends_with_its_owner() {
        let command = ["/bin/sh", "-c", "while :; do echo yes; done"].map(OsString::from);
        let mut shell = start(&command, "vt100", SIZE).expect("a shell");
        assert!(matches!(
            shell.messages.recv().await,
            Some(ShellMessage::Output(_))
        ));
        let task = shell.task_for_test();
        drop(shell);
        tokio::time::timeout(Duration::from_secs(10), async {
            while !task.is_finished() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .expect("ends");
    }

    #[test]
    fn an_unknown_user_is_named() {
        let user: GuestUser = "u_0000000000000000".parse().expect("a name");
        let error = log_in(&user, "vt100", SIZE).err().expect("refused");
        assert!(error.to_string().contains("u_0000000000000000"));
    }
}
