//! What only a real database shows.
mod audit;
mod select;
mod vanished_database;
