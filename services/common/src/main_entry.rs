//! The thin `main` of every service: flags, configuration, telemetry, signals.
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::{config, telemetry};

#[derive(Parser)]
#[command(version)]
struct Flags {
    /// Configuration file in TOML; later files win.
    #[arg(long = "config", value_name = "FILE")]
    config: Vec<PathBuf>,
    /// One setting, as section.key=value; wins over files and environment.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

/// Runs a service until SIGTERM or SIGINT. The service's own settings are the section named after it.
pub fn run_main<C, F, R>(service: &'static str, run: F) -> ExitCode
where
    C: DeserializeOwned + Default,
    F: FnOnce(Context, C, CancellationToken) -> R,
    R: Future<Output = anyhow::Result<()>>,
{
    let flags = Flags::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{service}: cannot start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(async {
        let (settings, own) = config::load_service::<C>(service, &flags.config, &flags.set)?;
        let _telemetry = telemetry::install(service, &settings.telemetry)?;
        let shutdown = CancellationToken::new();
        stop_on_signal(shutdown.clone())?;
        tracing::info!(service, version = env!("CARGO_PKG_VERSION"), "start");
        let context = Context::new(service, settings)?;
        let outcome = run(context, own, shutdown).await;
        match &outcome {
            Ok(()) => tracing::info!(service, "stop"),
            Err(error) => tracing::error!(service, "stop with an error: {error:#}"),
        }
        outcome
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{service}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Cancels the token at the first SIGTERM or SIGINT.
///
/// # Errors
/// Signals cannot be handled in this process.
pub fn stop_on_signal(shutdown: CancellationToken) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        shutdown.cancel();
    });
    Ok(())
}
