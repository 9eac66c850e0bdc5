//! The `(gpuaas.options.v1.deprecation)` option of a method.
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use prost_reflect::MethodDescriptor;

use super::access::extension;

/// The least that callers have to change over, in days.
pub const LEAST_DAYS: i32 = 180;

/// An operation that works, and will not for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deprecation {
    since: Timestamp,
    sunset: Timestamp,
    /// Full name of the RPC to call instead.
    pub replacement: Option<String>,
}

impl Deprecation {
    /// The option of a method, when it has one.
    ///
    /// # Errors
    /// What is wrong with it: a day that is none, less time than promised, an RPC that is not there, or a method that says only
    /// half of it.
    pub fn of(method: &MethodDescriptor) -> Result<Option<Self>, String> {
        let pool = method.parent_pool();
        let option = extension(pool, &method.options(), "gpuaas.options.v1.deprecation");
        let flag = method.method_descriptor_proto().options.as_ref();
        let flag = flag.is_some_and(prost_types::MethodOptions::deprecated);
        let Some(option) = option else {
            return match flag {
                true => Err("is deprecated, and no option says until when it works".to_owned()),
                false => Ok(None),
            };
        };
        if !flag {
            return Err("has a deprecation, and is not marked as deprecated".to_owned());
        }
        let option = option.as_message().cloned();
        let option = option.ok_or_else(|| "has a deprecation that is no message".to_owned())?;
        let text = |name: &str| {
            let value = option.get_field_by_name(name);
            let text = value.and_then(|value| value.as_str().map(str::to_owned));
            text.unwrap_or_default()
        };
        let day = |name: &str| {
            let day: Option<Date> = text(name).parse().ok();
            day.ok_or_else(|| format!("deprecation: {name} must be a day such as 2027-01-31"))
        };
        let (since, sunset) = (day("since")?, day("sunset")?);
        let days = (sunset - since).get_days();
        if days < LEAST_DAYS {
            return Err(format!(
                "deprecation: {days} days from since to sunset, and at least {LEAST_DAYS} are promised"
            ));
        }
        let replacement = Some(text("replacement")).filter(|name| !name.is_empty());
        if let Some(name) = &replacement
            && !is_method(method, name)
        {
            return Err(format!("deprecation: there is no {name}"));
        }
        let start = |day: Date| {
            let zoned = day.to_zoned(TimeZone::UTC);
            zoned
                .map(|zoned| zoned.timestamp())
                .map_err(|error| error.to_string())
        };
        Ok(Some(Self {
            since: start(since)?,
            sunset: start(sunset)?,
            replacement,
        }))
    }

    /// Seconds since 1970.
    pub fn since_second(&self) -> i64 {
        self.since.as_second()
    }

    /// The day, for people.
    pub fn sunset_day(&self) -> String {
        self.sunset.strftime("%Y-%m-%d").to_string()
    }

    /// As HTTP writes a time.
    pub fn sunset_date(&self) -> String {
        self.sunset
            .strftime("%a, %d %b %Y %H:%M:%S GMT")
            .to_string()
    }
}

fn is_method(method: &MethodDescriptor, name: &str) -> bool {
    let mut services = method.parent_pool().services();
    services.any(|service| service.methods().any(|other| other.full_name() == name))
}
