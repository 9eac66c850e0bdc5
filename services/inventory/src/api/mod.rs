//! One thin method per RPC: parse, call, map the error.
mod approval_refusal;
mod history;
mod host_reports;
mod hosts;
mod identity;
mod lifecycle;
mod nodes;
mod regions;
mod renewal;
mod rollout_request;
mod rollouts;
mod slots;

use std::sync::Arc;

use gpuaas_common::audit;
use gpuaas_common::error::{Error, Result};
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message;
use sqlx::{PgConnection, PgPool};
use tonic::{Code, Request};

use crate::domain::names::BadName;
use crate::state::State;
use crate::watch::Watching;

/// `RegionService` and `RegionAdminService`.
#[derive(Debug, Clone)]
pub(crate) struct Regions(pub(crate) State);

/// `NodeAdminService`, with the streams of those who watch nodes.
#[derive(Clone)]
pub(crate) struct Nodes(pub(crate) State, pub(crate) Arc<Watching>);

/// `AgentRolloutAdminService`.
#[derive(Debug, Clone)]
pub(crate) struct Rollouts(pub(crate) State);

/// `HostService`.
#[derive(Debug, Clone)]
pub(crate) struct Hosts(pub(crate) State);

/// One mutation by an administrator: who, under which key, and what of the request the key stands for.
pub(crate) struct Mutation {
    caller: Caller,
    key: String,
    method: &'static str,
    hash: Vec<u8>,
}

impl Mutation {
    fn of<T: Message>(request: &Request<T>, method: &'static str) -> Result<Self> {
        let caller = Caller::of(request)?;
        let key = caller.idempotency_key()?.to_owned();
        Ok(Self {
            caller,
            key,
            method,
            hash: idempotency::hash(request.get_ref()),
        })
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            principal: &self.caller.principal,
            method: self.method,
            key: &self.key,
        }
    }

    /// Resource of an earlier call with this key, where another service is asked before the transaction: a repeat asks nobody.
    async fn made(&self, pool: &PgPool) -> Result<Option<String>> {
        let mut conn = pool.acquire().await?;
        let found = idempotency::lookup(&mut conn, self.scope(), &self.hash).await?;
        Ok(earlier(found))
    }

    /// Takes the key, before anything is locked or read that the call is about: a second call with it waits here. Resource of an
    /// earlier call with it.
    async fn take_key(&self, conn: &mut PgConnection, resource_id: &str) -> Result<Option<String>> {
        let taken = idempotency::take(conn, self.scope(), &self.hash, resource_id).await?;
        Ok(earlier(taken))
    }

    /// Points the key that this transaction has taken at another resource.
    async fn point_key(&self, conn: &mut PgConnection, resource_id: &str) -> Result<()> {
        idempotency::point(conn, self.scope(), &self.hash, resource_id).await
    }

    /// Records the audit row.
    async fn audit(
        &self,
        conn: &mut PgConnection,
        action: &str,
        (resource, resource_id): (&str, &str),
        detail: serde_json::Value,
    ) -> Result<()> {
        let entry = audit::Entry {
            principal: &self.caller.principal,
            action,
            resource,
            resource_id,
            request_id: &self.caller.request_id,
            detail,
        };
        audit::record(conn, entry).await
    }
}

fn earlier(found: Lookup) -> Option<String> {
    match found {
        Lookup::Fresh => None,
        Lookup::Replay { resource_id } => Some(resource_id),
    }
}

/// Whose audit rows have the digests of what the ledger changed.
const LEDGER: &str = "placement";

/// A name that breaks its rule, as the field's error.
fn bad(field: &'static str) -> impl Fn(BadName) -> Error {
    move |name| Error::invalid(field, name.0)
}

fn no_node(id: &uuid::Uuid) -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::NodeNotFound,
        format!("There is no node {id}."),
    )
}

/// What is missing in the database although another row points at it.
fn gone(what: &str) -> Error {
    Error::internal(format!("{what} of an earlier request is gone"))
}

/// Refuses texts that are missing or longer than `max` bytes.
fn text(field: &'static str, value: &str, max: usize) -> Result<()> {
    if value.is_empty() {
        return Err(Error::required(field));
    }
    at_most(field, value, max)
}

/// Refuses texts longer than `max` bytes.
fn at_most(field: &'static str, value: &str, max: usize) -> Result<()> {
    if value.len() > max {
        return Err(Error::invalid(
            field,
            format!("must have at most {max} bytes"),
        ));
    }
    Ok(())
}
