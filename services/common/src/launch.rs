//! How much one launch may hold. The gateway refuses more before it does anything for each part, and so do the services.

/// Most allocations of a batch.
pub const MAX_BATCH: usize = 16;
/// Most SSH keys of an allocation.
pub const MAX_SSH_KEYS: usize = 10;
