//! Who calls: bearer tokens of configured issuers, checked with algorithm, issuer and audience pinned; where to sign in,
//! and who has signed out.
pub mod api_keys;
mod changes;
pub mod configuration;
pub mod dev_issuer;
mod form;
pub mod keys;
pub mod logout;
pub mod provider;
pub mod second_factor;
pub mod sessions;
pub mod settings;
pub mod short_tokens;
pub mod verify;
