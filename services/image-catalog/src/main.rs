//! Process of the image catalog.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_common::run_main("image-catalog", gpuaas_image_catalog::run)
}
