//! Process of the billing service.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_kit::run_main("billing", gpuaas_billing::run)
}
