//! User data of a launch, from a file or standard input.
use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use crate::failure::Failure;

const FLAG: &str = "--user-data";
/// Most bytes that the API takes.
const MAX_BYTES: u64 = 16 << 10;

/// The text of a file; `-` is standard input. Of what is too long no more is read than shows that.
///
/// # Errors
/// It cannot be read, is longer than 16384 bytes, or is no text.
pub fn read(file: &Path) -> Result<String, Failure> {
    let shown = file.display();
    let unreadable = |error| Failure::Usage(format!("{FLAG}: cannot read {shown}: {error}"));
    let source: Box<dyn Read> = if file == Path::new("-") {
        Box::new(stdin())
    } else {
        Box::new(File::open(file).map_err(unreadable)?)
    };
    let mut bytes = Vec::new();
    let mut source = source.take(MAX_BYTES + 1);
    source.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::Usage(format!(
            "{FLAG}: {shown} is longer than {MAX_BYTES} bytes; let it fetch what it needs"
        )));
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::Usage(format!("{FLAG}: {shown} is not UTF-8 text")))
}
