//! The image catalog against a real PostgreSQL, and a scheduler that the test plays.
mod catalog;
mod common;
mod create;
mod publish;
mod slow;
