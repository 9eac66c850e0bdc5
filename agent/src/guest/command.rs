//! A command of the platform in a guest, its exit status and its output.
//!
//! The tenant controls the server at the other end: time and output are bounded, and the output is only ever text.
use std::time::Duration;

use russh::client::{self, Msg};
use russh::{Channel, ChannelMsg};

use super::login::{Account, LoginError, connect};
use super::ssh::Client;
use super::{GuestNetwork, RelayKey};

/// Most bytes of output that are read.
pub const MAX_OUTPUT: usize = 64 << 10;
/// A guest that is silent for three of these is gone; a command may be silent for longer.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// What a command gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// None: it ended without one, or was not read to its end.
    pub exit_status: Option<u32>,
    /// Standard output and standard error, as they came.
    pub output: Vec<u8>,
    /// There was more than [`MAX_OUTPUT`]: the rest was not read.
    pub cut: bool,
}

/// Logs in and runs `command` in the shell of the account, all within `limit`.
///
/// # Errors
/// [`LoginError`]: there is no answer.
pub async fn run(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    command: &str,
    limit: Duration,
) -> Result<Answer, LoginError> {
    tokio::time::timeout(limit, attempt(network, account, key, command))
        .await
        .map_err(|_| LoginError::TooSlow)?
}

async fn attempt(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
    command: &str,
) -> Result<Answer, LoginError> {
    let session = open(network, account, key).await?;
    let answer = session.ask(command).await?;
    // The guest is free to ignore our goodbye.
    let _ = session
        .0
        .disconnect(russh::Disconnect::ByApplication, "", "")
        .await;
    Ok(answer)
}

/// A login that stays open. Its end is the end of the connection.
pub struct Session(client::Handle<Client>);

/// Logs in. The caller bounds the time.
///
/// # Errors
/// [`LoginError`].
pub async fn open(
    network: &dyn GuestNetwork,
    account: Account<'_>,
    key: &RelayKey,
) -> Result<Session, LoginError> {
    let config = client::Config {
        keepalive_interval: Some(KEEPALIVE),
        keepalive_max: 3,
        ..client::Config::default()
    };
    Ok(Session(connect(network, account, key, config).await?))
}

impl Session {
    /// The guest, or the way to it, ended the connection.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Runs a command in the shell of the account. The caller bounds the time.
    ///
    /// # Errors
    /// [`LoginError`]: there is no answer.
    pub async fn ask(&self, command: &str) -> Result<Answer, LoginError> {
        let broke = |error: russh::Error| LoginError::Session(error.to_string());
        let mut channel = self.0.channel_open_session().await.map_err(broke)?;
        channel.exec(true, command).await.map_err(broke)?;
        read(&mut channel).await
    }
}

async fn read(channel: &mut Channel<Msg>) -> Result<Answer, LoginError> {
    let mut answer = Answer {
        exit_status: None,
        output: Vec::new(),
        cut: false,
    };
    let mut ended = false;
    while let Some(message) = channel.wait().await {
        match message {
            ChannelMsg::Data { data } | ChannelMsg::ExtendedData { data, .. } => {
                let room = MAX_OUTPUT - answer.output.len();
                answer.cut = data.len() > room;
                answer
                    .output
                    .extend_from_slice(&data[..data.len().min(room)]);
            }
            ChannelMsg::Failure => return Err(LoginError::NoCommand),
            ChannelMsg::ExitStatus { exit_status } => {
                answer.exit_status = Some(exit_status);
                ended = true;
            }
            ChannelMsg::ExitSignal { .. } => ended = true,
            ChannelMsg::Close => break,
            _ => {}
        }
        if answer.cut {
            break;
        }
    }
    if !ended && !answer.cut {
        return Err(LoginError::Session(
            "it ended before the command".to_owned(),
        ));
    }
    Ok(answer)
}
