//! The serial console of every VM, as a stream.
use std::sync::atomic::Ordering;

use gpuaas_proto::gpuaas::allocation::v1::read_serial_log_response::Event;
use gpuaas_proto::gpuaas::allocation::v1::{ReadSerialLogResponse, SerialLogPart};
use gpuaas_proto::gpuaas::common::v1::{WatchEnd, WatchSynced};
use tokio::sync::mpsc;
use tonic::Status;

use super::record::{HELD_UP, Record};

/// Bytes of one part.
const PART: usize = 16 << 10;

/// Sends what was printed and what is, until the VM or the reader is gone.
pub(super) async fn serial_log(
    record: Record,
    sender: mpsc::Sender<Result<ReadSerialLogResponse, Status>>,
) {
    record.open.fetch_add(1, Ordering::SeqCst);
    let mut console = record.console.subscribe();
    let (mut sent, mut is_synced) = (0, false);
    loop {
        let (part, is_gone) = {
            let console = console.borrow_and_update();
            let rest = &console.printed[sent..];
            (rest[..rest.len().min(PART)].to_vec(), console.is_gone)
        };
        let event = if !part.is_empty() {
            let offset = sent as u64;
            sent += part.len();
            Some(Event::Part(SerialLogPart {
                offset,
                data: part,
                ..SerialLogPart::default()
            }))
        } else if !is_synced {
            is_synced = true;
            Some(Event::Synced(WatchSynced {}))
        } else if is_gone {
            Some(Event::End(WatchEnd {}))
        } else {
            None
        };
        let Some(event) = event else {
            tokio::select! {
                changed = console.changed() => if changed.is_err() { break },
                () = sender.closed() => break,
            }
            continue;
        };
        let is_end = matches!(event, Event::End(_));
        let place = match tokio::time::timeout(HELD_UP, sender.reserve()).await {
            Ok(place) => place,
            Err(_) => {
                record.held_up.store(true, Ordering::SeqCst);
                sender.reserve().await
            }
        };
        let Ok(place) = place else { break };
        place.send(Ok(ReadSerialLogResponse {
            event: Some(event),
            ..ReadSerialLogResponse::default()
        }));
        if is_end {
            break;
        }
    }
    record.open.fetch_sub(1, Ordering::SeqCst);
}
