//! The host as files, processes, programs and clocks.
pub mod blocking;
pub mod clock;
pub mod exec;
mod forker;
pub mod ip;
pub mod output;
pub mod processes;
pub mod recorder;
pub mod recording;
pub mod root;
pub mod secrets;
pub mod units;
