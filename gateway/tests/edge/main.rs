//! The gateway as a process would run it: real PostgreSQL, mutual TLS, a service behind it that speaks gRPC.
mod bad_requests;
mod bad_tokens;
mod bootstrap;
mod calls;
mod database;
mod issuers;
mod script;
mod sign_in;
mod streams;
mod upstream;
mod world;
