//! Enforces the access option of every RPC: peer by certificate, person by internal token. Methods behind it
//! check ownership only.
use std::future::Future;
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
use super::tls::Clients;
use crate::identity::{Caller, Peer, TokenVerifier};
use crate::{Context, Error, Result, access};

/// Peers that may bring a person's internal token: the edge, and an operator at a workstation.
const TOKEN_BEARERS: [&str; 2] = ["gateway", "operator"];

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
        if self.clients == Clients::Enrolling && rule.audience() == Audience::Enrolment {
            return Ok((None, None));
        }
        let peer = peer.ok_or_else(no_certificate)?;
        check_peer(rule, &peer)?;
        if !access::needs_token(rule) {
            return Ok((Some(peer), None));
        }
        let caller = self.caller(headers)?;
        if rule.audience() == Audience::Admin && !caller.admin {
            return Err(Error::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "this needs a platform administrator",
            )
            .meta("action", rule.action.clone()));
        }
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
        let peer = connection
            .and_then(|connection| connection.tls.peer_certs())
            .and_then(|chain| Peer::from_certificate(self.rules.cell, chain.first()?));
        match self
            .rules
            .admit(request.uri().path(), request.headers(), peer)
        {
            Ok((peer, caller)) => {
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                if let Some(caller) = caller {
                    request.extensions_mut().insert(caller);
                }
                let clone = self.inner.clone();
                let mut inner = std::mem::replace(&mut self.inner, clone);
                Box::pin(async move {
                    let answer = inner.call(request).await;
                    drop(running);
                    answer
                })
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
}
