//! `bootstrap`: the first rows of a development cell and the tokens to use it with.
use std::path::PathBuf;

use clap::Args;
use gpuaas_common::id::IdGen;

use super::flags::ConfigFlags;
use super::token::{DAY_SECONDS, ensure};
use crate::store::{NewPrincipal, own_organisation, seed};

#[derive(Args, Debug)]
pub struct Flags {
    /// Slug of the organisation.
    #[arg(long, default_value = "lab")]
    organisation: String,
    /// Slug of the project.
    #[arg(long, default_value = "demo")]
    project: String,
    /// File for the administrator's token, mode 0600.
    #[arg(long, value_name = "FILE")]
    admin_token_file: PathBuf,
    /// File for the user's token, mode 0600.
    #[arg(long, value_name = "FILE")]
    user_token_file: PathBuf,
    /// Lifetime of a new token in days.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(i64).range(1..=365))]
    token_days: i64,
}

const ADMIN: NewPrincipal<'static> = NewPrincipal {
    name: "user:admin",
    subject: "admin",
    admin: true,
};
const USER: NewPrincipal<'static> = NewPrincipal {
    name: "user:demo",
    subject: "demo",
    admin: false,
};

pub(super) async fn run(config: &ConfigFlags, flags: &Flags) -> anyhow::Result<()> {
    let (settings, issuer, pool) = config.development("gateway-bootstrap")?;
    let ids = IdGen::new(settings.cell);
    let seeded = seed(
        &pool,
        &ids,
        issuer.issuer(),
        &flags.organisation,
        &flags.project,
        &[ADMIN, USER],
    )
    .await?;
    let owned = own_organisation(&pool, seeded.organisation_id, USER.name).await?;
    let seconds = flags.token_days * DAY_SECONDS;
    let mut tokens = 0;
    for (principal, file) in [
        (ADMIN, &flags.admin_token_file),
        (USER, &flags.user_token_file),
    ] {
        tokens += u32::from(ensure(&issuer, principal.subject, file, seconds)?);
    }
    // ids only: a token is never printed
    let summary = serde_json::json!({
        "organisation_id": seeded.organisation_id,
        "project_id": seeded.project_id,
        "rows_created": seeded.created + owned,
        "tokens_written": tokens,
    });
    println!("{summary}");
    Ok(())
}
