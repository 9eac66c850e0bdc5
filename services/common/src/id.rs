//! Ids: UUIDv7 whose twelve `rand_a` bits carry the cell, so that any gateway can route by an id.
use std::fmt;

use uuid::{Builder, Uuid};

use crate::error::{Error, Result};

/// Makes ids of one cell.
#[derive(Clone, Copy, Debug)]
pub struct IdGen {
    cell: u16,
}

impl IdGen {
    /// Ids of this cell (0 to 4095; higher bits are cut).
    pub fn new(cell: u16) -> Self {
        Self {
            cell: cell & 0x0fff,
        }
    }

    /// A fresh id.
    pub fn next(&self) -> Uuid {
        let now = jiff::Timestamp::now().as_millisecond();
        self.at(u64::try_from(now).unwrap_or_default())
    }

    /// A fresh id as of a time in milliseconds since 1970.
    pub fn at(&self, unix_millis: u64) -> Uuid {
        let mut random = [0u8; 10];
        getrandom::fill(&mut random).expect("the operating system gives random bytes");
        random[0] = (self.cell >> 8) as u8;
        random[1] = (self.cell & 0xff) as u8;
        Builder::from_unix_timestamp_millis(unix_millis, &random).into_uuid()
    }
}

/// Cell that made an id; `None` for ids that are not version 7.
pub fn cell_of(id: &Uuid) -> Option<u16> {
    let bytes = id.as_bytes();
    (id.get_version_num() == 7).then(|| (u16::from(bytes[6] & 0x0f) << 8) | u16::from(bytes[7]))
}

/// Parses an id in a request; the error names the field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn parse(field: &str, text: &str) -> Result<Uuid> {
    if text.is_empty() {
        return Err(Error::required(field));
    }
    Uuid::parse_str(text).map_err(|_| Error::invalid(field, "must be a UUID"))
}

/// Most ids in a list of a request.
const MOST: usize = 1000;

/// Parses a list of ids in a request; the error names the field.
///
/// # Errors
/// `INVALID_ARGUMENT` naming `field`.
pub fn parse_all(field: &str, texts: &[String]) -> Result<Vec<Uuid>> {
    let bad = || Error::invalid(field, format!("must be at most {MOST} UUIDs"));
    if texts.len() > MOST {
        return Err(bad());
    }
    let parsed = texts.iter().map(|text| Uuid::parse_str(text));
    parsed.collect::<Result<_, _>>().map_err(|_| bad())
}

/// A random secret in hex: `bytes` random bytes.
pub fn random_hex(bytes: usize) -> String {
    let mut buffer = vec![0u8; bytes];
    getrandom::fill(&mut buffer).expect("the operating system gives random bytes");
    buffer
        .iter()
        .fold(String::with_capacity(bytes * 2), |mut text, byte| {
            let _ = fmt::Write::write_fmt(&mut text, format_args!("{byte:02x}"));
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_carries_cell_and_time() {
        let id = IdGen::new(0x0abc).at(1_700_000_000_123);
        assert_eq!(id.get_version_num(), 7);
        assert_eq!(cell_of(&id), Some(0x0abc));
        let (seconds, nanos) = id.get_timestamp().expect("v7 has a time").to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (1_700_000_000, 123));
    }

    #[test]
    fn ids_differ() {
        let ids = IdGen::new(1);
        assert_ne!(ids.at(1), ids.at(1));
    }

    #[test]
    fn bad_id_names_the_field() {
        assert_eq!(
            parse("node_id", "x").expect_err("refused").fields()[0].0,
            "node_id"
        );
    }

    #[test]
    fn random_hex_has_the_asked_length() {
        assert_eq!(random_hex(8).len(), 16);
    }
}
