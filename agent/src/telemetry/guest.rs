//! The queries to one guest, over the login that the host has for itself (D-90). A session stays open from one query to
//! the next, so that a guest is not logged in to four times a minute; each query has its time and its output bounded, and
//! one guest waits for no other.
use std::net::SocketAddr;
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;
use prost::Message as _;
use russh::keys::PublicKey;

use super::report::{COMMAND, Report, parse};
use crate::error::{HostError, HostResult};
use crate::guest::command::{Session, open};
use crate::guest::host_key::parse_pins;
use crate::guest::login::{Account, LoginError};
use crate::ids::{AllocationId, parse_private_ip};
use crate::image::seed::GuestUser;
use crate::node::Node;
use crate::operation::{SSH_PORT, rescue_host_key};

/// Longest time of a login; under software emulation a handshake alone takes seconds.
const LOGIN: Duration = Duration::from_secs(30);
/// Longest time of an answer: a driver that is not kept loaded takes seconds.
const ANSWER: Duration = Duration::from_secs(10);

/// Where a guest is, and who it is.
struct GuestAddress {
    server: SocketAddr,
    host_keys: Vec<PublicKey>,
    user: GuestUser,
}

/// One guest that is queried from time to time.
pub struct Guest {
    session: Option<Session>,
    /// Longest time of an answer.
    limit: Duration,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            session: None,
            limit: ANSWER,
        }
    }
}

impl Guest {
    /// Queries once.
    pub async fn query(&mut self, node: &Node, allocation: AllocationId) -> Report {
        self.query_over(|| log_in(node, allocation)).await
    }

    /// Queries over the session that is open, or over a new one.
    async fn query_over<F>(&mut self, log_in: impl FnOnce() -> F) -> Report
    where
        F: Future<Output = Result<Session, GuestMetricsState>>,
    {
        let report = self.answer(log_in).await;
        report.unwrap_or_else(|state| {
            // the next query has a new login
            self.session = None;
            Report {
                state,
                values: Vec::new(),
            }
        })
    }

    async fn answer<F>(&mut self, log_in: impl FnOnce() -> F) -> Result<Report, GuestMetricsState>
    where
        F: Future<Output = Result<Session, GuestMetricsState>>,
    {
        let is_open = |session: &Session| !session.is_closed();
        let session = match self.session.take().filter(is_open) {
            Some(session) => session,
            None => log_in().await?,
        };
        let session = self.session.insert(session);
        let answer = tokio::time::timeout(self.limit, session.run(COMMAND)).await;
        let answer = answer.map_err(|_| GuestMetricsState::TooSlow)?;
        let report = parse(&answer.map_err(|error| state(&error))?);
        match report.state {
            GuestMetricsState::Malformed => Err(report.state),
            _ => Ok(report),
        }
    }
}

async fn log_in(node: &Node, allocation: AllocationId) -> Result<Session, GuestMetricsState> {
    let guest_address = guest_address(node, allocation).map_err(|error| {
        tracing::debug!(allocation_id = %allocation, %error, "cannot query a guest");
        GuestMetricsState::NoLogin
    })?;
    let account = Account {
        server: guest_address.server,
        host_keys: &guest_address.host_keys,
        user: &guest_address.user,
    };
    let opened = tokio::time::timeout(LOGIN, open(&*node.guests, account, &node.relay)).await;
    opened
        .map_err(|_| GuestMetricsState::TooSlow)?
        .map_err(|error| state(&error))
}

fn state(error: &LoginError) -> GuestMetricsState {
    match error {
        LoginError::TooSlow => GuestMetricsState::TooSlow,
        LoginError::NoCommand => GuestMetricsState::Malformed,
        LoginError::Connect(_)
        | LoginError::Session(_)
        | LoginError::HostKey
        | LoginError::Refused => GuestMetricsState::NoLogin,
    }
}

/// What the journal has of the guest's launch. A rescue image has the same user and address, and a host key of its own.
fn guest_address(node: &Node, allocation: AllocationId) -> HostResult<GuestAddress> {
    let launched = node.journal.launched(allocation)?;
    let launched =
        launched.ok_or_else(|| HostError::internal("the journal has no launch of the VM"))?;
    let request = pb::ProvisionRequest::decode(launched.request.as_slice())
        .map_err(|_| HostError::internal("journal holds a malformed request"))?;
    let slot = launched.lease_request.slots.first();
    let bindings = slot.and_then(|slot| slot.bindings.as_ref());
    let ip = bindings.map_or("", |bindings| bindings.private_ip.as_str());
    let host_key = match node.is_rescued(&allocation.vm_name()) {
        true => rescue_host_key(&node.journal, allocation)?,
        false => launched.output("seed")["host_key"]
            .as_str()
            .map(str::to_owned),
    };
    Ok(GuestAddress {
        server: (parse_private_ip(ip)?, SSH_PORT).into(),
        host_keys: parse_pins(host_key.as_deref())?,
        user: request.guest_user.parse()?,
    })
}

#[cfg(test)]
#[path = "guest_tests.rs"]
mod tests;
