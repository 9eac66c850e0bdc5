//! The `gpuaas` command; see the library.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_cli::run()
}
