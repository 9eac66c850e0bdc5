//! The flags of every command.
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::formats::Format;

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the API, for example https://api.example.com.
    #[arg(
        long,
        env = "GPUAAS_API",
        hide_env_values = true,
        value_name = "URL",
        global = true
    )]
    pub api: Option<String>,
    /// File with the token.
    #[arg(
        long,
        env = "GPUAAS_TOKEN_FILE",
        hide_env_values = true,
        value_name = "FILE",
        global = true
    )]
    pub token_file: Option<PathBuf>,
    /// Profile with the API address and token files [default: ~/.config/gpuaas/profile.toml].
    #[arg(
        long,
        env = "GPUAAS_PROFILE_FILE",
        hide_env_values = true,
        value_name = "FILE",
        global = true
    )]
    pub profile_file: Option<PathBuf>,
    /// Context of a sign-in [default: the one in use]; see gpuaas context.
    #[arg(
        long,
        env = "GPUAAS_CONTEXT",
        hide_env_values = true,
        value_name = "NAME",
        global = true
    )]
    pub context: Option<String>,
    /// Output format [default: table].
    #[arg(long, value_enum, value_name = "FORMAT", global = true)]
    pub output: Option<Format>,
    /// Print no progress and no hints; print only ids or names, unless --output is given.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Idempotency key of this change, to repeat it safely from a script [default: a new key per command].
    #[arg(long, value_name = "KEY", global = true)]
    pub idempotency_key: Option<String>,
}

impl Global {
    /// The flags that say where the API is and who calls it, as variables for a program that calls this one again. They name
    /// files and contexts, and are no secrets.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let file = |file: &Option<PathBuf>| file.clone().map(PathBuf::into_os_string);
        let text = |text: &Option<String>| text.clone().map(OsString::from);
        [
            ("GPUAAS_API", text(&self.api)),
            ("GPUAAS_TOKEN_FILE", file(&self.token_file)),
            ("GPUAAS_PROFILE_FILE", file(&self.profile_file)),
            ("GPUAAS_CONTEXT", text(&self.context)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The output format.
    pub fn format(&self) -> Format {
        let fallback = if self.quiet {
            Format::Name
        } else {
            Format::Table
        };
        self.output.unwrap_or(fallback)
    }
}
