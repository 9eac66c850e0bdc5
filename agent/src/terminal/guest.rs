//! A shell in a guest, by SSH with the host's relay key (D-84, D-85).
//!
//! The tenant controls the server at the other end ([`crate::guest::ssh`]): every wait has a deadline, every buffer a size;
//! what it sends is bytes for the caller and nothing else.
use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use russh::client::{self, Handle, Msg};
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::net::TcpStream;

use super::shell::{CHUNK, Ends, Shell, ShellMessage, Size};
use super::target::Guest;
use crate::guest::RelayKey;
use crate::guest::ssh::{self, Client, SshError};

const CONNECT: Duration = Duration::from_secs(5);
const KEEPALIVE: Duration = Duration::from_secs(15);
/// Queued messages of the guest; each is at most [`CHUNK`] long.
const MESSAGES: usize = 4;
/// Messages before the answer to a request; more is no SSH server's way.
const NOISE: usize = 64;

/// Why there is no shell.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Nobody listens.
    #[error("the guest does not answer on its SSH port: {0}")]
    Connect(String),
    /// Another key than the recorded one.
    #[error("the guest shows another host key than the recorded one")]
    HostKey,
    /// The relay key is not accepted.
    #[error("the guest refuses the relay key")]
    Refused,
    /// No terminal or no shell.
    #[error("the guest gives no {0}")]
    Denied(&'static str),
    /// The protocol broke.
    #[error("the SSH session with the guest broke: {0}")]
    Session(#[from] russh::Error),
    /// It took too long.
    #[error("the guest's login took longer than {} s", .0.as_secs())]
    TooSlow(Duration),
}

impl From<SshError> for GuestError {
    fn from(error: SshError) -> Self {
        match error {
            SshError::HostKey => Self::HostKey,
            SshError::Refused => Self::Refused,
            SshError::Session(error) => Self::Session(error),
        }
    }
}

/// Logs in and takes a shell with a terminal.
///
/// # Errors
/// [`GuestError`].
pub async fn log_in(
    guest: &Guest,
    relay: &RelayKey,
    (term, size): (&str, Size),
    limit: Duration,
) -> Result<Shell, GuestError> {
    let stream = connect(guest.address, guest.port).await?;
    let login = async {
        let session = ssh::open(stream, &guest.host_keys, &guest.user, relay, config()).await?;
        let channel = session.channel_open_session().await?;
        let (mut from_guest, to_guest) = channel.split();
        to_guest
            .request_pty(true, term, size.cols.into(), size.rows.into(), 0, 0, &[])
            .await?;
        let mut early = Vec::new();
        granted(&mut from_guest, "terminal", &mut early).await?;
        to_guest.request_shell(true).await?;
        granted(&mut from_guest, "shell", &mut early).await?;
        Ok::<_, GuestError>((session, from_guest, to_guest, early))
    };
    let (session, from_guest, to_guest, early) = tokio::time::timeout(limit, login)
        .await
        .map_err(|_| GuestError::TooSlow(limit))??;
    Ok(Shell::spawn(size, move |ends| {
        run(session, from_guest, to_guest, early, ends)
    }))
}

/// Connects to the SSH server of a guest.
///
/// # Errors
/// [`GuestError::Connect`].
pub async fn connect(address: Ipv4Addr, port: u16) -> Result<TcpStream, GuestError> {
    tokio::time::timeout(CONNECT, TcpStream::connect((address, port)))
        .await
        .map_err(|_| GuestError::Connect("no answer".to_owned()))?
        .map_err(|error| GuestError::Connect(error.to_string()))
}

fn config() -> client::Config {
    client::Config {
        window_size: 64 << 10,
        maximum_packet_size: CHUNK as u32,
        channel_buffer_size: MESSAGES,
        keepalive_interval: Some(KEEPALIVE),
        nodelay: true,
        ..client::Config::default()
    }
}

/// Waits for the answer to a request; output that comes before it is buffered.
async fn granted(
    from_guest: &mut ChannelReadHalf,
    what: &'static str,
    early: &mut Vec<Bytes>,
) -> Result<(), GuestError> {
    for _ in 0..NOISE {
        match from_guest.wait().await {
            Some(ChannelMsg::Success) => return Ok(()),
            Some(ChannelMsg::Data { data }) => early.push(data),
            Some(ChannelMsg::Failure | ChannelMsg::Close) | None => break,
            Some(_) => {}
        }
    }
    Err(GuestError::Denied(what))
}

async fn run(
    session: Handle<Client>,
    from_guest: ChannelReadHalf,
    to_guest: ChannelWriteHalf<Msg>,
    early: Vec<Bytes>,
    ends: Ends,
) {
    let Ends {
        messages,
        mut input,
        taken,
        mut size,
    } = ends;
    let reading = read(from_guest, early, messages);
    let writing = async {
        while let Some(data) = input.recv().await {
            let length = data.len() as u64;
            if to_guest.data_bytes(data).await.is_err() {
                break;
            }
            taken.send_modify(|taken| *taken += length);
        }
        // output may still come
        std::future::pending::<()>().await;
    };
    let resizing = async {
        while size.changed().await.is_ok() {
            let now = *size.borrow_and_update();
            if to_guest
                .window_change(now.cols.into(), now.rows.into(), 0, 0)
                .await
                .is_err()
            {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // a size that was set before keys were typed reaches the guest before them
        biased;
        () = reading => {}
        () = resizing => {}
        () = writing => {}
    }
    // the guest is free to ignore our goodbye
    let _ = session
        .disconnect(russh::Disconnect::ByApplication, "", "")
        .await;
}

/// Passes output on until the shell ends. When the output is not consumed, nothing is read from the guest.
async fn read(
    mut from_guest: ChannelReadHalf,
    early: Vec<Bytes>,
    messages: tokio::sync::mpsc::Sender<ShellMessage>,
) {
    for data in early {
        if !pass_on(&messages, data).await {
            return;
        }
    }
    let mut status = None;
    let mut ended = false;
    while let Some(message) = from_guest.wait().await {
        let taken = match message {
            ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. } => {
                pass_on(&messages, data).await
            }
            ChannelMsg::ExitStatus { exit_status } => {
                status = Some(exit_status);
                true
            }
            ChannelMsg::Eof => {
                ended = true;
                true
            }
            ChannelMsg::Close => break,
            _ => true,
        };
        if !taken {
            return;
        }
        // a guest that sends both and never closes has ended all the same
        if ended && status.is_some() {
            break;
        }
    }
    // nothing waits for it when the caller went first
    let _ = messages.send(ShellMessage::Exit(status)).await;
}

async fn pass_on(messages: &tokio::sync::mpsc::Sender<ShellMessage>, mut data: Bytes) -> bool {
    // a packet larger than agreed is cut, not trusted
    while !data.is_empty() {
        let piece = data.split_to(data.len().min(CHUNK));
        if messages.send(ShellMessage::Output(piece)).await.is_err() {
            return false;
        }
    }
    true
}
