//! The CLI as its users run it: the built program against a gateway that the test plays.
mod allocations;
mod explain;
mod hosts;
mod life;
mod network;
mod pipes;
mod placement;
mod plans;
mod platform;
mod quotas;
mod reservations;
mod support;
mod terminal;
mod using;
