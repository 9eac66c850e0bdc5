//! Every kill point of a launch, of its release and of the changes of its power, each with a real VM: `make test-chaos`.
use std::process::ExitCode;

#[path = "../kills/mod.rs"]
mod kills;

fn main() -> ExitCode {
    gpuaas_tests::runner::run(kills::cases(kills::Which::Every), || {})
}
