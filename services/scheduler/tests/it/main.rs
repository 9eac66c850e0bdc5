//! The scheduler's RPCs against a real database, called as the server calls them after its access layer.
mod admin;
mod baremetal;
mod capacity;
mod fleet;
mod ledger;
mod node_health;
mod nodes;
mod placement;
mod queue;
mod quotas;
mod race;
mod regions;
mod reports;
mod reservations;
mod selected;
mod world;
