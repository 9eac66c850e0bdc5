//! `token`: a development token for a registered principal.
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;

use super::flags::ConfigFlags;
use crate::auth::dev_issuer::DevIssuer;
use crate::{secret_file, store};

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

#[derive(Args, Debug)]
pub struct Flags {
    /// Name of the principal, for example user:demo.
    #[arg(long)]
    principal: String,
    /// File for the token, mode 0600; replaced when it exists.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Lifetime of the token in seconds.
    #[arg(long, default_value_t = DAY_SECONDS, value_parser = clap::value_parser!(i64).range(1..=365 * DAY_SECONDS))]
    seconds: i64,
}

pub(super) async fn run(config: &ConfigFlags, flags: &Flags) -> anyhow::Result<()> {
    let (_, issuer, pool) = config.development("gateway-token")?;
    let subject = store::subject_of(&pool, issuer.issuer(), &flags.principal)
        .await?
        .with_context(|| {
            format!(
                "no principal {} of the embedded issuer is registered",
                flags.principal
            )
        })?;
    let token = issuer.sign(&subject, Timestamp::now(), flags.seconds)?;
    secret_file::replace(&flags.out, &token)
        .with_context(|| format!("cannot write {}", flags.out.display()))
}

/// Keeps a token file that is good for another day, else writes a new token; answers whether it wrote.
pub(super) fn ensure(
    issuer: &DevIssuer,
    subject: &str,
    file: &Path,
    seconds: i64,
) -> anyhow::Result<bool> {
    let now = Timestamp::now();
    let kept = std::fs::read_to_string(file)
        .ok()
        .and_then(|token| issuer.remaining_seconds(token.trim(), subject, now));
    if kept.is_some_and(|left| left > DAY_SECONDS.min(seconds / 2)) {
        return Ok(false);
    }
    let token = issuer.sign(subject, now, seconds)?;
    secret_file::replace(file, &token)
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(true)
}
