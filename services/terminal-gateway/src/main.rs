//! The process of the terminal gateway.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("terminal-gateway", gpuaas_terminal_gateway::run)
}
