//! Sign-in of a person: contexts with their tokens on this machine, and OAuth with the identity provider.
pub mod contexts;
pub mod credential;
pub mod oauth;
