//! Process of the image catalog.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_kit::run_main("image-catalog", gpuaas_image_catalog::run)
}
