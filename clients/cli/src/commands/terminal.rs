//! `terminal`: a shell in an allocation through the platform, without a key and without a way to its network.
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use gpuaas_proto::gpuaas::terminal::v1::{CreateTerminalSessionResponse, TerminalKind};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::pause::pauses;
use crate::session::Session;
use crate::socket::{HEARTBEAT_TIMEOUT, Socket, begin, connect, refused, text, ticket};
use crate::transfer::Transfer;
use crate::tty::{self, Escape, Raw};

/// Pauses between attempts to come back, the first and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// Ctrl-D: what a shell takes for the end of its input.
const END_OF_INPUT: &[u8] = &[4];
/// After so much silence a shell is taken to be ready for input, and one that still runs after the end of its input is told
/// again: what comes while it sets up its terminal is dropped, and a program that it runs takes an end of its own.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
}

/// How a connection ended.
enum Ended {
    /// The shell did, with this status.
    Exit(Option<u8>),
    /// The user left.
    Left,
    /// The platform closed it, with a reason.
    Closed(Value),
    /// It was lost; the session may resume.
    Lost,
}

/// Runs it. The exit code is the shell's.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let ticket = ticket(session, id.clone(), TerminalKind::Unspecified).await?;
    let term = std::env::var("TERM").ok().filter(|term| !term.is_empty());
    let (cols, rows) = tty::size();
    let attach = json!({"type": "attach", "ticket": ticket.ticket, "allocation_id": id, "cols": cols, "rows": rows,
        "term": term.unwrap_or_else(|| "xterm-256color".to_owned())});
    let mut terminal = Terminal::open(session, ticket, attach).await?;
    let outcome = terminal.session_loop().await;
    // the terminal is as it was before anything is printed
    drop(terminal);
    match outcome? {
        Ended::Exit(status) => match status {
            Some(0) | None => Ok(()),
            Some(status) => std::process::exit(i32::from(status)),
        },
        Ended::Left => Ok(()),
        Ended::Closed(closed) => Err(refused(session, &closed)),
        Ended::Lost => Err(Failure::Local(
            "the connection was lost and the session has ended".to_owned(),
        )),
    }
}

/// A session with its keyboard and screen.
struct Terminal<'a> {
    session: &'a Session,
    websocket_path: String,
    subprotocol: String,
    socket: Option<Socket>,
    ready: Value,
    transfer: Transfer,
    typed: mpsc::Receiver<Vec<u8>>,
    typing: bool,
    /// The shell takes input: always from a keyboard, from elsewhere once it has shown something.
    prompted: bool,
    escape: Escape,
    resized: Signal,
    _raw: Raw,
}

impl<'a> Terminal<'a> {
    async fn open(
        session: &'a Session,
        ticket: CreateTerminalSessionResponse,
        attach: Value,
    ) -> Result<Self, Failure> {
        let (websocket_path, subprotocol) = (ticket.websocket_path, ticket.subprotocol);
        let mut socket = connect(session, &websocket_path, &subprotocol).await?;
        let (ready, first) = begin(&mut socket, &attach).await;
        let Some(ready) = ready else {
            return Err(first.map_or_else(
                || Failure::Local("the connection was lost before the shell started".to_owned()),
                |closed| refused(session, &closed),
            ));
        };
        if std::io::stderr().is_terminal() {
            note!("Connected. To leave, type exit, or press Enter ~ . at any time.");
            if ready["recorded"] == true {
                note!("This session is recorded.");
            }
        }
        let mut transfer = Transfer::default();
        transfer.ready(&ready);
        let resized = signal(SignalKind::window_change()).map_err(|error| {
            Failure::Local(format!("cannot watch the terminal's size: {error}"))
        })?;
        Ok(Self {
            session,
            websocket_path,
            subprotocol,
            socket: Some(socket),
            ready,
            transfer,
            typed: tty::typed(4096),
            typing: true,
            prompted: std::io::stdin().is_terminal(),
            escape: Escape::default(),
            resized,
            _raw: Raw::enter()?,
        })
    }

    /// Until the session is over: a lost connection is taken up again as long as the platform keeps the session.
    async fn session_loop(&mut self) -> Result<Ended, Failure> {
        loop {
            if let Some(mut socket) = self.socket.take() {
                match self.serve(&mut socket).await? {
                    Ended::Lost => {}
                    ended => {
                        let _ =
                            tokio::time::timeout(Duration::from_secs(1), socket.close(None)).await;
                        return Ok(ended);
                    }
                }
            }
            let is_typed = std::io::stdin().is_terminal();
            if is_typed {
                note!("\r\n[The connection is lost. Connecting again …]\r");
            }
            let at = json!({"type": "resume", "session_id": self.ready["session_id"],
                "resume_token": self.ready["resume_token"], "received": self.transfer.received()});
            let keeps = Duration::from_secs(self.ready["resume_seconds"].as_u64().unwrap_or(0));
            let path = (self.websocket_path.as_str(), self.subprotocol.as_str());
            let resumed = tokio::select! {
                resumed = resume(self.session, path, at, keeps) => resumed,
                () = left(&mut self.typed, &mut self.escape, &mut self.transfer), if is_typed => {
                    return Ok(Ended::Left);
                }
            };
            match resumed {
                Some(Ok((socket, ready))) => {
                    self.transfer.ready(&ready);
                    self.ready = ready;
                    self.socket = Some(socket);
                }
                Some(Err(closed)) => return Ok(Ended::Closed(closed)),
                None => return Ok(Ended::Lost),
            }
        }
    }

    async fn serve(&mut self, socket: &mut Socket) -> Result<Ended, Failure> {
        let mut closed = Value::Null;
        let mut exit = None;
        let mut quiet = Instant::now() + QUIET;
        loop {
            if let Some(message) = self.transfer.next_message() {
                if socket.send(Message::binary(message)).await.is_err() {
                    return Ok(Ended::Lost);
                }
                continue;
            }
            tokio::select! {
                said = tokio::time::timeout(HEARTBEAT_TIMEOUT, socket.next()) => match said {
                    Ok(Some(Ok(Message::Binary(data)))) => {
                        let Some((output, ack)) = self.transfer.output(&data) else {
                            return Ok(Ended::Lost);
                        };
                        show(output)?;
                        self.prompted = true;
                        quiet = Instant::now() + QUIET;
                        // an acknowledgement that does not arrive is made up for by the next one
                        let _ = socket.send(text(&ack)).await;
                    }
                    Ok(Some(Ok(Message::Text(said)))) => {
                        let said: Value = serde_json::from_str(&said).unwrap_or_default();
                        match said["type"].as_str() {
                            Some("input_ack") => self.transfer.confirm(said["offset"].as_u64().unwrap_or(0)),
                            Some("gap") => show(b"\r\n[some output was lost]\r\n")?,
                            Some("exit") => exit = Some(said["status"].as_u64().and_then(|status| u8::try_from(status).ok())),
                            Some("closed") => closed = said,
                            _ => {}
                        }
                    }
                    Ok(Some(Ok(Message::Close(_)))) => {
                        return Ok(match exit {
                            Some(status) => Ended::Exit(status),
                            None if closed["reason"] == "silent" || closed.is_null() => Ended::Lost,
                            None => Ended::Closed(closed),
                        });
                    }
                    Ok(Some(Ok(_))) => {}
                    Ok(Some(Err(_)) | None) | Err(_) => return Ok(Ended::Lost),
                },
                data = self.typed.recv(), if self.typing && self.prompted && self.transfer.takes_input() => match data {
                    Some(data) if std::io::stdin().is_terminal() && self.escape.found(&data) => {
                        let _ = socket.send(text(&json!({"type": "close"}))).await;
                        return Ok(Ended::Left);
                    }
                    Some(data) => self.transfer.type_in(&data),
                    None => {
                        self.typing = false;
                        self.transfer.type_in(END_OF_INPUT);
                        quiet = Instant::now() + QUIET;
                    }
                },
                () = tokio::time::sleep_until(quiet.into()), if !self.prompted || !self.typing => {
                    if self.prompted && self.transfer.takes_input() {
                        self.transfer.type_in(END_OF_INPUT);
                    }
                    self.prompted = true;
                    quiet = Instant::now() + QUIET;
                },
                _ = self.resized.recv() => {
                    let (cols, rows) = tty::size();
                    let _ = socket.send(text(&json!({"type": "resize", "cols": cols, "rows": rows}))).await;
                }
            }
        }
    }
}

/// A new connection of the session, with what the platform says of it, or why there is none any more; nothing once the platform
/// `keeps` it no longer.
async fn resume(
    session: &Session,
    (websocket_path, subprotocol): (&str, &str),
    mut message: Value,
    keeps: Duration,
) -> Option<Result<(Socket, Value), Value>> {
    let deadline = Instant::now() + keeps;
    let (first, longest) = PAUSES;
    let mut waits = pauses(first, longest);
    while Instant::now() < deadline {
        tokio::time::sleep(waits.next()?).await;
        let (cols, rows) = tty::size();
        message["cols"] = cols.into();
        message["rows"] = rows.into();
        let Ok(mut socket) = connect(session, websocket_path, subprotocol).await else {
            continue;
        };
        match begin(&mut socket, &message).await {
            (Some(ready), _) => return Some(Ok((socket, ready))),
            (None, Some(closed)) => return Some(Err(closed)),
            (None, None) => {}
        }
    }
    None
}

/// Returns when the user leaves a session that has no connection; what else is typed is kept for the next one.
async fn left(typed: &mut mpsc::Receiver<Vec<u8>>, escape: &mut Escape, transfer: &mut Transfer) {
    while transfer.takes_input()
        && let Some(data) = typed.recv().await
    {
        if escape.found(&data) {
            return;
        }
        transfer.type_in(&data);
    }
    std::future::pending::<()>().await;
}

fn show(output: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(output)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::Local(format!("cannot write the shell's output: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_without_a_connection_can_be_left_and_keeps_what_is_typed() {
        let (keyboard, mut typed) = mpsc::channel(8);
        for key in ["ls", "\r", "~", "."] {
            keyboard.try_send(key.as_bytes().to_vec()).expect("room");
        }
        let mut transfer = Transfer::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime");
        runtime.block_on(left(&mut typed, &mut Escape::default(), &mut transfer));
        transfer.ready(&json!({"output_offset": 0, "input_offset": 0, "input_window": 10}));
        let message = transfer.next_message().expect("input");
        assert_eq!(message.split_at(8).1, b"ls\r~");
    }
}
