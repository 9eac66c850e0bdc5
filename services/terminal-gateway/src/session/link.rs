//! A client's connection as a session sees it, and what it brings.
use std::time::Duration;

use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_response::Message;
use tokio::sync::mpsc;
use tonic::Status;
use uuid::Uuid;

use crate::domain::end::End;
use crate::domain::message::{Frame, Say, SecretHash, Size};

/// A connection that takes no goodbye for this long gets none.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where answers go. Two messages wait at most.
pub(crate) type Out = mpsc::Sender<Result<pb::RelayResponse, Status>>;

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) id: Uuid,
    pub(crate) out: Out,
}

/// What a connection brings to its session.
#[derive(Debug)]
pub(crate) enum Command {
    /// It wants to go on with the session.
    Resume {
        link: Link,
        token: SecretHash,
        received: u64,
        size: Size,
    },
    /// It said something.
    Frame { link: Uuid, frame: Frame },
    /// It is gone.
    Gone { link: Uuid },
}

/// A message on the wire.
pub(crate) fn wire(message: Message) -> Result<pb::RelayResponse, Status> {
    Ok(pb::RelayResponse {
        message: Some(message),
    })
}

impl Link {
    /// Says why, and closes.
    pub(crate) async fn finish(&self, end: &End) {
        let closed = Say::Closed {
            reason: end.reason(),
            message: end.message(),
        };
        let close = pb::Close {
            code: end.code(),
            reason: end.reason().to_owned(),
        };
        let goodbye = async {
            for message in [Message::Text(closed.to_text()), Message::Close(close)] {
                if self.out.send(wire(message)).await.is_err() {
                    break;
                }
            }
        };
        // a connection that is gone needs no goodbye
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
    }
}
