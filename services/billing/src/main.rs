//! Process of the billing service.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("billing", gpuaas_billing::run)
}
