//! The serial log of one allocation, as its host has it: live, and for some time after the VM is gone. Nothing of it is kept
//! here; a stream is the host's, with the caller's right to it decided and put on record.
use std::time::Duration;

use gpuaas_common::identity::Caller;
use gpuaas_common::watch::{Sink, Stop, Stream, token};
use gpuaas_common::{Error, audit, id};
use gpuaas_placement::model::Shape;
use gpuaas_proto::gpuaas::agent::v1 as agent;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_client::VirtualMachinesClient;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
use gpuaas_proto::gpuaas::common::v1::{WatchEnd, WatchHeartbeat, WatchSynced};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use tonic::{Code, Status, Streaming};
use uuid::Uuid;

use super::{Watching, expired};
use crate::store::owned::owned;
use crate::workflow::host::Host;

/// Longest time until a host has opened a log.
const OPEN: Duration = Duration::from_secs(30);

/// One stream.
struct Reader {
    sink: Sink<pb::ReadSerialLogResponse>,
    parts: Streaming<agent::ReadSerialLogResponse>,
    id: Uuid,
    /// Bytes that were printed before what comes next.
    next: u64,
    heartbeat: Duration,
}

impl Watching {
    /// Reads the serial log of an allocation of the caller's projects. Every reading is on record (P10).
    ///
    /// # Errors
    /// There is no such allocation, or no log of it (any more); a field or token that is refused; the host does not answer,
    /// or is another one by now; the database.
    pub async fn serial_log(
        &self,
        caller: &Caller,
        request: &pb::ReadSerialLogRequest,
    ) -> Result<Stream<pb::ReadSerialLogResponse>, Error> {
        let id = id::parse("allocation_id", &request.allocation_id)?;
        let query = query(id);
        let resumed: Option<u64> =
            token::decode(&request.resume_token, &query.each_ref().map(String::as_str))?;
        let mut host = self.host_with_log(caller, id).await?;
        let mut reading = agent::ReadSerialLogRequest {
            allocation_id: id.to_string(),
            follow: request.follow,
            ..agent::ReadSerialLogRequest::default()
        };
        match resumed {
            Some(offset) => reading.offset = offset,
            None => {
                reading.since_time = request.since_time;
                reading.tail_lines = request.tail_lines;
            }
        }
        let opened = tokio::time::timeout(OPEN, host.read_serial_log(reading)).await;
        let opened = opened.unwrap_or_else(|_| Err(Status::unavailable("no answer in time")));
        let parts = opened.map_err(refused)?.into_inner();
        self.record(caller, id, request).await?;
        let heartbeat = self.heartbeat();
        Ok(self.streams.open("ReadSerialLog", move |sink| {
            let reader = Reader {
                sink,
                parts,
                id,
                next: resumed.unwrap_or(0),
                heartbeat,
            };
            reader.run()
        }))
    }

    /// The host instance that the allocation was placed on: a later one of the same node has nothing of it.
    async fn host_with_log(
        &self,
        caller: &Caller,
        id: Uuid,
    ) -> Result<VirtualMachinesClient<gpuaas_common::client::GrpcChannel>, Error> {
        let mut conn = self.deps.pool.acquire().await?;
        let (allocation, _) = owned(&mut conn, caller, id).await?;
        if allocation.capacity_shape == Shape::Baremetal {
            return Err(none(
                "The allocation is bare metal, which has no serial log.",
            ));
        }
        let never_placed = || none("The allocation was never placed, so it has no serial log.");
        let (host, _) = Host::placed_on(&self.deps, &mut conn, id, never_placed).await?;
        Ok(host)
    }

    async fn record(
        &self,
        caller: &Caller,
        id: Uuid,
        request: &pb::ReadSerialLogRequest,
    ) -> Result<(), Error> {
        let mut tx = self.deps.pool.begin().await?;
        let (_, project) = owned(&mut tx, caller, id).await?;
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "serial_log.read",
            resource: "allocation",
            resource_id: &id.to_string(),
            request_id: &caller.request_id,
            detail: audit::in_project(
                json!({"follow": request.follow, "resumed": !request.resume_token.is_empty()}),
                project.id(),
            ),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(())
    }
}

fn query(id: Uuid) -> [String; 2] {
    ["serial_log".to_owned(), id.to_string()]
}

fn none(message: &str) -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::SerialLogUnavailable,
        message,
    )
}

/// A host's refusal as its tenant gets it.
fn refused(status: Status) -> Error {
    if status.code() == Code::Unimplemented {
        return none("The agent of the allocation's host is too old to show a serial log.");
    }
    let error = Error::from(status);
    match error.reason() {
        // of another log: the archive began anew
        ErrorReason::FieldInvalid if error.fields().iter().any(|(field, _)| field == "offset") => {
            expired()
        }
        ErrorReason::SerialLogUnavailable => none(
            "The host has no serial log of the allocation: its VM has printed nothing yet, or it is not retained any more.",
        ),
        ErrorReason::FieldInvalid | ErrorReason::Overloaded => error,
        _ => {
            tracing::warn!("cannot read a serial log: {}", error.chain());
            Error::new(
                Code::Unavailable,
                ErrorReason::HostUnreachable,
                "The allocation's host does not answer. Try again later.",
            )
        }
    }
}

impl Reader {
    async fn run(mut self) -> Result<(), Stop> {
        loop {
            match tokio::time::timeout(self.heartbeat, self.parts.message()).await {
                Err(_) => self.send(Event::Heartbeat(WatchHeartbeat {})).await?,
                Ok(Ok(Some(part))) => self.part(part).await?,
                Ok(Ok(None)) => return self.send(Event::End(WatchEnd {})).await,
                Ok(Err(status)) => return Err(Stop::Because(refused(status))),
            }
        }
    }

    async fn part(&mut self, part: agent::ReadSerialLogResponse) -> Result<(), Stop> {
        self.next = part.offset + part.data.len() as u64;
        if part.data.is_empty() {
            return self.send(Event::Synced(WatchSynced {})).await;
        }
        let part = pb::SerialLogPart {
            offset: part.offset,
            print_time: part.read_time,
            data: part.data,
        };
        self.send(Event::Part(part)).await
    }

    async fn send(&self, event: Event) -> Result<(), Stop> {
        let query = query(self.id);
        let message = pb::ReadSerialLogResponse {
            event: Some(event),
            resume_token: token::encode(&self.next, &query.each_ref().map(String::as_str)),
        };
        self.sink.send(message).await
    }
}
