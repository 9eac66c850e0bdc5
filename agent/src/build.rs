//! What this program was built from. A package has both (`deploy/deb/build.sh`); a build of a developer has the
//! version of the sources.
use std::sync::LazyLock;

use jiff::Timestamp;

/// Both, as `version=… built_at=…`.
pub static LINE: LazyLock<String> = LazyLock::new(|| line(version(), built_at()));

/// Short commit of a package, else the version of the sources.
pub fn version() -> &'static str {
    option_env!("GPUAAS_VERSION").unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// When a package was built.
pub fn built_at() -> Option<Timestamp> {
    option_env!("GPUAAS_BUILT_AT")?.parse().ok()
}

fn line(version: &str, built_at: Option<Timestamp>) -> String {
    let built_at = built_at.map_or("unknown".to_owned(), |at| at.to_string());
    format!("version={version} built_at={built_at}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_10_a_build_says_commit_and_time() {
        let at = "2026-04-17T11:21:12Z".parse().ok();
        assert_eq!(
            line("80d8a259", at),
            "version=80d8a259 built_at=2026-04-17T11:21:12Z"
        );
        assert_eq!(line("0.1.0", None), "version=0.1.0 built_at=unknown");
    }
}
