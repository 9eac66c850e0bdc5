//! SQL of schema `images`, run as the role `gpuaas_images`.
pub mod cache;
pub mod images;
