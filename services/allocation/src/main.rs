//! The allocation service as a process.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("allocation", gpuaas_allocation::run)
}
