//! What the host does inside its guests: log in with the relay key.
pub mod login;
pub mod relay_key;

pub use login::{Login, LoginError, log_in};
pub use relay_key::RelayKey;
