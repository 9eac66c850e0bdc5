//! Every kill point of both step tables, each with a real VM: `make test-chaos`.
use std::process::ExitCode;

#[path = "../kills/mod.rs"]
mod kills;

fn main() -> ExitCode {
    gpuaas_tests::runner::run(kills::cases(kills::Which::Every), || {})
}
