//! The log of a ledger that the test writes.
use std::sync::{Arc, Mutex};

use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventService;
use gpuaas_proto::gpuaas::internal::events::v1::{Event as Logged, ReadRequest, ReadResponse};
use tonic::{Request, Response, Status};

/// The log of a ledger that the test writes.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Logged>>>);

impl Log {
    /// Adds an event, which gets the next position.
    pub fn append(&self, event: Logged) {
        let mut events = self.0.lock().expect("lock");
        let position = events.len() as i64 + 1;
        events.push(Logged { position, ..event });
    }

    /// Keeps the first ones, as a restored ledger does.
    pub fn keep(&self, count: usize) {
        self.0.lock().expect("lock").truncate(count);
    }
}

#[tonic::async_trait]
impl EventService for Log {
    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<ReadResponse>, Status> {
        let request = request.into_inner();
        let all = self.0.lock().expect("lock");
        let events = all
            .iter()
            .filter(|one| one.position > request.after_position);
        Ok(Response::new(ReadResponse {
            events: events.take(request.limit as usize).cloned().collect(),
            head_position: all.len() as i64,
        }))
    }
}
