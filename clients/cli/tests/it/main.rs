//! The CLI as its users run it: the built program against a gateway that the test plays.
mod allocations;
mod copying;
mod explain;
mod formats;
mod hosts;
mod life;
mod network;
mod pipes;
mod placement;
mod plans;
mod platform;
mod quotas;
mod reservations;
mod sign_in;
mod support;
mod terminal;
mod using;
