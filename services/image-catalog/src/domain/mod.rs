//! Pure rules of the catalog: names, references, what a published artifact must look like.
pub mod artifact;
pub mod image;
pub mod source;
