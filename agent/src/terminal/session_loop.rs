//! Joins a shell and a call: output within the caller's window, input within ours.
use bytes::{Bytes, BytesMut};
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::open_request::Message as Incoming;
use gpuaas_proto::gpuaas::agent::v1::open_response::Message as Outgoing;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::shell::{CHUNK, Shell, ShellMessage, Size};

/// Both windows, without any effect.
#[derive(Debug)]
struct Windows {
    output_window: u64,
    input_window: u64,
    sent: u64,
    acked: u64,
    received: u64,
    taken: u64,
}

impl Windows {
    /// Whether one more piece of output fits. A piece is never cut: the window is exact to the byte by reading only
    /// when a complete piece fits.
    fn may_read(&self) -> bool {
        self.sent - self.acked + CHUNK as u64 <= self.output_window.max(CHUNK as u64)
    }

    fn ack(&mut self, offset: u64) -> Result<(), Error> {
        if offset > self.sent {
            return Err(Error::invalid("output_ack", "is beyond what was sent"));
        }
        // acknowledgements that overtook each other change nothing
        self.acked = self.acked.max(offset);
        Ok(())
    }

    fn receive(&mut self, length: usize) -> Result<(), Error> {
        self.received += length as u64;
        if self.received - self.taken > self.input_window {
            return Err(Error::invalid("input", "is beyond the window"));
        }
        Ok(())
    }
}

/// Relays a shell until it ends or the caller goes.
///
/// # Errors
/// A caller that breaks the contract.
pub async fn run(
    mut shell: Shell,
    mut requests: Streaming<pb::OpenRequest>,
    answers: &mpsc::Sender<Result<pb::OpenResponse, Status>>,
    (output_window, input_window): (u32, u32),
) -> Result<(), Status> {
    let mut windows = Windows {
        output_window: output_window.into(),
        input_window: input_window.into(),
        sent: 0,
        acked: 0,
        received: 0,
        taken: 0,
    };
    let mut waiting = BytesMut::new();
    // while it waits, input is still read: a caller that sends before it reads would wait for us, and we for it
    let mut answer = None;
    let mut is_over = false;
    loop {
        tokio::select! {
            biased;
            () = answers.closed() => return Ok(()),
            request = requests.message() => {
                let Some(request) = request? else { return Ok(()) };
                match request.message {
                    Some(Incoming::Input(data)) => {
                        windows.receive(data.len())?;
                        waiting.extend_from_slice(&data);
                    }
                    Some(Incoming::OutputAck(offset)) => windows.ack(offset)?,
                    Some(Incoming::Resize(size)) => {
                        shell.size.send_replace(Size::parse(&size)?);
                    }
                    Some(Incoming::Start(_)) => return Err(Error::invalid("start", "must come once").into()),
                    None => {}
                }
            }
            permit = answers.reserve(), if answer.is_some() => {
                let Ok(permit) = permit else { return Ok(()) };
                permit.send(Ok(pb::OpenResponse { message: answer.take() }));
                if is_over {
                    return Ok(());
                }
            }
            Ok(()) = shell.taken.changed(), if answer.is_none() => {
                windows.taken = *shell.taken.borrow_and_update();
                answer = Some(Outgoing::InputAck(windows.taken));
            }
            permit = shell.input.reserve(), if !waiting.is_empty() => {
                match permit {
                    Ok(permit) => permit.send(waiting.split().freeze()),
                    // a shell that is ending takes no more input
                    Err(_) => waiting.clear(),
                }
            }
            message = shell.messages.recv(), if answer.is_none() && windows.may_read() => {
                let status = match message {
                    Some(ShellMessage::Output(data)) => {
                        windows.sent += data.len() as u64;
                        answer = Some(Outgoing::Output(Bytes::into(data)));
                        continue;
                    }
                    Some(ShellMessage::Exit(status)) => status,
                    None => None,
                };
                answer = Some(Outgoing::Exit(pb::TerminalExit { status }));
                is_over = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_kept_to_the_byte() {
        let mut windows = Windows {
            output_window: 2 * CHUNK as u64,
            input_window: 1000,
            sent: 0,
            acked: 0,
            received: 0,
            taken: 0,
        };
        assert!(windows.may_read());
        windows.sent = CHUNK as u64;
        assert!(windows.may_read());
        windows.sent += 1;
        assert!(!windows.may_read(), "a whole piece would not fit");
        windows.ack(1).expect("sent");
        assert!(windows.may_read());
        windows.ack(0).expect("overtaken");
        assert_eq!(windows.acked, 1);
        assert!(windows.ack(u64::MAX).is_err());

        windows.receive(1000).expect("fits");
        assert!(windows.receive(1).is_err());
    }

    #[test]
    fn a_window_smaller_than_a_piece_still_moves() {
        let windows = Windows {
            output_window: 4096,
            input_window: 4096,
            sent: 0,
            acked: 0,
            received: 0,
            taken: 0,
        };
        assert!(windows.may_read());
    }
}
