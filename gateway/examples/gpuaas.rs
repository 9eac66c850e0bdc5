//! The command line, for the tests that run what the pages say: tests of a package find no programs of another one.
use std::process::ExitCode;

fn main() -> ExitCode {
    gpuaas_cli::run()
}
