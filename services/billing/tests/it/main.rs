//! Billing against a real PostgreSQL, and a scheduler that the test plays.
mod common;
mod consumer;
mod follow;
mod host_lost;
mod prices;
mod restored;
mod schema;
mod usage;
mod usage_events;
