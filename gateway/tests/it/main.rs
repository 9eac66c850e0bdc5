//! The gateway: as a process would run it, with real PostgreSQL, mutual TLS and a service behind it that speaks gRPC;
//! and what its contract and its OpenAPI document must keep.
mod bad_requests;
mod bad_tokens;
mod bootstrap;
mod calls;
mod contract;
mod database;
mod identity;
mod issuers;
mod openapi;
mod script;
mod sign_in;
mod silence;
mod streams;
mod tls;
mod transcode;
mod upstream;
mod world;
