//! What the gateway knows of the contract, read once from the descriptors: routes and who may call them.
pub mod access;
pub mod deprecation;
pub mod route;
pub mod template;
