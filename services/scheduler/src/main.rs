//! Process of the scheduler.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("scheduler", gpuaas_scheduler::run)
}
