//! How much a caller may ask for in a minute: of each principal, of each project and of each organisation, by class of request.
//! All gateways of a cell count together.
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpuaas_common::rate::{Bucket, Level, Limiter};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use prost_reflect::DynamicMessage;
use serde::Deserialize;
use std::sync::Arc;
use tonic::Code;

use super::admission::refused_counter;
use super::tenant::Tenant;
use crate::contract::route::Route;
use crate::error::ApiError;

/// What is left of the limit that is nearest to its end.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// The limits that count for the request.
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// The action of launches.
const LAUNCH: &str = "allocation.create";
/// The field of a launch of many.
const LAUNCHES: &str = "allocations";

/// Section `[gateway.rates]`: requests of each minute. As many may come at once; 0 is no limit.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateSettings {
    /// Reads of one principal.
    pub read_per_principal: u32,
    /// Changes of one principal that are no launches.
    pub write_per_principal: u32,
    /// Allocations that one principal asks for.
    pub launch_per_principal: u32,
    /// Reads in one project: it is named, or the caller's only one.
    pub read_per_project: u32,
    /// Changes in one project that are no launches.
    pub write_per_project: u32,
    /// Allocations that are asked for in one project.
    pub launch_per_project: u32,
    /// Reads of one organisation: those that name it or a project of it, and all of who belongs to no other and has no role on
    /// the platform.
    pub read_per_organisation: u32,
    /// Changes of one organisation that are no launches.
    pub write_per_organisation: u32,
    /// Allocations that are asked for in one organisation.
    pub launch_per_organisation: u32,
    /// Longest wait for Redis by one request, in milliseconds; one that waited as long is counted by its gateway alone.
    pub redis_timeout_milliseconds: u32,
}

impl Default for RateSettings {
    fn default() -> Self {
        Self {
            read_per_principal: 12_000,
            write_per_principal: 3_000,
            launch_per_principal: 600,
            read_per_project: 60_000,
            write_per_project: 12_000,
            launch_per_project: 1_200,
            read_per_organisation: 120_000,
            write_per_organisation: 24_000,
            launch_per_organisation: 2_400,
            redis_timeout_milliseconds: 100,
        }
    }
}

impl RateSettings {
    /// Longest wait for Redis by one request.
    pub fn redis_timeout(&self) -> Duration {
        Duration::from_millis(self.redis_timeout_milliseconds.into())
    }
}

/// Requests that are limited together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// What has no effect.
    Read,
    /// What has one, and asks for no allocation.
    Write,
    /// What asks for allocations.
    Launch,
}

impl Class {
    /// With what calls of a route count.
    pub fn of(route: &Route) -> Self {
        if route.access.action == LAUNCH {
            return Self::Launch;
        }
        let reads = route.http_method == Method::GET || route.access.no_effect;
        if reads { Self::Read } else { Self::Write }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Launch => "launch",
        }
    }
}

/// What answers say of the limits of their requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    limit: HeaderValue,
    policy: HeaderValue,
}

impl Standing {
    /// Puts it on an answer.
    pub fn put(self, headers: &mut HeaderMap) {
        headers.insert(RATE_LIMIT, self.limit);
        headers.insert(RATE_LIMIT_POLICY, self.policy);
    }
}

/// Buckets that had too little a moment ago, whoever asked: of a principal, of a project, of an organisation.
#[derive(Default)]
struct Exhausted {
    /// The second of the last one, since 1970.
    last: AtomicI64,
    /// The last second of each, by key.
    seconds: Mutex<HashMap<String, i64>>,
}

impl Exhausted {
    fn note(&self, bucket: &Bucket, now: i64) {
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        if self.last.swap(now, Ordering::Relaxed) != now {
            seconds.retain(|_, second| is_recent(*second, now));
        }
        seconds.insert(bucket.key.clone(), now);
    }

    fn has_any(&self, now: i64) -> bool {
        is_recent(self.last.load(Ordering::Relaxed), now)
    }

    fn has(&self, bucket: &Bucket, now: i64) -> bool {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds
            .get(&bucket.key)
            .is_some_and(|second| is_recent(*second, now))
    }
}

/// It is this second or the one before.
fn is_recent(second: i64, now: i64) -> bool {
    now - second <= 1
}

/// Seconds since 1970.
fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The limits.
pub struct Rates {
    settings: RateSettings,
    limiter: Arc<Limiter>,
    exhausted: Exhausted,
    refused: Counter<u64>,
}

impl Rates {
    /// As the settings say.
    pub fn new(settings: &RateSettings, limiter: Limiter, meter: &Meter) -> Self {
        let limiter = Arc::new(limiter);
        let observed = limiter.clone();
        // the meter keeps it
        let _gauge = meter
            .u64_observable_gauge("edge_rates_local")
            .with_description("1 while this gateway counts rates for itself, because Redis does not answer or is not configured")
            .with_callback(move |gauge| gauge.observe(u64::from(!observed.is_shared()), &[]))
            .build();
        Self {
            settings: settings.clone(),
            limiter,
            exhausted: Exhausted::default(),
            refused: refused_counter(meter),
        }
    }

    /// Counts a request of a principal, what it costs, and for whom it is beside that.
    ///
    /// # Errors
    /// `RATE_LIMITED` with the limit that is reached, and when to try again.
    pub async fn count(
        &self,
        (class, cost): (Class, u32),
        principal: &str,
        tenant: Tenant,
    ) -> Result<Option<Standing>, ApiError> {
        let limits = self.limits(class, principal, tenant);
        if limits.is_empty() {
            return Ok(None);
        }
        let (whose, buckets): (Vec<_>, Vec<_>) = limits.into_iter().unzip();
        let taken = self.limiter.take(&buckets, cost).await;
        let class = class.name();
        let named: Vec<Limit> = whose
            .iter()
            .zip(&buckets)
            .zip(&taken.levels)
            .map(|((of, bucket), level)| Limit {
                name: format!("{class}_per_{of}"),
                per_minute: bucket.per_minute,
                level: *level,
            })
            .collect();
        let standing = standing(&named);
        let Some((index, wait)) = taken.refused else {
            return Ok(standing);
        };
        let of = whose.get(index).copied().unwrap_or("principal");
        if let Some(bucket) = buckets.get(index) {
            self.exhausted.note(bucket, now());
        }
        let labels = [
            KeyValue::new("what", format!("{class}_rate")),
            KeyValue::new("limit", of),
        ];
        self.refused.add(1, &labels);
        Err(refusal(&named, index, of, wait, standing))
    }

    /// Counts a request that came to nothing before it was counted: for who made it alone, since for whom else is not known.
    ///
    /// # Errors
    /// `RATE_LIMITED`, as for any other.
    pub async fn count_refused(&self, class: Class, principal: &str) -> Result<(), ApiError> {
        let counted = self.count((class, 1), principal, Tenant::default());
        counted.await.map(|_| ())
    }

    /// Whether a limit that counts for such a request was reached in this second or the one before, by anybody for whom it
    /// counts.
    pub fn was_reached(&self, class: Class, principal: &str, tenant: Tenant) -> bool {
        let now = now();
        self.exhausted.has_any(now)
            && self
                .limits(class, principal, tenant)
                .iter()
                .any(|(_, bucket)| self.exhausted.has(bucket, now))
    }

    /// The limits that count for a request, each with whose it is.
    fn limits(&self, class: Class, principal: &str, tenant: Tenant) -> Vec<(&'static str, Bucket)> {
        let settings = &self.settings;
        let (of_principal, of_project, of_organisation) = match class {
            Class::Read => (
                settings.read_per_principal,
                settings.read_per_project,
                settings.read_per_organisation,
            ),
            Class::Write => (
                settings.write_per_principal,
                settings.write_per_project,
                settings.write_per_organisation,
            ),
            Class::Launch => (
                settings.launch_per_principal,
                settings.launch_per_project,
                settings.launch_per_organisation,
            ),
        };
        let class = class.name();
        let project = tenant
            .project
            .map(|id| ("project", format!("{class}:project:{id}"), of_project));
        let organisation = tenant.organisation.map(|id| {
            let key = format!("{class}:organisation:{id}");
            ("organisation", key, of_organisation)
        });
        let principal = format!("{class}:principal:{principal}");
        std::iter::once(("principal", principal, of_principal))
            .chain(project)
            .chain(organisation)
            .filter(|(_, _, per_minute)| *per_minute > 0)
            .map(|(of, key, per_minute)| (of, Bucket { key, per_minute }))
            .collect()
    }
}

struct Limit {
    name: String,
    per_minute: u32,
    level: Level,
}

/// With what a request counts, and how often.
pub fn class_of(route: &Route, message: &DynamicMessage) -> (Class, u32) {
    let class = Class::of(route);
    if class != Class::Launch {
        return (class, 1);
    }
    let many = message
        .get_field_by_name(LAUNCHES)
        .and_then(|list| list.as_list().map(<[_]>::len));
    let cost = many.map_or(1, |many| u32::try_from(many).unwrap_or(u32::MAX));
    (class, cost)
}

/// The fields of draft-ietf-httpapi-ratelimit-headers.
fn standing(limits: &[Limit]) -> Option<Standing> {
    let share = |limit: &Limit| limit.level.left as f64 / f64::from(limit.per_minute.max(1));
    let nearest = limits.iter().min_by(|a, b| share(a).total_cmp(&share(b)))?;
    let policies: Vec<String> = limits
        .iter()
        .map(|limit| format!("\"{}\";q={};w=60", limit.name, limit.per_minute))
        .collect();
    Some(Standing {
        limit: HeaderValue::from_str(&format!(
            "\"{}\";r={};t={}",
            nearest.name,
            nearest.level.left,
            seconds(nearest.level.full_in)
        ))
        .ok()?,
        policy: HeaderValue::from_str(&policies.join(", ")).ok()?,
    })
}

/// Whole seconds, never too few.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

fn refusal(
    limits: &[Limit],
    index: usize,
    of: &str,
    wait: Duration,
    standing: Option<Standing>,
) -> ApiError {
    let (name, per_minute) = limits
        .get(index)
        .map_or(("", 0), |limit| (limit.name.as_str(), limit.per_minute));
    let wait = seconds(wait).max(1);
    let whose = match of {
        "project" => "of this project",
        "organisation" => "of your organisation",
        _ => "of yours",
    };
    let mut error = ApiError::new(
        Code::ResourceExhausted,
        ErrorReason::RateLimited,
        format!("Too many requests {whose}: at most {per_minute} in a minute. Try again in {wait} seconds."),
    )
    .meta("limit", name)
    .header(header::RETRY_AFTER, HeaderValue::from(wait));
    if let Some(standing) = standing {
        error = error
            .header(RATE_LIMIT, standing.limit)
            .header(RATE_LIMIT_POLICY, standing.policy);
    }
    error
}
