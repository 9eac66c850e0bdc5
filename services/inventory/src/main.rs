//! The process of inventory.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("inventory", gpuaas_inventory::run)
}
