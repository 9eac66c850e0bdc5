//! What a request of an agent rollout names: the package and the limits.
use gpuaas_common::error::{Error, Result};
use gpuaas_common::value::Digest;
use gpuaas_proto::gpuaas::inventory::v1 as api;

use super::text;

/// Longest version of an agent that a rollout names.
const MAX_VERSION: usize = 64;
/// Largest package of an agent.
const MAX_PACKAGE: i64 = 1 << 30;
const DEFAULT_PARALLEL: u32 = 10;
const MAX_PARALLEL: u32 = 500;
const DEFAULT_TIMEOUT: u32 = 900;

/// The package of a request, checked.
pub(super) struct Package<'a> {
    pub(super) version: &'a str,
    pub(super) digest: &'a str,
    pub(super) size_bytes: i64,
}

impl<'a> Package<'a> {
    pub(super) fn of(desired: &'a api::CreateAgentRolloutRequest) -> Result<Self> {
        text("version", &desired.version, MAX_VERSION)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
        if !desired.version.bytes().all(plain) {
            return Err(Error::invalid(
                "version",
                "must be letters, digits, dots, hyphens, plus signs and underscores",
            ));
        }
        if desired.digest.is_empty() {
            return Err(Error::required("digest"));
        }
        if desired.digest.parse::<Digest>().is_err() {
            return Err(Error::invalid(
                "digest",
                format!("must be {}", Digest::RULE),
            ));
        }
        if !(1..=MAX_PACKAGE).contains(&desired.size_bytes) {
            return Err(Error::invalid(
                "size_bytes",
                format!("must be from 1 to {MAX_PACKAGE}"),
            ));
        }
        Ok(Self {
            version: &desired.version,
            digest: &desired.digest,
            size_bytes: desired.size_bytes,
        })
    }
}

/// The limits of a request, checked.
pub(super) struct Limits {
    pub(super) max_failures: i32,
    pub(super) max_parallel: i32,
    pub(super) node_timeout_seconds: i32,
}

impl Limits {
    pub(super) fn of(desired: &api::CreateAgentRolloutRequest) -> Result<Self> {
        let max_failures = i32::try_from(desired.max_failures)
            .map_err(|_| Error::invalid("max_failures", "must be at most 2147483647"))?;
        let or = |given, default| if given == 0 { default } else { given };
        let parallel = or(desired.max_parallel, DEFAULT_PARALLEL);
        if parallel > MAX_PARALLEL {
            return Err(Error::invalid(
                "max_parallel",
                format!("must be at most {MAX_PARALLEL}"),
            ));
        }
        let timeout = or(desired.node_timeout_seconds, DEFAULT_TIMEOUT);
        if !(60..=86_400).contains(&timeout) {
            return Err(Error::invalid(
                "node_timeout_seconds",
                "must be from 60 to 86400",
            ));
        }
        Ok(Self {
            max_failures,
            max_parallel: i32::try_from(parallel).map_err(Error::internal)?,
            node_timeout_seconds: i32::try_from(timeout).map_err(Error::internal)?,
        })
    }
}
