//! The contract, generated from the `.proto` files of this folder.
//!
//! Modules mirror proto packages: `gpuaas_proto::gpuaas::allocation::v1::Allocation`. [`pool`] is the
//! descriptor pool with all options and comments, the source for transcoding and OpenAPI. It is large, so that services do
//! without it: [`METHODS`] has the access rules, and [`common`] the messages that they look into field by field. With the
//! feature `json`, [`json`] has the JSON of the HTTP API and [`call`] its calls.
use std::sync::LazyLock;

use prost_reflect::DescriptorPool;

#[cfg(feature = "json")]
pub mod call;
#[cfg(feature = "json")]
pub mod json;
pub mod words;

#[allow(clippy::all, missing_docs)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/all.rs"));
}

pub use generated::google;
pub use generated::gpuaas;

/// The encoded `google.protobuf.FileDescriptorSet` of the whole contract.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Newest version of a host's topology report (`gpuaas.agent.v1.TopologyReport`). It rises when a reader of the version
/// before would misunderstand a report, not with every field that is added.
pub const TOPOLOGY_SCHEMA_VERSION: u32 = 1;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("generated descriptors decode"));

/// The descriptor pool of the whole contract.
pub fn pool() -> &'static DescriptorPool {
    &POOL
}

/// What the contract says of a method to those who serve it.
#[derive(Debug)]
pub struct Method {
    /// Its gRPC path, for example "/gpuaas.allocation.v1.AllocationService/GetAllocation".
    pub path: &'static str,
    /// Its option `gpuaas.options.v1.access`, encoded.
    pub access: &'static [u8],
    /// It is served with GET, and changes nothing.
    pub is_read: bool,
}

include!(concat!(env!("OUT_DIR"), "/methods.rs"));

static COMMON: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let messages = include_bytes!(concat!(env!("OUT_DIR"), "/common.bin"));
    DescriptorPool::decode(messages.as_slice()).expect("generated descriptors decode")
});

/// The messages of `gpuaas.common.v1` alone, without comments and options of the platform.
pub fn common() -> &'static DescriptorPool {
    &COMMON
}
