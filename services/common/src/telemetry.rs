//! JSON logs, traces by OTLP, metrics by Prometheus. Installed once per process by the main entry; tests
//! install their own.
use anyhow::Context as _;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::WithExportConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prometheus::Registry;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::config::TelemetrySettings;

/// Spans of the exporter's own transport would feed themselves; they stay out of the trace.
const TRACE_FILTER: &str =
    "info,h2=off,hyper=off,hyper_util=off,tonic=off,tower=off,opentelemetry=off,sqlx=off";

/// Flushes what is not yet exported when the process ends.
pub struct Guard {
    provider: SdkTracerProvider,
}

impl Drop for Guard {
    fn drop(&mut self) {
        // the collector may be gone; nothing to do about it at exit
        let _ = self.provider.shutdown();
    }
}

/// Installs logs to standard error and traces for this process. Needs a running tokio when an endpoint is set.
///
/// # Errors
/// A malformed filter or endpoint, or a second installation.
pub fn install(service: &'static str, settings: &TelemetrySettings) -> anyhow::Result<Guard> {
    let resource = Resource::builder()
        .with_attribute(KeyValue::new("service.name", service))
        .build();
    let mut builder = SdkTracerProvider::builder().with_resource(resource);
    let exported = !settings.otlp_endpoint.is_empty();
    if exported {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_tonic()
            .with_endpoint(&settings.otlp_endpoint)
            .build()
            .context("setting telemetry.otlp_endpoint")?;
        builder = builder.with_batch_exporter(exporter);
    }
    let provider = builder.build();
    let filter = EnvFilter::try_new(&settings.log).context("setting telemetry.log")?;
    let logs = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_current_span(true)
        .with_span_list(false)
        .with_writer(std::io::stderr)
        .with_filter(filter);
    // spans that nobody gets carry the trace on, and nothing else
    let noted = filter_fn(move |metadata| exported || metadata.is_span())
        .with_max_level_hint(LevelFilter::TRACE);
    let traces = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(service))
        .with_location(exported)
        .with_threads(exported)
        .with_target(exported)
        .with_tracked_inactivity(exported)
        .with_context_activation(exported)
        .with_filter(EnvFilter::new(TRACE_FILTER).and(noted));
    tracing_subscriber::registry()
        .with(traces)
        .with(logs)
        .try_init()
        .context("telemetry is installed twice")?;
    Ok(Guard { provider })
}

/// A meter with a Prometheus registry of its own.
///
/// # Errors
/// The registry refused the exporter.
pub fn meter(service: &'static str) -> anyhow::Result<(Meter, SdkMeterProvider, Registry)> {
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .without_units()
        .without_counter_suffixes()
        .without_target_info()
        .build()
        .context("prometheus exporter")?;
    let resource = Resource::builder()
        .with_attribute(KeyValue::new("service.name", service))
        .build();
    let provider = SdkMeterProvider::builder()
        .with_reader(exporter)
        .with_resource(resource)
        .build();
    Ok((provider.meter(service), provider, registry))
}
