//! `ReadSerialLog`: what the VM of an allocation printed, as a stream.
use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::status;
use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::node::Node;
use crate::serial::{Chunk, Position, Reading, follow};
use crate::wall_clock::timestamp;

/// What is answered.
pub type SerialLogStream =
    Pin<Box<dyn Stream<Item = Result<pb::ReadSerialLogResponse, Status>> + Send>>;

/// Parts that wait for their reader.
const WAITING: usize = 1;

/// Where a request begins.
fn position(request: &pb::ReadSerialLogRequest) -> HostResult<Position> {
    let since_ms = request
        .since_time
        .as_ref()
        .map(|since| {
            jiff::Timestamp::new(since.seconds, since.nanos)
                .map(jiff::Timestamp::as_millisecond)
                .map_err(|_| HostError::invalid("since_time", "must be a time"))
        })
        .transpose()?;
    Ok(Position {
        offset: request.offset,
        since_ms,
        tail_lines: request.tail_lines,
    })
}

fn holds(node: &Node, allocation: AllocationId) -> HostResult<bool> {
    let holds = node.journal.holds()?;
    Ok(holds.iter().any(|hold| hold.allocation == allocation))
}

fn wire(chunk: Chunk) -> pb::ReadSerialLogResponse {
    pb::ReadSerialLogResponse {
        offset: chunk.offset,
        read_time: Some(timestamp(chunk.time_ms)),
        data: chunk.data,
    }
}

/// Opens the stream.
///
/// # Errors
/// A field that is wrong, no log, too many readers.
pub async fn read(
    node: &Arc<Node>,
    request: &pb::ReadSerialLogRequest,
) -> HostResult<SerialLogStream> {
    let allocation: AllocationId = request.allocation_id.parse()?;
    let from = position(request)?;
    let reading = Reading::open(
        &node.serial,
        allocation.vm_name(),
        from,
        holds(node, allocation)?,
    )
    .await?;
    let (to, received) = mpsc::channel(WAITING);
    let (node, follows) = (Arc::clone(node), request.follow);
    tokio::spawn(async move {
        let poll = node.settings.polling.serial();
        let is_expected = || holds(&node, allocation);
        if let Err(error) = follow(reading, follows, poll, is_expected, &to).await {
            tracing::warn!(allocation_id = %allocation, %error, "end reading of a serial log");
            // nobody needs to know who is gone
            let _ = to.send(Err(error)).await;
        }
    });
    let parts = ReceiverStream::new(received).map(|part| part.map(wire).map_err(status));
    Ok(Box::pin(parts))
}
