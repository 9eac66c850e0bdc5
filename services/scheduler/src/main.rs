//! Process of the scheduler.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_kit::run_main("scheduler", gpuaas_scheduler::run)
}
