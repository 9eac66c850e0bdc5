//! One session: joins a client that comes and goes with a shell that stays, until something ends it. A tunnel ends with its
//! client's connection: a resume could not tell both ends what was on its way.
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpuaas_common::id;
use gpuaas_proto::gpuaas::internal::terminal::v1 as pb;
use gpuaas_proto::gpuaas::internal::terminal::v1::relay_response::Message;
use tokio::sync::mpsc::{self, OwnedPermit};
use tonic::Status;

use super::admitted::Admitted;
use super::host::{Host, HostMessage};
use super::kill::Killed;
use super::link::{Command, Link, wire};
use super::recorder::Recorder;
use crate::domain::end::End;
use crate::domain::flow::Flow;
use crate::domain::kind::Kind;
use crate::domain::message::{self, Frame, MAX_OUTPUT, Say, SecretHash, Size};

/// Time between two sizes that reach the shell; only the last of a burst does.
const RESIZE: Duration = Duration::from_millis(50);
/// Longest wait for a client to take the last output of a shell that ended, or more of that of a tunnel.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// A session that runs.
pub(crate) struct Session {
    admitted: Admitted,
    host: Host,
    recorder: Option<Recorder>,
    flow: Flow,
    link: Option<Link>,
    token: SecretHash,
    /// What the client is told before anything else.
    urgent: VecDeque<Message>,
    input_ack: Option<u64>,
    pong: Option<u64>,
    resize: Option<Size>,
    resized: Instant,
    typed: Instant,
    began: Instant,
    detached: Instant,
    exit: Option<(Option<u32>, Instant)>,
}

type Permit = OwnedPermit<Result<pb::RelayResponse, Status>>;

/// A place for a message of the client; none when the client is gone.
async fn place(out: Option<super::link::Out>) -> Option<Permit> {
    match out {
        Some(out) => out.reserve_owned().await.ok(),
        None => std::future::pending().await,
    }
}

impl Session {
    pub(crate) fn new(
        admitted: Admitted,
        host: Host,
        recorder: Option<Recorder>,
        link: Link,
    ) -> Self {
        let now = Instant::now();
        let mut session = Self {
            flow: Flow::new(admitted.kind),
            admitted,
            host,
            recorder,
            link: None,
            token: SecretHash::of(""),
            urgent: VecDeque::new(),
            input_ack: None,
            pong: None,
            resize: None,
            resized: now,
            typed: now,
            began: now,
            detached: now,
            exit: None,
        };
        // at the beginning there is nothing that could be missing
        let _ = session.attach(link, None);
        session
    }

    /// Runs until something ends it.
    pub(crate) async fn run(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
        killed: &mut Killed,
    ) -> End {
        loop {
            let out = self
                .link
                .as_ref()
                .filter(|_| self.has_word())
                .map(|link| link.out.clone());
            let speaking = out.is_some();
            let wake = self.next_deadline();
            let step = tokio::select! {
                biased;
                end = killed.wait() => Err(end),
                Some(command) = commands.recv() => self.command(command).await,
                permit = place(out), if speaking => match permit {
                    Some(permit) => self.say(permit),
                    None => self.detach(),
                },
                said = self.host.said(self.admitted.session_id), if self.exit.is_none() => match said {
                    Ok(said) => self.hear(said).await,
                    Err(end) => Err(end),
                },
                () = tokio::time::sleep_until(wake.into()) => self.tick().await,
            };
            if let Err(end) = step {
                return end;
            }
            if self.exit.is_none()
                && let Some(offset) = self.flow.grant()
                && let Err(end) = self.host.ack(offset).await
            {
                return end;
            }
        }
    }

    /// After the end: stores the rest of the recording, tells the client.
    pub(crate) async fn finish(&mut self, end: &End) {
        if let Some(recorder) = &mut self.recorder {
            recorder
                .exit(self.exit.and_then(|(status, _)| status))
                .await;
        }
        if let Some(link) = self.link.take() {
            link.finish(end).await;
        }
    }

    /// All bytes of input and of output.
    pub(crate) fn carried(&self) -> (u64, u64) {
        self.flow.carried()
    }

    fn attach(&mut self, link: Link, received: Option<u64>) -> Result<(), End> {
        let begin = self
            .flow
            .attach(received)
            .map_err(|broken| End::ProtocolError(broken.to_string()))?;
        let token = id::random_hex(32);
        self.token = SecretHash::of(&token);
        let config = &self.admitted.deps.config;
        let kind = self.admitted.kind;
        let (resume_token, resume_seconds) = if kind.resumes() {
            (token, config.resume_seconds)
        } else {
            (String::new(), 0)
        };
        let resumed = received.is_some();
        self.urgent.clear();
        self.pong = None;
        self.input_ack = resumed.then_some(begin.input_acked);
        self.urgent.push_back(Message::Attached(pb::Attached {
            session_id: self.admitted.session_id.to_string(),
            principal: self.admitted.principal.clone(),
            project_id: self.admitted.project_id.to_string(),
            allocation_id: self.admitted.allocation_id.to_string(),
        }));
        let ready = Say::SessionReady {
            kind: kind.name(),
            session_id: self.admitted.session_id,
            allocation_id: self.admitted.allocation_id,
            resumed,
            resume_token,
            resume_seconds,
            output_offset: begin.output,
            input_offset: begin.input,
            output_window: kind.output_window(),
            input_window: kind.input_window(),
            recorded: self.recorder.is_some(),
            idle_seconds: config.idle_seconds,
            end_time: self.admitted.end_time.to_string(),
        };
        self.urgent.push_back(Message::Text(ready.to_text()));
        if let Some(from) = begin.lost_from {
            let gap = Say::Gap {
                from,
                to: begin.output,
            };
            self.urgent.push_back(Message::Text(gap.to_text()));
        }
        self.link = Some(link);
        Ok(())
    }

    /// The client's connection is gone; a shell goes on.
    fn detach(&mut self) -> Result<(), End> {
        self.link = None;
        self.detached = Instant::now();
        self.flow.detach();
        if self.admitted.kind.resumes() {
            Ok(())
        } else {
            Err(End::ConnectionLost)
        }
    }

    /// Closes the client's connection; a shell goes on and can be resumed.
    fn drop_link(&mut self, end: End) -> Result<(), End> {
        if !self.admitted.kind.resumes() {
            return Err(end);
        }
        if let Some(link) = self.link.take() {
            self.admitted
                .deps
                .tasks
                .spawn(async move { link.finish(&end).await });
        }
        self.detach()
    }

    async fn command(&mut self, command: Command) -> Result<(), End> {
        match command {
            Command::Frame { link, frame }
                if self.link.as_ref().is_some_and(|one| one.id == link) =>
            {
                self.frame(frame).await
            }
            Command::Gone { link } if self.link.as_ref().is_some_and(|one| one.id == link) => {
                self.detach()
            }
            // of a connection that is not attached any more
            Command::Frame { .. } | Command::Gone { .. } => Ok(()),
            Command::Resume {
                link,
                token,
                received,
                size,
            } => {
                if !self.admitted.kind.resumes() || token != self.token {
                    self.admitted
                        .deps
                        .tasks
                        .spawn(async move { link.finish(&End::SessionGone).await });
                    return Ok(());
                }
                if self.link.is_some() {
                    self.drop_link(End::TakenOver)?;
                }
                if let Err(end) = self.attach(link.clone(), Some(received)) {
                    self.admitted
                        .deps
                        .tasks
                        .spawn(async move { link.finish(&end).await });
                    return Ok(());
                }
                self.resize = Some(size);
                tracing::info!(session_id = %self.admitted.session_id, "resume terminal");
                Ok(())
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), End> {
        match frame {
            Frame::Input { offset, data } => {
                self.typed = Instant::now();
                match self.flow.input(offset, &data) {
                    Ok([]) => Ok(()),
                    Ok(new) => self.host.input(new).await,
                    Err(broken) => self.drop_link(End::ProtocolError(broken.to_string())),
                }
            }
            Frame::Ack(offset) => {
                if let Err(broken) = self.flow.ack(offset) {
                    return self.drop_link(End::ProtocolError(broken.to_string()));
                }
                self.takes_the_last();
                Ok(())
            }
            Frame::Resize(size) => {
                // a tunnel has no size
                if self.admitted.kind == Kind::Shell {
                    self.resize = Some(size);
                }
                Ok(())
            }
            Frame::Ping(id) => {
                self.pong = Some(id);
                Ok(())
            }
            Frame::Close => Err(End::ClosedByClient),
        }
    }

    async fn hear(&mut self, said: HostMessage) -> Result<(), End> {
        match said {
            HostMessage::Output(data) => {
                // a tunnel is used in either direction, a shell by who types
                if self.admitted.kind == Kind::SshTunnel {
                    self.typed = Instant::now();
                }
                self.admitted
                    .deps
                    .metrics
                    .output_bytes
                    .add(data.len() as u64, &[]);
                if let Some(recorder) = &mut self.recorder {
                    recorder.output(&data).await?;
                }
                self.flow
                    .output(&data)
                    .map_err(|broken| self.distrust(broken))
            }
            HostMessage::InputAck(offset) => {
                self.flow
                    .input_acked(offset)
                    .map_err(|broken| self.distrust(broken))?;
                self.input_ack = Some(offset);
                Ok(())
            }
            HostMessage::Exit(status) => {
                self.exit = Some((status, Instant::now()));
                // nobody will come back for the last words of a shell
                if self.link.is_none() {
                    Err(End::Exited)
                } else {
                    Ok(())
                }
            }
        }
    }

    fn distrust(&self, broken: crate::domain::flow::Violation) -> End {
        tracing::error!(session_id = %self.admitted.session_id, "end session: {broken}");
        End::HostUnreachable
    }

    fn has_word(&self) -> bool {
        !self.urgent.is_empty()
            || self.input_ack.is_some()
            || self.pong.is_some()
            || self.flow.has_output()
            || (self.exit.is_some() && self.flow.backlog() == 0)
    }

    /// Says the next thing.
    fn say(&mut self, permit: Permit) -> Result<(), End> {
        let text = |say: Say| Message::Text(say.to_text());
        let message = if let Some(message) = self.urgent.pop_front() {
            message
        } else if let Some(offset) = self.input_ack.take() {
            text(Say::InputAck { offset })
        } else if let Some(id) = self.pong.take() {
            text(Say::Pong { id })
        } else if let Some((offset, data)) = self.flow.take(MAX_OUTPUT) {
            self.takes_the_last();
            Message::Binary(message::output(offset, &data))
        } else if let Some((status, _)) = self.exit {
            permit.send(wire(text(Say::Exit { status })));
            return Err(End::Exited);
        } else {
            return Ok(());
        };
        permit.send(wire(message));
        Ok(())
    }

    /// A slow client that goes on taking the last of a tunnel is waited for.
    fn takes_the_last(&mut self) {
        if self.admitted.kind == Kind::SshTunnel
            && let Some((_, at)) = &mut self.exit
        {
            *at = Instant::now();
        }
    }

    fn next_deadline(&self) -> Instant {
        let config = &self.admitted.deps.config;
        let mut deadline = self.typed + Duration::from_secs(config.idle_seconds);
        let mut sooner = |at: Instant| deadline = deadline.min(at);
        sooner(self.began + Duration::from_secs(config.max_seconds));
        if self.link.is_none() {
            sooner(self.detached + Duration::from_secs(config.resume_seconds));
        }
        if self.resize.is_some() {
            sooner(self.resized + RESIZE);
        }
        if let Some(due) = self.recorder.as_ref().and_then(Recorder::due) {
            sooner(due);
        }
        if let Some((_, at)) = self.exit {
            sooner(at + LAST_WORDS);
        }
        deadline
    }

    async fn tick(&mut self) -> Result<(), End> {
        let now = Instant::now();
        let config = &self.admitted.deps.config;
        if self.exit.is_some_and(|(_, at)| now >= at + LAST_WORDS) {
            // of a tunnel a missing end is not one that all is said with
            let cut = self.admitted.kind == Kind::SshTunnel && self.flow.backlog() > 0;
            return Err(if cut {
                End::ConnectionLost
            } else {
                End::Exited
            });
        }
        if now >= self.began + Duration::from_secs(config.max_seconds) {
            return Err(End::TimeLimit);
        }
        if now >= self.typed + Duration::from_secs(config.idle_seconds) {
            return Err(End::Idle);
        }
        if self.link.is_none() && now >= self.detached + Duration::from_secs(config.resume_seconds)
        {
            return Err(if self.exit.is_some() {
                End::Exited
            } else {
                End::NotResumed
            });
        }
        if now >= self.resized + RESIZE
            && let Some(size) = self.resize.take()
        {
            self.resized = now;
            if let Some(recorder) = &mut self.recorder {
                recorder.resize(size);
            }
            if self.exit.is_none() {
                self.host.resize(size).await?;
            }
        }
        if let Some(recorder) = &mut self.recorder
            && recorder.due().is_some_and(|due| now >= due)
        {
            recorder.store().await?;
        }
        Ok(())
    }
}
