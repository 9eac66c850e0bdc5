//! What the service behind the gateway streams, by the id that is watched.
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::allocation::v1::watch_allocation_response::Event;
use gpuaas_proto::gpuaas::allocation::v1::{
    TimelineEntry, WatchAllocationRequest, WatchAllocationResponse,
};
use gpuaas_proto::gpuaas::common::v1::{WatchEnd, WatchHeartbeat, WatchSynced};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use tonic::{Code, Status};

type Message = Result<WatchAllocationResponse, Status>;

fn message(event: Event, token: &str) -> Message {
    Ok(WatchAllocationResponse {
        event: Some(event),
        resume_token: token.to_owned(),
    })
}

fn entry(sequence: i64, message: String) -> Event {
    Event::Entry(TimelineEntry {
        sequence,
        message,
        ..Default::default()
    })
}

/// The messages of one stream, from after its token on.
pub fn of(request: &WatchAllocationRequest) -> Box<dyn Iterator<Item = Message> + Send> {
    let from: i64 = request.resume_token.parse().unwrap_or(0);
    match request.allocation_id.as_str() {
        // three entries and the end
        "whole" => {
            let entries = (from + 1..=3).map(|n| {
                let text = format!("line one of {n}\nline two");
                message(entry(n, text), &n.to_string())
            });
            let synced = std::iter::once(message(Event::Synced(WatchSynced {}), ""));
            let end = std::iter::once(message(Event::End(WatchEnd {}), "3"));
            Box::new(synced.chain(entries).chain(end))
        }
        "broken" => {
            let error = Error::new(
                Code::Unavailable,
                ErrorReason::DependencyUnavailable,
                "Watch again with the last resume token.",
            );
            let first = message(entry(1, "first".to_owned()), "1");
            Box::new([first, Err(error.into())].into_iter())
        }
        // more than any buffer on the way holds
        "flood" => {
            let text = "x".repeat(4096);
            Box::new((1..=20_000).map(move |n| message(entry(n, text.clone()), &n.to_string())))
        }
        _ => Box::new(std::iter::once(message(
            Event::Heartbeat(WatchHeartbeat {}),
            "7",
        ))),
    }
}
