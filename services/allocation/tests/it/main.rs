//! Tests of the allocation service: real PostgreSQL, real certificates, and the agent's own core on a host without
//! hardware.

mod api_admin;
mod api_batch;
mod api_create;
mod api_read;
mod api_wait;
mod board;
mod catalog;
mod crashes;
mod expect;
mod failures;
mod faults;
mod host;
mod kills;
mod ledger;
mod lifecycle;
mod platform;
mod power;
mod reconcile;
mod runners;
mod sweep;
mod terminal;
mod watch;
mod watch_order;
mod whole;
mod world;
