//! The migrations on a real PostgreSQL: from nothing, and on the data of the release before.
mod additive;
mod disabled;
mod empty;
mod from_empty;
mod operators;
mod scim_addresses;
