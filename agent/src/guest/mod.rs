//! What the host has to do with its guests: keys that it makes for them, and a login with the relay key.
pub mod command;
pub mod host_key;
mod key_file;
pub mod login;
pub mod network;
pub mod relay_key;
pub mod ssh;

pub use host_key::HostKey;
pub use login::{Login, LoginError, log_in};
pub use network::{Bridge, GuestNetwork};
pub use relay_key::RelayKey;
