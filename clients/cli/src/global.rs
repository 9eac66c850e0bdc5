//! The flags of every command.
use std::path::PathBuf;

use clap::Args;

use crate::formats::Format;

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the API, for example https://api.example.com.
    #[arg(long, env = "GPUAAS_API", value_name = "URL", global = true)]
    pub api: Option<String>,
    /// File with the token.
    #[arg(long, env = "GPUAAS_TOKEN_FILE", value_name = "FILE", global = true)]
    pub token_file: Option<PathBuf>,
    /// Profile with the API address and token files [default: ~/.config/gpuaas/profile.toml].
    #[arg(long, env = "GPUAAS_PROFILE_FILE", value_name = "FILE", global = true)]
    pub profile_file: Option<PathBuf>,
    /// Context of a sign-in [default: the one in use]; see gpuaas context.
    #[arg(long, env = "GPUAAS_CONTEXT", value_name = "NAME", global = true)]
    pub context: Option<String>,
    /// Output format [default: table].
    #[arg(long, value_enum, value_name = "FORMAT", global = true)]
    pub output: Option<Format>,
    /// Print no progress and no hints, and of the answer only ids or names unless --output says otherwise.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Idempotency key of this change, to repeat it safely from a script [default: a new key per command].
    #[arg(long, value_name = "KEY", global = true)]
    pub idempotency_key: Option<String>,
}

impl Global {
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
