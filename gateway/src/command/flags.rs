//! The flags that all subcommands have.
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use gpuaas_common::config::{self, Settings};
use gpuaas_common::db;
use sqlx::PgPool;

use crate::Config;
use crate::auth::dev_issuer::DevIssuer;

/// The flags of the common configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigFlags {
    /// Configuration file in TOML; later files win.
    #[arg(long = "config", value_name = "FILE", global = true)]
    config: Vec<PathBuf>,
    /// One setting, as section.key=value; wins over files and environment.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE", global = true)]
    set: Vec<String>,
}

impl ConfigFlags {
    /// The settings that they lead to.
    pub fn load(&self) -> anyhow::Result<(Settings, Config)> {
        Ok(config::load_service("gateway", &self.config, &self.set)?)
    }

    /// What a command of a development cell works with: the settings, the embedded issuer, and the database under this name.
    pub fn development(&self, name: &str) -> anyhow::Result<(Settings, DevIssuer, PgPool)> {
        let (settings, own) = self.load()?;
        let issuer = own
            .embedded_issuer(&settings)?
            .context("section [gateway.dev_issuer] is missing")?;
        let database = settings
            .database
            .as_ref()
            .context("section [database] is missing")?;
        let pool = db::pool(name, database)?;
        Ok((settings, issuer, pool))
    }
}
