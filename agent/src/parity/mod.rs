//! Whether a host is what a slice host must be, for operators and their programs: after every deployment or reimage,
//! before its capacity is trusted (I-01..I-23). It shows the agent's own readiness evidence, so the two cannot
//! disagree, and what only the platform or systemd can tell.
mod api;
pub(crate) mod line;
mod local;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use gpuaas_common::config::Settings as CommonSettings;
use uuid::Uuid;

use self::api::Api;
use self::line::{Line, Status, failures, summary};
use crate::checks::{self, HostKind, Severity};
use crate::settings::Settings;

/// Flags of `parity-check`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// Check this host by SSH instead of the one this program runs on.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The SSH user, who may run the agent by `sudo -n`.
    #[arg(long, value_name = "USER", requires = "host")]
    user: Option<String>,
    /// The platform's API, for example https://api.gpuaas.localhost.
    #[arg(long, value_name = "URL", requires_all = ["api_token_file", "node_id"])]
    api_base: Option<String>,
    /// File with the token of a platform administrator.
    #[arg(long, value_name = "FILE", requires = "api_base")]
    api_token_file: Option<PathBuf>,
    /// CA of the API's certificate, where this machine does not trust it already.
    #[arg(long, value_name = "FILE", requires = "api_base")]
    api_ca_file: Option<PathBuf>,
    /// The node's id at the platform.
    #[arg(long, value_name = "ID", requires = "api_base")]
    node_id: Option<Uuid>,
    /// Only the checks of this host: what `--host` runs at the other end.
    #[arg(long, hide = true, conflicts_with_all = ["host", "api_base"])]
    local_only: bool,
}

impl Flags {
    /// Runs the checks and prints a line for each. `config` is what the other end is given too; `load` reads the settings
    /// of this host.
    ///
    /// # Errors
    /// A file or setting that is given cannot be used. A check that fails is no error, but makes the status 1.
    pub async fn run(
        &self,
        config: &[PathBuf],
        load: impl FnOnce() -> anyhow::Result<(CommonSettings, Settings)>,
    ) -> anyhow::Result<ExitCode> {
        let api = match (&self.api_base, &self.api_token_file, self.node_id) {
            (Some(base), Some(token), Some(node)) => {
                Some(Api::new(base, token, self.api_ca_file.as_ref(), node)?)
            }
            _ => None,
        };
        let mut lines = match &self.host {
            Some(host) => remote::lines(host, self.user.as_deref(), config).await,
            None => {
                let (common, own) = load()?;
                local::lines(&common, own).await?
            }
        };
        if !self.local_only {
            match &api {
                Some(api) => {
                    if api.is_bare_metal().await {
                        lines.iter_mut().for_each(allow_for_bare_metal);
                    }
                    lines.push(api.topology().await);
                }
                None => lines.push(api::local_checks_only()),
            }
        }
        print!("{}", text(&lines));
        Ok(ExitCode::from(code(&lines)))
    }
}

/// All that is printed: a line for each condition, and the summary (I-08, I-21).
fn text(lines: &[Line]) -> String {
    let mut text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    text.push_str(&summary(lines));
    text.push('\n');
    text
}

/// The exit status: 1 when a condition failed (I-22, I-23).
fn code(lines: &[Line]) -> u8 {
    u8::from(failures(lines) > 0)
}

/// A host that is meant for bare metal needs no slice services (INC-07). What the registry makes no hard check of such a
/// host is no failure of it, whatever the host took itself for.
fn allow_for_bare_metal(line: &mut Line) {
    let check = checks::find(&line.check);
    let severity = check.and_then(|check| check.severity(HostKind::BareMetal));
    // a check that this program does not know is of a newer one
    let stays = check.is_none() || severity == Some(Severity::Hard);
    if line.status == Status::Fail && !stays {
        line.status = Status::Warn;
        line.detail = format!("the node is for bare metal: {}", line.detail);
    }
}

#[cfg(test)]
mod tests;
