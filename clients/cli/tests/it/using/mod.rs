//! What broke or misled people who used the program.
mod catalog;
mod commands;
mod fleet;
mod refusals;
mod regions;
mod ssh;
mod tables;
