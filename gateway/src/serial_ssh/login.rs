//! One connection as the SSH server sees it: one sign-in by a key, one session, one log.
use std::sync::Arc;

use gpuaas_common::CancellationToken;
use gpuaas_common::origin::{self, Origin};
use gpuaas_common::server::connections::Running;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use russh::server::{Auth, ChannelOpenHandle, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId, ChannelOpenFailure, ChannelWriteHalf, Pty};
use uuid::Uuid;

use super::screen::Screen;
use super::sign_in::Client;
use crate::app::App;
use crate::error::{ApiError, reason_name};
use crate::limits::peer::Peer;
use crate::streams::Subscription;

/// Ctrl-C and Ctrl-D, as a terminal in raw mode sends them.
const ENDS: [u8; 2] = [0x03, 0x04];
const NO_COMMANDS: &str = "Only the serial log is shown here: connect without a command. To run one in the VM, use gpuaas ssh.";

/// What happens to a connection, told to whoever watches over it.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Somebody has signed in and asked for something.
    pub requested: CancellationToken,
    /// All was said.
    pub over: CancellationToken,
    /// It is cut.
    pub cut: CancellationToken,
}

/// A client before anybody has signed in.
pub struct Caller {
    /// What every request needs.
    pub app: Arc<App>,
    /// From where.
    pub peer: Peer,
    /// The same for records.
    pub origin: Origin,
}

/// Makes the connection one that is in use.
type Begin = Box<dyn Fn() -> Running + Send>;

/// The handler of one connection.
pub struct Login {
    caller: Arc<Caller>,
    begin: Begin,
    course: Course,
    /// What is shown, once somebody has signed in.
    log: Option<Result<Subscription, ApiError>>,
    /// Who has signed in keeps the connection.
    running: Option<Running>,
    /// The session, until it shows something.
    channel: Option<ChannelWriteHalf<Msg>>,
    /// There is one session of a connection.
    had_session: bool,
    is_terminal: bool,
    /// The reader leaves.
    quit: CancellationToken,
}

impl Login {
    /// Nobody has signed in.
    pub fn new(caller: Caller, begin: Begin, course: Course) -> Self {
        Self {
            caller: Arc::new(caller),
            begin,
            course,
            log: None,
            running: None,
            channel: None,
            had_session: false,
            is_terminal: false,
            quit: CancellationToken::new(),
        }
    }

    /// What the session shows, and where, once.
    fn take_session(&mut self) -> Option<(Screen, Result<Subscription, ApiError>)> {
        let log = self.log.take()?;
        let channel = self.channel.take()?;
        self.course.requested.cancel();
        Some((Screen::new(channel, self.is_terminal), log))
    }

    /// Does something with the session while the connection is there, and then ends it.
    fn run(&self, doing: impl Future<Output = ()> + Send + 'static) {
        let course = self.course.clone();
        tokio::spawn(async move {
            course.cut.run_until_cancelled(doing).await;
            course.over.cancel();
        });
    }

    /// A command, or a subsystem such as that of `sftp`: the client shows what is said, where it would show no refusal.
    fn refuse_command(&mut self, id: ChannelId, session: &mut Session) -> Result<(), russh::Error> {
        let Some((mut screen, _)) = self.take_session() else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        self.run(async move { screen.end(1, Some(NO_COMMANDS.to_owned())).await });
        Ok(())
    }
}

impl Caller {
    async fn sign_in(
        &self,
        name: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Option<Result<Subscription, ApiError>> {
        let request_id = Uuid::now_v7().to_string();
        let client = Client {
            app: &self.app,
            peer: &self.peer,
            request_id: &request_id,
        };
        let signed_in =
            origin::scope(self.origin.clone(), client.sign_in(name, key.public_key)).await;
        let address = &self.origin.address;
        match &signed_in {
            None => {
                let reason = reason_name(ErrorReason::CredentialInvalid);
                self.app.metrics.denied(&reason);
                tracing::info!(address, request_id, "refuse sign-in by SSH");
            }
            Some(Err(error)) => {
                if error.http_status() == http::StatusCode::FORBIDDEN {
                    self.app.metrics.denied(error.reason());
                }
                let reason = error.reason();
                tracing::info!(address, request_id, reason, "show no serial log by SSH");
            }
            Some(Ok(log)) => {
                let principal = log.principal();
                tracing::info!(
                    address,
                    request_id,
                    principal,
                    allocation = name,
                    "show serial log by SSH"
                );
            }
        }
        signed_in
    }
}

impl Handler for Login {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        let cut = self.course.cut.clone();
        let caller = self.caller.clone();
        let signing_in = Box::pin(caller.sign_in(user, key));
        let Some(signed_in) = cut.run_until_cancelled(signing_in).await else {
            return Err(russh::Error::Disconnect);
        };
        let Some(log) = signed_in else {
            return Ok(Auth::reject());
        };
        // who is only told why there is nothing can be replaced
        if log.is_ok() {
            self.running = Some((self.begin)());
        }
        self.log = Some(log);
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.had_session {
            reply
                .reject(ChannelOpenFailure::AdministrativelyProhibited)
                .await;
            return Ok(());
        }
        self.had_session = true;
        // nothing is read of it: without its reader nothing is kept for one
        let (_, write) = channel.split();
        self.channel = Some(write);
        reply.accept().await;
        Ok(())
    }

    async fn pty_request(
        &mut self,
        id: ChannelId,
        _: &str,
        _: u32,
        _: u32,
        _: u32,
        _: u32,
        _: &[(Pty, u32)],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.is_terminal = true;
        session.channel_success(id)
    }

    /// Accepted, and of no effect.
    async fn env_request(
        &mut self,
        id: ChannelId,
        _: &str,
        _: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_success(id)
    }

    async fn x11_request(
        &mut self,
        id: ChannelId,
        _: bool,
        _: &str,
        _: &str,
        _: u32,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        session.channel_failure(id)
    }

    async fn shell_request(
        &mut self,
        id: ChannelId,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Some((screen, log)) = self.take_session() else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        let quit = self.quit.clone();
        self.run(async move { screen.run(log, &quit).await });
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        _: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.refuse_command(id, session)
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        _: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.refuse_command(id, session)
    }

    async fn data(
        &mut self,
        _: ChannelId,
        data: &[u8],
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        // what is no terminal sends the bytes of a file
        if self.is_terminal && data.iter().any(|byte| ENDS.contains(byte)) {
            self.quit.cancel();
        }
        Ok(())
    }

    async fn channel_close(&mut self, _: ChannelId, _: &mut Session) -> Result<(), Self::Error> {
        self.quit.cancel();
        Ok(())
    }
}
