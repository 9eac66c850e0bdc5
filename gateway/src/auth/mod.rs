//! Who calls: bearer tokens of configured issuers, checked with algorithm, issuer and audience pinned.
pub mod dev_issuer;
pub mod keys;
pub mod sessions;
pub mod verify;
