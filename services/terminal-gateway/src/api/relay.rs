//! `TerminalRelayService`: reads the protocol from one WebSocket and brings it to its session.
use std::pin::Pin;
use std::time::Duration;

use futures::Stream;
use gpuaas_common::origin;
use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_request::Message;
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_server::TerminalRelayService;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use uuid::Uuid;

use crate::domain::end::End;
use crate::domain::message::{self, First};
use crate::session::Deps;
use crate::session::link::{Command, Link};
use crate::session::open::{self, OpenSpec};
use crate::session::registry::Handle;

/// A connection that says nothing for this long at its beginning is closed.
const FIRST: Duration = Duration::from_secs(10);
/// Messages to a connection that wait.
const ANSWERS: usize = 2;

/// The service.
pub(crate) struct RelayApi {
    pub(crate) deps: Deps,
}

/// Why the reading of a connection ends.
enum Stop {
    /// It is gone, or its session has let go of it.
    Gone,
    /// It is told why.
    End(End),
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Self::End(end)
    }
}

async fn next(requests: &mut Streaming<pb::RelayRequest>) -> Result<Message, Stop> {
    // what broke the leg to the gateway broke the connection
    let request = requests.message().await.ok().flatten().ok_or(Stop::Gone)?;
    request.message.ok_or(Stop::Gone)
}

/// Reads the first messages and finds the session.
async fn begin(
    deps: &Deps,
    requests: &mut Streaming<pb::RelayRequest>,
    link: &Link,
) -> Result<Handle, Stop> {
    let reading = async {
        let Message::Hello(hello) = next(requests).await? else {
            return Err(Stop::Gone);
        };
        match next(requests).await? {
            Message::Text(text) => Ok((hello, message::first(&text)?)),
            Message::Silent(_) => Err(Stop::End(End::Silent)),
            _ => Err(Stop::End(End::ProtocolError(
                "the first message must be attach or resume".to_owned(),
            ))),
        }
    };
    let (hello, first) = tokio::time::timeout(FIRST, reading)
        .await
        .map_err(|_| End::Silent)??;
    match first {
        First::Attach {
            ticket,
            allocation_id,
            size,
            term,
        } => {
            let spec = OpenSpec {
                origin: hello.origin,
                principal: hello.principal,
                request_id: hello.request_id,
                ticket,
                allocation_id,
                size,
                term,
            };
            Ok(open::open(deps, spec, link.clone()).await?)
        }
        First::Resume {
            session_id,
            token,
            received,
            size,
        } => {
            let same = |handle: &Handle| {
                handle.origin == hello.origin
                    && (hello.principal.is_empty() || handle.principal == hello.principal)
            };
            let handle = deps
                .registry
                .get(session_id)
                .filter(same)
                .ok_or(End::SessionGone)?;
            let resume = Command::Resume {
                link: link.clone(),
                token,
                received,
                size,
            };
            handle
                .commands
                .send(resume)
                .await
                .map_err(|_| End::SessionGone)?;
            Ok(handle)
        }
    }
}

/// Brings everything else to the session.
async fn forward(requests: &mut Streaming<pb::RelayRequest>, handle: &Handle, link: Uuid) -> Stop {
    loop {
        let frame = match next(requests).await {
            Ok(Message::Text(text)) => message::text(&text),
            Ok(Message::Binary(data)) => message::binary(&data),
            Ok(Message::AccessLost(_)) => {
                tracing::info!(allocation_id = %handle.allocation_id, project_id = %handle.project_id, principal = handle.principal, "end terminal of a user without access");
                handle.kill.order(End::AccessLost);
                return Stop::Gone;
            }
            Ok(Message::Silent(_)) => return Stop::End(End::Silent),
            Ok(Message::Hello(_)) => return Stop::Gone,
            Err(stop) => return stop,
        };
        match frame {
            Ok(frame) => {
                if handle
                    .commands
                    .send(Command::Frame { link, frame })
                    .await
                    .is_err()
                {
                    return Stop::Gone;
                }
            }
            Err(end) => return Stop::End(end),
        }
    }
}

async fn serve(deps: Deps, mut requests: Streaming<pb::RelayRequest>, link: Link) {
    let stop = match begin(&deps, &mut requests, &link).await {
        Ok(handle) => {
            let stop = forward(&mut requests, &handle, link.id).await;
            // a session that has ended knows
            let _ = handle.commands.send(Command::Gone { link: link.id }).await;
            stop
        }
        Err(stop) => stop,
    };
    if let Stop::End(end) = stop {
        link.finish(&end).await;
    }
}

#[tonic::async_trait]
impl TerminalRelayService for RelayApi {
    type RelayStream = Pin<Box<dyn Stream<Item = Result<pb::RelayResponse, Status>> + Send>>;

    async fn relay(
        &self,
        request: Request<Streaming<pb::RelayRequest>>,
    ) -> Result<Response<Self::RelayStream>, Status> {
        let (out, stream) = mpsc::channel(ANSWERS);
        let link = Link {
            id: Uuid::now_v7(),
            out,
        };
        let serving = serve(self.deps.clone(), request.into_inner(), link);
        self.deps.tasks.spawn(origin::carry(serving));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}
