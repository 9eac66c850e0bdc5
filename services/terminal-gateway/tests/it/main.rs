//! Terminals through the real chain: WebSocket, gateway, terminal gateway, agent, SSH, all in this process, with
//! mutual TLS, a real database and a guest that speaks real SSH, well or badly.
mod access;
mod attacks;
mod client;
mod ends;
mod guest;
mod guests_that_misbehave;
mod ledger;
mod limits;
mod listing;
mod recordings;
mod sessions;
mod tunnels;
mod world;
