//! Where hosts keep guest images: what the catalog, the records of calls and the hosts themselves all name (E-14, C-31).

/// Folder of a host for raw images. Only the agent of a lab host starts with another.
pub const FOLDER: &str = "/var/lib/gpuaas/slice-images";

/// The path of the raw image of a slug on a host. The agent keeps it as a link to the file of the digest that was last
/// provisioned by this name: two versions of a slug may be in use at a time.
#[must_use]
pub fn path(slug: &str) -> String {
    format!("{FOLDER}/{}", file_name(slug))
}

/// The name of the raw image of a slug in the folder of a host.
#[must_use]
pub fn file_name(slug: &str) -> String {
    format!("{slug}.raw")
}
