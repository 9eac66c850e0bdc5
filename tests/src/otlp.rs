//! A trace collector that keeps what it is sent.
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

/// One span, reduced to what the tests ask for.
#[derive(Clone, Debug)]
pub struct Span {
    /// `service.name`.
    pub service: String,
    /// Name.
    pub name: String,
    /// Trace id in hex.
    pub trace_id: String,
}

/// Spans that arrived so far.
#[derive(Clone, Default)]
pub struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    /// Listens on these addresses until the process ends.
    ///
    /// # Panics
    /// When an address cannot be bound.
    pub async fn listen(addresses: &[SocketAddr]) -> Self {
        let collector = Self::default();
        for address in addresses {
            let listener = TcpListener::bind(address)
                .await
                .expect("bind the collector");
            let service = TraceServiceServer::new(collector.clone());
            tokio::spawn(
                tonic::transport::Server::builder()
                    .add_service(service)
                    .serve_with_incoming(TcpListenerStream::new(listener)),
            );
        }
        collector
    }

    /// Spans of one trace.
    ///
    /// # Panics
    /// Never in practice.
    pub fn trace(&self, trace_id: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("not poisoned");
        spans
            .iter()
            .filter(|s| s.trace_id == trace_id)
            .cloned()
            .collect()
    }

    /// Services that took part in one trace.
    pub fn services(&self, trace_id: &str) -> BTreeSet<String> {
        self.trace(trace_id)
            .into_iter()
            .map(|s| s.service)
            .collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.spans.lock().expect("not poisoned");
        for resource in request.into_inner().resource_spans {
            let service = resource
                .resource
                .iter()
                .flat_map(|r| &r.attributes)
                .find(|a| a.key == "service.name")
                .map(|a| format!("{:?}", a.value))
                .unwrap_or_default();
            // the value is an AnyValue; its debug form holds the plain name between quotes
            let service = service.split('"').nth(1).unwrap_or_default().to_owned();
            for span in resource.scope_spans.into_iter().flat_map(|s| s.spans) {
                kept.push(Span {
                    service: service.clone(),
                    name: span.name,
                    trace_id: hex(&span.trace_id),
                });
            }
        }
        Ok(Response::new(ExportTraceServiceResponse {
            partial_success: None,
        }))
    }
}
