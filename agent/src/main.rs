//! The program `gpuaas-node-agent`.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_agent::command::main()
}
