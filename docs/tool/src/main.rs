//! Generates and checks the documentation. `gpuaas-docs --help` lists the commands.
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use gpuaas_docs::{links, page, reference, traceability};

/// Generates and checks the documentation.
#[derive(Parser)]
#[command(name = "gpuaas-docs", version)]
struct Cli {
    /// Root of the repository.
    #[arg(long, default_value = ".", global = true)]
    root: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes docs/traceability.md: which test and which code stands behind each requirement.
    Traceability(Check),
    /// Writes the pages that are generated from the sources: settings, workflows, checks of hosts.
    Reference(Check),
    /// Checks relative links and anchors of all pages, the files, tests and make targets they name, and that every
    /// page is in the summary. Writes nothing.
    Links(Check),
}

#[derive(Args)]
struct Check {
    /// Write nothing; fail when something would change.
    #[arg(long)]
    check: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let root = cli
        .root
        .canonicalize()
        .with_context(|| format!("no folder {}", cli.root.display()))?;
    match cli.command {
        Command::Traceability(Check { check }) => {
            let (page, summary) = traceability::page(&root)?;
            print!("{summary}");
            finish(&root, &[page], check)
        }
        Command::Reference(Check { check }) => finish(&root, &reference::pages(&root)?, check),
        Command::Links(_) => {
            let broken = links::broken(&root)?;
            for link in &broken {
                eprintln!("{link}");
            }
            Ok(exit(broken.is_empty()))
        }
    }
}

/// Writes the pages, or says which are stale and how to bring them up to date.
fn finish(root: &std::path::Path, pages: &[page::Page], check: bool) -> anyhow::Result<ExitCode> {
    if !check {
        for path in page::write(root, pages)? {
            println!("wrote {path}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let stale = page::stale(root, pages)?;
    for path in &stale {
        eprintln!("{path} is stale; run `make docs` and commit the result");
    }
    Ok(exit(stale.is_empty()))
}

fn exit(fine: bool) -> ExitCode {
    if fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
