//! What `make test` asks of the whole system: one life of a slice with a real VM, and requests that are refused.
mod bad_input;
mod ports;
mod slice;
