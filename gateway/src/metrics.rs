//! Instruments of the edge.
use std::time::Duration;

use gpuaas_common::Context;
use http::{Method, StatusCode};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram};

/// The instruments.
#[derive(Clone, Debug)]
pub struct Metrics {
    duration: Histogram<f64>,
    denied: Counter<u64>,
}

impl Metrics {
    /// Instruments of this process.
    pub fn new(context: &Context) -> Self {
        let duration = context
            .meter
            .f64_histogram("http_server_duration_seconds")
            .with_description("Time from request to answer, by route, method and status")
            .with_boundaries(vec![
                0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            ])
            .build();
        let denied = context
            .meter
            .u64_counter("edge_denied_total")
            .with_description("Calls refused by authentication or authorization, by reason")
            .build();
        Self { duration, denied }
    }

    /// One request was answered. `route` is a pattern of the contract or `*`, never a raw path.
    pub fn served(&self, route: &str, method: &Method, status: StatusCode, took: Duration) {
        let labels = [
            KeyValue::new("route", route.to_owned()),
            KeyValue::new("method", name_of(method)),
            KeyValue::new("status", i64::from(status.as_u16())),
        ];
        self.duration.record(took.as_secs_f64(), &labels);
    }

    /// One call was refused.
    pub fn denied(&self, reason: &str) {
        self.denied
            .add(1, &[KeyValue::new("reason", reason.to_owned())]);
    }
}

/// A method as a label: any other word that somebody sends has the name that OpenTelemetry gives them all.
fn name_of(method: &Method) -> &'static str {
    const KNOWN: &[Method] = &[
        Method::CONNECT,
        Method::DELETE,
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::PATCH,
        Method::POST,
        Method::PUT,
        Method::TRACE,
    ];
    let known = KNOWN.iter().find(|known| *known == method);
    known.map_or("_OTHER", Method::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_makes_up_is_no_label() {
        assert_eq!(name_of(&Method::PATCH), "PATCH");
        for made_up in ["get", "X", "PROPFIND"] {
            let method: Method = made_up.parse().expect("a method");
            assert_eq!(name_of(&method), "_OTHER", "{made_up}");
        }
    }
}
