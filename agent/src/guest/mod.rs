//! What the host does inside its guests: log in with the relay key.
pub mod login;
pub mod network;
pub mod relay_key;

pub use login::{Login, LoginError, log_in};
pub use network::{Bridge, GuestNetwork};
pub use relay_key::RelayKey;
