//! Lists of requests, bounded by their type: whatever follows may walk them, and walk them in each other.
use std::ops::Deref;

use crate::error::{HostError, HostResult};

/// A list of at most `MOST` entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded<T, const MOST: usize>(Vec<T>);

/// More entries than there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooMany;

impl<T, const MOST: usize> Bounded<T, MOST> {
    /// Reads a list of a request, each entry by `one`.
    ///
    /// # Errors
    /// Naming `field` and the limit, before any entry is read; and those of `one`.
    pub fn parse<W>(
        field: &'static str,
        wire: &[W],
        one: impl FnMut(&W) -> HostResult<T>,
    ) -> HostResult<Self> {
        if wire.len() > MOST {
            let rule = format!("must have at most {MOST} entries, not {}", wire.len());
            return Err(HostError::invalid(field, rule));
        }
        wire.iter()
            .map(one)
            .collect::<HostResult<Vec<T>>>()
            .map(Self)
    }
}

impl<T, const MOST: usize> TryFrom<Vec<T>> for Bounded<T, MOST> {
    type Error = TooMany;

    fn try_from(list: Vec<T>) -> Result<Self, TooMany> {
        if list.len() > MOST {
            return Err(TooMany);
        }
        Ok(Self(list))
    }
}

impl<T, const MOST: usize> Deref for Bounded<T, MOST> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_too_long_is_refused_before_an_entry_is_read() {
        let mut read = 0;
        let mut one = |entry: &u8| {
            read += 1;
            Ok(*entry)
        };
        let good = Bounded::<u8, 3>::parse("slots", &[1, 2, 3], &mut one).unwrap();
        assert_eq!(*good, [1, 2, 3]);
        let error = Bounded::<u8, 3>::parse("slots", &[0; 10_000], &mut one).unwrap_err();
        assert_eq!(read, 3);
        assert_eq!(error.field, Some("slots"));
        assert_eq!(error.message, "must have at most 3 entries, not 10000");
        assert_eq!(Bounded::<u8, 3>::try_from(vec![0; 4]), Err(TooMany));
    }
}
