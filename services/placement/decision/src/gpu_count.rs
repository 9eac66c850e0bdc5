//! The GPUs of one allocation.
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// GPUs of one allocation, all on one node: at least one (B-17). Which counts a SKU is offered in is for the SKU to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuCount(NonZeroU32);

/// No GPU at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoGpuCount;

impl std::fmt::Display for NoGpuCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a count of GPUs")
    }
}

impl std::error::Error for NoGpuCount {}

impl GpuCount {
    /// A single GPU.
    pub const ONE: Self = Self(NonZeroU32::MIN);

    /// None for no GPU.
    #[must_use]
    pub const fn new(count: u32) -> Option<Self> {
        match NonZeroU32::new(count) {
            Some(count) => Some(Self(count)),
            None => None,
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// The number as a column of the ledger holds it; what no SKU is offered in does not get there.
    #[must_use]
    pub fn column(self) -> i32 {
        i32::try_from(self.get()).unwrap_or(i32::MAX)
    }
}

/// That of a request that names none: the ledger's own ones do not.
impl Default for GpuCount {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u32> for GpuCount {
    type Error = NoGpuCount;

    fn try_from(count: u32) -> Result<Self, NoGpuCount> {
        Self::new(count).ok_or(NoGpuCount)
    }
}

/// From a column.
impl TryFrom<i32> for GpuCount {
    type Error = NoGpuCount;

    fn try_from(count: i32) -> Result<Self, NoGpuCount> {
        u32::try_from(count)
            .map_err(|_| NoGpuCount)
            .and_then(Self::try_from)
    }
}

impl std::fmt::Display for GpuCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_at_least_one() {
        assert_eq!(GpuCount::new(0), None);
        assert_eq!(GpuCount::new(8).map(GpuCount::column), Some(8));
        for column in [0, -1, i32::MIN] {
            assert_eq!(GpuCount::try_from(column), Err(NoGpuCount), "{column}");
        }
        assert_eq!(
            GpuCount::try_from(i32::MAX).map(GpuCount::get),
            Ok(i32::MAX.unsigned_abs())
        );
    }
}
