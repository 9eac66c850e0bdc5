//! Enforces the access option of every RPC: peer by certificate, person by internal token. Methods behind it
//! check ownership only.
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::options::v1::{Access, Audience};
use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::{Layer, Service};

use super::limited::ConnectionInfo;
use crate::access::{self, Group};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::identity::{Caller, Peer, TokenVerifier};
use crate::origin::{self, Origin};
use crate::tls::Clients;

/// An operator at a workstation.
const OPERATOR: &str = "operator";
/// Peers that may bring a person's internal token: the edge, and an operator.
const TOKEN_BEARERS: [&str; 2] = ["gateway", OPERATOR];

/// Adds [`Auth`].
#[derive(Clone)]
pub struct AuthLayer {
    rules: Arc<Rules>,
}

struct Rules {
    clients: Clients,
    cell: u16,
    verifier: Option<TokenVerifier>,
}

impl AuthLayer {
    pub fn new(context: &Context, clients: Clients) -> Self {
        Self {
            rules: Arc::new(Rules {
                clients,
                cell: context.settings.cell,
                verifier: context.verifier.clone(),
            }),
        }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = Auth<S>;
    fn layer(&self, inner: S) -> Self::Service {
        Auth {
            inner,
            rules: self.rules.clone(),
        }
    }
}

/// See the module.
#[derive(Clone)]
pub struct Auth<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl Rules {
    /// Who the request is from; an error is the answer.
    fn admit(
        &self,
        path: &str,
        headers: &HeaderMap,
        peer: Option<Peer>,
    ) -> Result<(Option<Peer>, Option<Caller>)> {
        // a certificate proves no more than its authority may name
        let peer = peer.filter(|peer| {
            matches!(
                (self.clients, peer),
                (Clients::Services, Peer::Service(_)) | (Clients::Hosts, Peer::Host { .. })
            )
        });
        if access::is_introspection(path) {
            return peer
                .map(|peer| (Some(peer), None))
                .ok_or_else(no_certificate);
        }
        // an unknown path gets the server's own "unimplemented"
        let Some(rule) = access::of_path(path) else {
            return Ok((peer, None));
        };
        let (rule, group) = (&rule.access, rule.group);
        if self.clients == Clients::Enrolling && rule.audience() == Audience::Enrolment {
            return Ok((None, None));
        }
        let peer = peer.ok_or_else(no_certificate)?;
        check_peer(rule, &peer)?;
        if !access::needs_token(rule) {
            return Ok((Some(peer), None));
        }
        let caller = self.caller(headers)?;
        check_caller(rule, group, &caller)?;
        Ok((Some(peer), Some(caller)))
    }

    fn caller(&self, headers: &HeaderMap) -> Result<Caller> {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let missing = || {
            Error::new(
                Code::Unauthenticated,
                ErrorReason::CredentialMissing,
                "an internal token is needed",
            )
        };
        let token = text("authorization")
            .and_then(|v| v.strip_prefix("Bearer "))
            .ok_or_else(missing)?;
        let mut caller = self.verifier.as_ref().ok_or_else(missing)?.verify(token)?;
        caller.request_id = text("x-request-id").unwrap_or_default().to_owned();
        caller.idempotency_key = text("x-idempotency-key").map(str::to_owned);
        Ok(caller)
    }
}

fn no_certificate() -> Error {
    Error::new(
        Code::Unauthenticated,
        ErrorReason::PeerNotAllowed,
        "a certificate of this cell is needed",
    )
}

/// What policies have decided at the edge is not decided again. But a token is good for the one action that was decided
/// on, and a platform role never does more than it may ever do.
fn check_caller(rule: &Access, group: Option<Group>, caller: &Caller) -> Result<()> {
    let of_this_action = caller
        .action
        .as_ref()
        .is_none_or(|action| *action == rule.action);
    if of_this_action && group.is_some_and(|group| access::may_ever(caller.platform_role, group)) {
        return Ok(());
    }
    let message = if of_this_action {
        "the platform role does not allow this"
    } else {
        "the internal token is for another action"
    };
    Err(Error::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        message,
    )
    .meta("action", rule.action.clone()))
}

fn check_peer(rule: &Access, peer: &Peer) -> Result<()> {
    let allowed = match (rule.audience(), peer) {
        (Audience::User | Audience::Admin, Peer::Service(name)) => {
            TOKEN_BEARERS.contains(&name.as_str())
        }
        (Audience::Service, Peer::Service(name)) => rule.callers.contains(name),
        (Audience::Host, Peer::Host { .. }) => true,
        _ => false,
    };
    if allowed {
        return Ok(());
    }
    Err(Error::new(
        Code::PermissionDenied,
        ErrorReason::PeerNotAllowed,
        "this peer may not call this method",
    )
    .meta("action", rule.action.clone()))
}

/// From where a request comes: what a service says of whom it speaks for, otherwise the peer itself.
fn origin_of(peer: Option<&Peer>, address: Option<IpAddr>, headers: &HeaderMap) -> Origin {
    match peer {
        Some(Peer::Service(name)) if name != OPERATOR => Origin::handed_on(headers),
        _ => Origin::new(address, headers, ""),
    }
}

impl<S> Service<Request<Body>> for Auth<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let connection = request.extensions().get::<ConnectionInfo>();
        let running = connection.and_then(ConnectionInfo::begin);
        let address = connection
            .and_then(|connection| connection.tls.get_ref().remote_addr())
            .map(|address| address.ip());
        let peer = connection
            .and_then(|connection| connection.tls.peer_certs())
            .and_then(|chain| Peer::from_certificate(self.rules.cell, chain.first()?));
        match self
            .rules
            .admit(request.uri().path(), request.headers(), peer)
        {
            Ok((peer, caller)) => {
                let origin = origin_of(peer.as_ref(), address, request.headers());
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                if let Some(caller) = caller {
                    request.extensions_mut().insert(caller);
                }
                let clone = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, clone);
                Box::pin(origin::scope(origin, async move {
                    let answer = inner.call(request).await;
                    drop(running);
                    answer
                }))
            }
            Err(error) => Box::pin(async move { Ok(Status::from(error).into_http()) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(clients: Clients) -> Rules {
        Rules {
            clients,
            cell: 1,
            verifier: None,
        }
    }

    fn service(name: &str) -> Option<Peer> {
        Some(Peer::Service(name.to_owned()))
    }

    #[test]
    fn p10_only_a_service_speaks_for_another_client() {
        let value = http::HeaderValue::from_static("192.0.2.7");
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static(origin::ADDRESS), value)]);
        let own = Some([127, 0, 0, 1].into());
        let host = Some(Peer::Host {
            node_id: uuid::Uuid::nil(),
            instance_id: uuid::Uuid::nil(),
        });
        for (peer, address) in [
            (service("gateway"), "192.0.2.7"),
            (service("allocation"), "192.0.2.7"),
            (service("operator"), "127.0.0.1"),
            (host, "127.0.0.1"),
            (None, "127.0.0.1"),
        ] {
            let found = origin_of(peer.as_ref(), own, &headers);
            assert_eq!(found.address, address, "{peer:?}");
        }
    }

    #[test]
    fn peers_are_admitted_by_the_contract() {
        let reserve = "/gpuaas.internal.scheduler.v1.PlacementService/Reserve";
        let get = "/gpuaas.allocation.v1.AllocationService/GetAllocation";
        let enrol = "/gpuaas.internal.inventory.v1.HostService/Enrol";
        let heartbeat = "/gpuaas.internal.inventory.v1.HostService/Heartbeat";
        let host = Some(Peer::Host {
            node_id: uuid::Uuid::nil(),
            instance_id: uuid::Uuid::nil(),
        });
        let health = "/grpc.health.v1.Health/Check";
        let (services, hosts, enrolling) = (Clients::Services, Clients::Hosts, Clients::Enrolling);
        let refused = Some(ErrorReason::PeerNotAllowed);
        let cases = [
            (services, reserve, service("allocation"), None),
            (services, reserve, service("billing"), refused),
            (services, reserve, None, refused),
            (services, get, service("allocation"), refused),
            (
                services,
                get,
                service("gateway"),
                Some(ErrorReason::CredentialMissing),
            ),
            (services, heartbeat, service("allocation"), refused),
            (services, health, None, refused),
            (services, health, service("operator"), None),
            // what the authority of hosts has signed is a host, whatever it says, and has no place among services
            (services, reserve, host.clone(), refused),
            (services, heartbeat, host.clone(), refused),
            (services, health, host.clone(), refused),
            (services, enrol, service("allocation"), refused),
            (hosts, heartbeat, host.clone(), None),
            (hosts, heartbeat, None, refused),
            (hosts, reserve, service("allocation"), refused),
            (hosts, get, service("gateway"), refused),
            (hosts, enrol, host.clone(), refused),
            // who has no certificate may enrol and nothing else
            (enrolling, enrol, None, None),
            (enrolling, heartbeat, None, refused),
            (enrolling, heartbeat, host, refused),
            (enrolling, reserve, service("allocation"), refused),
            (enrolling, health, None, refused),
        ];
        for (clients, path, peer, expected) in cases {
            let got = rules(clients)
                .admit(path, &HeaderMap::new(), peer.clone())
                .err()
                .map(|e| e.reason());
            assert_eq!(got, expected, "{path} by {peer:?} among {clients:?}");
        }
    }

    #[test]
    fn h_19_a_token_never_does_more_than_its_role_and_its_action() {
        use crate::identity::PlatformRole::{Admin, Auditor, Operator};
        let list = "/gpuaas.scheduler.v1.FleetAdminService/ListFleetNodes";
        let drain = "/gpuaas.scheduler.v1.NodePlacementService/DrainNode";
        let price = "/gpuaas.billing.v1.PriceAdminService/CreatePriceVersion";
        let stop = "/gpuaas.allocation.v1.AllocationService/StopAllocation";
        let table = [
            (None, None, list, false),
            (Some(Auditor), None, list, true),
            (Some(Auditor), None, drain, false),
            (Some(Auditor), None, price, false),
            (Some(Operator), None, drain, true),
            (Some(Operator), None, price, false),
            (Some(Admin), None, price, true),
            (None, None, stop, true),
            (None, Some("allocation.stop"), stop, true),
            // a token for reading changes nothing
            (None, Some("allocation.get"), stop, false),
            (Some(Admin), Some("fleet.list"), drain, false),
        ];
        for (role, action, path, may) in table {
            let caller = Caller {
                principal: "user:a".to_owned(),
                projects: Vec::new(),
                platform_role: role,
                action: action.map(str::to_owned),
                request_id: String::new(),
                idempotency_key: None,
            };
            let rule = access::of_path(path).expect("in the contract");
            let checked = check_caller(&rule.access, rule.group, &caller);
            assert_eq!(checked.is_ok(), may, "{role:?} {action:?} {path}");
        }
    }
}
