//! What only a real database shows.
mod audit;
mod select;
