//! The same checks at the other end of an SSH connection, by the agent that is installed there.
use std::path::PathBuf;
use std::time::Duration;

use super::line::summary;
use super::line::{Line, Status, escape};
use crate::checks::SSH;
use crate::host::exec;

/// Longest run of all checks of a host.
const LIMIT: Duration = Duration::from_secs(180);

/// Runs them at the host.
pub async fn lines(host: &str, user: Option<&str>, config: &[PathBuf]) -> Vec<Line> {
    let arguments = arguments(host, user, config);
    let failed = |detail: String| vec![Line::new(Status::Fail, SSH.id, detail, SSH.remedy)];
    let output = match exec::run("ssh", &arguments, LIMIT).await {
        Ok(output) => output,
        Err(error) => return failed(error.to_string()),
    };
    match whole(&output.stdout) {
        Some(lines) => lines,
        None => {
            let said = output.stderr.trim().lines().last().unwrap_or("nothing");
            failed(format!("{host} did not run all checks: {said}"))
        }
    }
}

/// The lines of a run that came to its end.
fn whole(text: &str) -> Option<Vec<Line>> {
    let lines: Vec<Line> = text.lines().filter_map(Line::parse).collect();
    let last = text.lines().last()?;
    (last == summary(&lines)).then_some(lines)
}

fn arguments(host: &str, user: Option<&str>, config: &[PathBuf]) -> Vec<String> {
    let mut arguments = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
        .map(str::to_owned)
        .to_vec();
    if let Some(user) = user {
        arguments.extend(["-l".to_owned(), user.to_owned()]);
    }
    let config: String = config
        .iter()
        .map(|file| format!(" --config {}", escape(&file.to_string_lossy())))
        .collect();
    let command = format!("sudo -n gpuaas-node-agent{config} parity-check --local-only");
    arguments.extend(["--".to_owned(), host.to_owned(), command]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_02_i_03_the_host_and_its_user_are_no_options_of_ssh() {
        let given = arguments(
            "-oProxyCommand=x",
            Some("hpcadmin"),
            &["/etc/a b.toml".into()],
        );
        assert_eq!(
            given,
            [
                "-o",
                "BatchMode=yes",
                "-o",
                "ConnectTimeout=10",
                "-l",
                "hpcadmin",
                "--",
                "-oProxyCommand=x",
                r"sudo -n gpuaas-node-agent --config /etc/a\ b.toml parity-check --local-only",
            ]
        );
    }

    #[test]
    fn a_run_that_broke_off_is_no_result() {
        let lines = ["kvm", "nat"].map(|check| Line::new(Status::Pass, check, "good", ""));
        let [one, two] = lines.clone().map(|line| line.to_string());
        let end = summary(&lines);
        let read = whole(&format!("motd\n{one}\n{two}\n{end}\n"));
        assert_eq!(read.as_deref(), Some(&lines[..]));
        for text in [
            String::new(),
            format!("{one}\n{two}\n"),
            format!("{one}\n{end}\n"),
            format!("{one}\n{two}\n{}", &end[..end.len() - 1]),
        ] {
            assert_eq!(whole(&text), None, "{text}");
        }
    }

    #[tokio::test]
    async fn a_host_that_cannot_be_reached_fails_one_check() {
        let lines = lines("127.0.0.1:not-a-host", None, &[]).await;
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (lines[0].status, lines[0].check.as_str()),
            (Status::Fail, "ssh")
        );
    }
}
