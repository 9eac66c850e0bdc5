//! HTTP/JSON to protobuf messages and back, driven by descriptors alone.
//!
//! JSON follows the protobuf JSON mapping with three choices of this API: fields keep their proto names,
//! enum values are lower-case without the enum's prefix, and anything unknown is refused by name.
pub mod mask;
pub mod read;
pub mod request;
pub mod scalar;
