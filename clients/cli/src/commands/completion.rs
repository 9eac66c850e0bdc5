//! `completion` and `man`: what shells and `man` need, made from the definition of the commands.
use std::io::{Write as _, stdout};
use std::path::Path;

use clap_complete::Shell;

use crate::failure::Failure;
use crate::output::written;

/// Prints the completion script of a shell.
pub fn print(shell: Shell, program: &mut clap::Command) {
    let mut script = Vec::new();
    clap_complete::generate(shell, program, "gpuaas", &mut script);
    write(&script);
}

/// Prints the manual page of the program, or writes those of all commands into a folder.
///
/// # Errors
/// They cannot be written.
pub fn pages(folder: Option<&Path>, program: clap::Command) -> Result<(), Failure> {
    if let Some(folder) = folder {
        return clap_mangen::generate_to(program, folder).map_err(|error| {
            Failure::Usage(format!(
                "cannot write the manual pages into {}: {error}",
                folder.display()
            ))
        });
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(program).render(&mut page);
    rendered.map_err(|error| Failure::Local(error.to_string()))?;
    write(&page);
    Ok(())
}

/// Writes to standard output, as [`crate::output::answer`] does with lines.
fn write(text: &[u8]) {
    let mut out = stdout().lock();
    written(out.write_all(text).and_then(|()| out.flush()));
}
