//! Makes the folder of the console's build known: an empty one is as good as none, but its path must exist for a
//! debug build to find files that are put there later.
use std::path::Path;

fn main() {
    let dist = Path::new("../clients/console/dist");
    // a read-only checkout has what it has
    let _ = std::fs::create_dir_all(dist);
    println!("cargo:rerun-if-changed=build.rs");
    // a debug build reads the files at run time
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo:rerun-if-changed={}", dist.display());
    }
}
