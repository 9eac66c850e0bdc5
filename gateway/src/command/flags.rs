//! The flags that all subcommands have.
use std::path::PathBuf;

use clap::Args;
use gpuaas_common::config::{self, Settings};

use crate::Config;

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
}
