//! The process of inventory.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_kit::run_main("inventory", gpuaas_inventory::run)
}
