//! Inventory as its callers see it: real PostgreSQL, real mutual TLS, hosts that speak the agent's protocol.
mod approval;
mod cost;
mod discovery;
mod enrolment;
mod host;
mod ledger;
mod nodes;
mod readiness;
mod ready;
mod reflection;
mod renewal;
mod stale;
mod trust;
mod watch;
mod world;
