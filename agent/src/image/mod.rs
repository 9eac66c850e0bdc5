//! Images: the verified cache, the pull from the registry, the clone onto a proven disk, the seed.
pub mod cache;
pub mod clone;
pub mod registry;
pub mod seed;
pub mod space;
mod user_data;

pub use cache::{ImageCache, ImageSource};
