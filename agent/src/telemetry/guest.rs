//! The questions to one guest, over the login that the host has for itself (D-90). A session stays open from one question to
//! the next, so that a guest is not logged in to four times a minute; each question has its time and its output bounded, and
//! one guest waits for no other.
use std::net::SocketAddr;
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::GuestMetricsState;
use prost::Message as _;
use russh::keys::PublicKey;

use super::answer::{COMMAND, Told, parse};
use crate::error::{HostError, HostResult};
use crate::guest::command::{Session, open};
use crate::guest::host_key::parse_pins;
use crate::guest::login::{Account, LoginError};
use crate::ids::{AllocationId, parse_private_ip};
use crate::image::seed::GuestUser;
use crate::node::Node;
use crate::operation::SSH_PORT;

/// Longest time of a login; under software emulation a handshake alone takes seconds.
const LOGIN: Duration = Duration::from_secs(30);
/// Longest time of an answer: a driver that is not kept loaded takes seconds.
const ANSWER: Duration = Duration::from_secs(10);

/// Where a guest is, and who it is.
struct Known {
    server: SocketAddr,
    host_keys: Vec<PublicKey>,
    user: GuestUser,
}

/// One guest that is asked from time to time.
#[derive(Default)]
pub struct Guest {
    session: Option<Session>,
}

impl Guest {
    /// Asks once.
    pub async fn ask(&mut self, node: &Node, allocation: AllocationId) -> Told {
        match self.answer(node, allocation).await {
            Ok(told) => told,
            Err(state) => {
                self.session = None;
                Told {
                    state,
                    values: Vec::new(),
                }
            }
        }
    }

    async fn answer(
        &mut self,
        node: &Node,
        allocation: AllocationId,
    ) -> Result<Told, GuestMetricsState> {
        // a session that the guest ended between two questions is no reason to know nothing
        let is_open = self.session.as_ref().is_some_and(|open| !open.is_closed());
        if !is_open {
            self.session = Some(log_in(node, allocation).await?);
        }
        let session = self.session.as_ref().ok_or(GuestMetricsState::NoLogin)?;
        let answer = tokio::time::timeout(ANSWER, session.ask(COMMAND)).await;
        let answer = answer.map_err(|_| GuestMetricsState::TooSlow)?;
        let told = parse(&answer.map_err(|error| state(&error))?);
        match told.state {
            // whoever answers so is asked with a new login
            GuestMetricsState::Malformed => Err(told.state),
            _ => Ok(told),
        }
    }
}

async fn log_in(node: &Node, allocation: AllocationId) -> Result<Session, GuestMetricsState> {
    let known = known(node, allocation).map_err(|error| {
        tracing::debug!(allocation_id = %allocation, %error, "cannot ask a guest");
        GuestMetricsState::NoLogin
    })?;
    let account = Account {
        server: known.server,
        host_keys: &known.host_keys,
        user: &known.user,
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

/// What the journal has of the guest's launch.
fn known(node: &Node, allocation: AllocationId) -> HostResult<Known> {
    let launched = node.journal.launched(allocation)?;
    let launched =
        launched.ok_or_else(|| HostError::internal("the journal has no launch of the VM"))?;
    let request = pb::ProvisionRequest::decode(launched.request.as_slice())
        .map_err(|_| HostError::internal("journal holds a malformed request"))?;
    let slot = launched.lease_request.slots.first();
    let bindings = slot.and_then(|slot| slot.bindings.as_ref());
    let ip = bindings.map_or("", |bindings| bindings.private_ip.as_str());
    Ok(Known {
        server: (parse_private_ip(ip)?, SSH_PORT).into(),
        host_keys: parse_pins(launched.output("seed")["host_key"].as_str())?,
        user: request.guest_user.parse()?,
    })
}
