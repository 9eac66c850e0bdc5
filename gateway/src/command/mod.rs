//! The subcommands beside serving: print the documents, seed the first rows, sign a development token.
mod bootstrap;
mod flags;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::flags::ConfigFlags;

/// The edge of GPUaaS: JSON over HTTP outside, gRPC inside. Without a subcommand it serves.
#[derive(Parser)]
#[command(name = "gpuaas-gateway", version)]
struct Cli {
    #[command(flatten)]
    flags: ConfigFlags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Print the OpenAPI document of the API.
    Openapi,
    /// Print the AsyncAPI document of what webhooks deliver.
    Asyncapi,
    /// Create organisation, project, an administrator and a user, and write their development tokens to files.
    /// Repeating it changes nothing.
    Bootstrap(bootstrap::Flags),
    /// Sign a development token for a registered principal and write it to a file.
    Token(token::Flags),
}

/// Runs the subcommand of the command line; `None` when the process is to serve.
pub fn run() -> Option<ExitCode> {
    let cli = Cli::parse();
    let command = cli.command?;
    let outcome = match command {
        Command::Openapi => print(crate::openapi_text()),
        Command::Asyncapi => print(crate::asyncapi_text()),
        Command::Bootstrap(flags) => block_on(bootstrap::run(&cli.flags, &flags)),
        Command::Token(flags) => block_on(token::run(&cli.flags, &flags)),
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpuaas-gateway: {error:#}");
            ExitCode::FAILURE
        }
    })
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn print(document: anyhow::Result<String>) -> anyhow::Result<()> {
    println!("{}", document?);
    Ok(())
}
