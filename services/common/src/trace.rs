//! W3C trace context: into rows, out of rows, across calls.
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Metadata key of the trace context.
pub const TRACEPARENT: &str = "traceparent";

struct One(Option<String>);

impl Injector for One {
    fn set(&mut self, key: &str, value: String) {
        if key == TRACEPARENT {
            self.0 = Some(value);
        }
    }
}

struct Given<'a>(&'a str);

impl Extractor for Given<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == TRACEPARENT).then_some(self.0)
    }
    fn keys(&self) -> Vec<&str> {
        vec![TRACEPARENT]
    }
}

/// The current span as `traceparent`; empty without a trace.
pub fn current_traceparent() -> String {
    traceparent_of(&tracing::Span::current())
}

/// A span as `traceparent`; empty without a trace.
pub fn traceparent_of(span: &tracing::Span) -> String {
    let context = span.context();
    if !context.span().span_context().is_valid() {
        return String::new();
    }
    let mut carrier = One(None);
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    carrier.0.unwrap_or_default()
}

/// Makes `span` a child of the span that `traceparent` names; does nothing for an empty or malformed one.
pub fn set_parent(span: &tracing::Span, traceparent: &str) {
    let context = TraceContextPropagator::new().extract(&Given(traceparent));
    if context.span().span_context().is_valid() {
        // fails only without an OpenTelemetry layer, where there is no trace to continue
        let _ = span.set_parent(context);
    }
}
