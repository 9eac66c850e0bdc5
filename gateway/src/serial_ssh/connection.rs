//! One connection, watched over from outside: a limited time until somebody has signed in and asked for the log, and after
//! everything was said.
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;

use gpuaas_common::CancellationToken;
use gpuaas_common::origin::Origin;
use gpuaas_common::server::connections::Connection;
use http::{HeaderMap, HeaderValue, header};
use russh::server;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::cuttable::Cuttable;
use super::login::{Caller, Course, Login};
use super::screen::GOODBYE;
use crate::app::App;
use crate::http::listener::Meters;
use crate::limits::peer::Peer;

/// A connection and what it is served with.
pub struct Served {
    /// Its place among the connections.
    pub place: Connection,
    /// Of the client.
    pub address: IpAddr,
    /// What every request needs.
    pub app: Arc<App>,
    /// The server's side.
    pub config: Arc<server::Config>,
    /// When somebody must have signed in.
    pub deadline: Instant,
    /// Instruments.
    pub meters: Meters,
    /// The gateway ends.
    pub shutdown: CancellationToken,
}

impl Served {
    /// Serves it until it ends.
    pub async fn run(self, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("connection without TCP_NODELAY: {error}");
        }
        let course = Course::default();
        // whatever ends this ends the server's task, and what it shows
        let _cut = course.cut.clone().drop_guard();
        let caller = Caller {
            app: self.app.clone(),
            peer: Peer::of(self.address),
            origin: self.origin(),
        };
        let login = Login::new(caller, Box::new(self.place.starter()), course.clone());
        let stream = Cuttable::new(stream, course.cut.clone());
        let begin = timeout_at(
            self.deadline,
            server::run_stream(self.config.clone(), stream, login),
        );
        let begun = tokio::select! {
            () = self.place.let_go.cancelled() => return self.meters.let_go("replaced"),
            () = self.shutdown.cancelled() => return,
            begun = begin => begun,
        };
        let session = match begun {
            Ok(Ok(session)) => session,
            Ok(Err(error)) => {
                tracing::debug!("begin SSH: {error}");
                return self.meters.let_go("handshake");
            }
            Err(_) => return self.meters.let_go("request_timeout"),
        };
        let mut session = pin!(session);
        let cause = tokio::select! {
            ended = session.as_mut() => {
                // a client that goes away in the middle is its own business
                if let Err(error) = ended {
                    tracing::debug!("end SSH: {error}");
                }
                return;
            }
            () = self.place.let_go.cancelled() => Some("replaced"),
            () = self.login_timeout(&course) => Some("request_timeout"),
            () = said(&course) => Some("stalled"),
            () = self.shut_down(&course) => None,
        };
        if let Some(cause) = cause {
            self.meters.let_go(cause);
        }
        course.cut.cancel();
        // it is counted until its task has seen that
        let _ = timeout(GOODBYE, session).await;
    }

    fn origin(&self) -> Origin {
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static("ssh"));
        Origin::new(Some(self.address), &headers, &self.app.region)
    }

    /// Returns when nobody has signed in and asked for the log in time.
    async fn login_timeout(&self, course: &Course) {
        sleep_until(self.deadline).await;
        if course.requested.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the gateway ends, and who reads was told.
    async fn shut_down(&self, course: &Course) {
        self.shutdown.cancelled().await;
        if course.requested.is_cancelled() {
            sleep(GOODBYE).await;
        }
    }
}

/// Returns when all was said, and the client does not close the connection.
async fn said(course: &Course) {
    course.over.cancelled().await;
    sleep(GOODBYE).await;
}
