//! `tunnel`: the SSH server of an allocation on standard input and output, through the platform. The system's `ssh` runs it as
//! its ProxyCommand, and encrypts all that passes.
use std::io::Write as _;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use gpuaas_proto::gpuaas::terminal::v1::TerminalKind;
use gpuaas_proto::json::Enumeration as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::session::Session;
use crate::socket::{HEARTBEAT_TIMEOUT, Socket, begin, connect, refused, text, ticket};
use crate::transfer::Transfer;
use crate::tty;

/// Most bytes of one piece of input.
const PIECE: usize = 16 << 10;
/// Longest wait for the platform's goodbye.
const GOODBYE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
}

/// How a tunnel ended.
enum Ended {
    /// One of both ends is done.
    Done,
    /// The platform closed it, with a reason.
    Closed(Value),
    /// The connection to the platform was lost.
    Lost,
}

/// Runs it, until one of both ends closes.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let ticket = ticket(session, id.clone(), TerminalKind::SshTunnel).await?;
    let mut socket = connect(session, &ticket.websocket_path, &ticket.subprotocol).await?;
    // a tunnel has no size, and the protocol's first message has one
    let attach = json!({"type": "attach", "ticket": ticket.ticket, "allocation_id": id, "cols": 80, "rows": 24});
    let ready = match begin(&mut socket, &attach).await {
        (Some(ready), _) => ready,
        (None, Some(closed)) => return Err(refused(session, &closed)),
        (None, None) => return Err(lost()),
    };
    if ready["kind"] != TerminalKind::SshTunnel.word() {
        // a part of the platform that is older would have us type into a shell
        let _ = socket.send(text(&json!({"type": "close"}))).await;
        return Err(Failure::Local(
            "the platform does not support tunnels yet; use --via network".to_owned(),
        ));
    }
    match Tunnel::new(&ready).relay(&mut socket).await {
        Ended::Done => Ok(()),
        Ended::Closed(closed) => Err(refused(session, &closed)),
        Ended::Lost => Err(lost()),
    }
}

fn lost() -> Failure {
    Failure::Local("the connection to the platform was lost, and the tunnel with it".to_owned())
}

/// Writes to standard output in a thread of its own, so that the platform is answered however slowly the reader takes it.
/// What waits is at most the window of output: only what was written is acknowledged.
fn output() -> (
    std::sync::mpsc::Sender<Vec<u8>>,
    mpsc::UnboundedReceiver<usize>,
) {
    let (send, pieces) = std::sync::mpsc::channel::<Vec<u8>>();
    let (written, receive) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        for piece in pieces {
            let done = out.write_all(&piece).and_then(|()| out.flush());
            if done.is_err() || written.send(piece.len()).is_err() {
                break;
            }
        }
    });
    (send, receive)
}

/// Both directions.
struct Tunnel {
    transfer: Transfer,
    input: mpsc::Receiver<Vec<u8>>,
    has_input: bool,
    output: std::sync::mpsc::Sender<Vec<u8>>,
    written: mpsc::UnboundedReceiver<usize>,
    /// Offset of the next byte of output that is to be written.
    shown: u64,
}

impl Tunnel {
    fn new(ready: &Value) -> Self {
        let mut transfer = Transfer::default();
        transfer.ready(ready);
        let (output, written) = output();
        Self {
            shown: transfer.received(),
            transfer,
            input: tty::typed(PIECE),
            has_input: true,
            output,
            written,
        }
    }

    async fn relay(&mut self, socket: &mut Socket) -> Ended {
        let mut closed = Value::Null;
        let mut exited = false;
        loop {
            if let Some(message) = self.transfer.next_message() {
                if socket.send(Message::binary(message)).await.is_err() {
                    return Ended::Lost;
                }
                continue;
            }
            if !self.has_input && self.transfer.is_confirmed() {
                return self.leave(socket).await;
            }
            tokio::select! {
                said = tokio::time::timeout(HEARTBEAT_TIMEOUT, socket.next()) => match said {
                    Ok(Some(Ok(Message::Binary(data)))) => {
                        // a byte that is missing breaks the encryption: better no more at all
                        let Some((output, _)) = self.transfer.output(&data) else {
                            return Ended::Lost;
                        };
                        if self.output.send(output.to_vec()).is_err() {
                            return self.leave(socket).await;
                        }
                    }
                    Ok(Some(Ok(Message::Text(said)))) => {
                        let said: Value = serde_json::from_str(&said).unwrap_or_default();
                        match said["type"].as_str() {
                            Some("input_ack") => self.transfer.confirm(said["offset"].as_u64().unwrap_or(0)),
                            Some("gap") => return Ended::Lost,
                            Some("exit") => exited = true,
                            Some("closed") => closed = said,
                            _ => {}
                        }
                    }
                    Ok(Some(Ok(Message::Close(_)))) => {
                        if exited {
                            self.drain().await;
                            return Ended::Done;
                        }
                        return if closed.is_null() { Ended::Lost } else { Ended::Closed(closed) };
                    }
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(_)) | None) | Err(_) => return Ended::Lost,
                },
                written = self.written.recv() => {
                    let Some(length) = written else {
                        // whoever reads the output is gone
                        return self.leave(socket).await;
                    };
                    self.shown += length as u64;
                    let ack = json!({"type": "ack", "received": self.shown});
                    if socket.send(text(&ack)).await.is_err() {
                        return Ended::Lost;
                    }
                }
                data = self.input.recv(), if self.has_input && self.transfer.takes_input() => match data {
                    Some(data) => self.transfer.type_in(&data),
                    None => self.has_input = false,
                },
            }
        }
    }

    /// Closes the tunnel from this end, when the other end has all that was sent.
    async fn leave(&mut self, socket: &mut Socket) -> Ended {
        let goodbye = async {
            if socket.send(text(&json!({"type": "close"}))).await.is_ok() {
                while let Some(Ok(said)) = socket.next().await {
                    match said {
                        Message::Close(_) => break,
                        // what was on its way
                        Message::Binary(data) => {
                            if let Some((output, _)) = self.transfer.output(&data) {
                                let _ = self.output.send(output.to_vec());
                            }
                        }
                        _ => {}
                    }
                }
            }
            self.drain().await;
        };
        // a platform that is gone needs no goodbye
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        Ended::Done
    }

    /// Waits until all output is written, or nobody takes it.
    async fn drain(&mut self) {
        while self.shown < self.transfer.received() {
            match self.written.recv().await {
                Some(length) => self.shown += length as u64,
                None => break,
            }
        }
    }
}
