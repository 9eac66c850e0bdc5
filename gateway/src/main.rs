//! The gateway process; see the library.
use std::process::ExitCode;

fn main() -> ExitCode {
    match gpuaas_gateway::command::run() {
        Some(code) => code,
        None => gpuaas_common::run_main("gateway", gpuaas_gateway::run),
    }
}
