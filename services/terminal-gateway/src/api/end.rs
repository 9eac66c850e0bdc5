//! The end of a session that its user or an operator requests. The process that serves the session, maybe another one, sees
//! the request at its row.
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, Result, audit, idempotency};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::terminal::v1::TerminalSession;
use serde_json::json;
use sqlx::PgPool;
use tonic::Code;
use uuid::Uuid;

use crate::store::sessions::{self, SessionRow};

/// Who requests it.
#[derive(Debug, Clone, Copy)]
pub(super) enum By<'a> {
    /// Who opened it, into this allocation.
    User(Uuid),
    /// An operator, for a reason.
    Operator(&'a str),
}

impl By<'_> {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::User(_) => ("EndTerminalSession", "terminal.end"),
            Self::Operator(_) => ("EndTenantTerminalSession", "terminal.operator_end"),
        }
    }

    /// Whether the caller may end this one.
    fn may(self, caller: &Caller, session: &SessionRow) -> Result<()> {
        let Self::User(allocation_id) = self else {
            return Ok(());
        };
        let is_of_projects = caller.projects.contains(&session.project_id);
        if !is_of_projects || session.allocation_id != allocation_id {
            return Err(unknown());
        }
        if session.principal != caller.principal {
            return Err(Error::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "Only who opened a session ends it, or an operator.",
            ));
        }
        Ok(())
    }
}

fn unknown() -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::NotFound,
        "There is no such terminal session.",
    )
}

/// Notes the request of this hash, once; a session that has ended, or whose end was requested before, stays as it is.
pub(super) async fn end(
    pool: &PgPool,
    caller: &Caller,
    hash: &[u8],
    session_id: Uuid,
    by: By<'_>,
) -> Result<TerminalSession> {
    let (method, action) = by.names();
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method,
        key: caller.idempotency_key()?,
    };
    let mut tx = pool.begin().await?;
    // before the session: a repeat waits for the first of its kind, and not for what else is at work on it
    let taken = idempotency::take(&mut tx, scope, hash, &session_id.to_string()).await?;
    let before = sessions::lock(&mut tx, session_id).await?;
    let before = before.ok_or_else(unknown)?;
    by.may(caller, &before)?;
    if taken != idempotency::Lookup::Fresh {
        return Ok(before.into());
    }
    let reason = match by {
        By::User(_) => "",
        By::Operator(reason) => reason,
    };
    // the reason of an operator is on record, also where the end of what is still open was requested before
    let is_said = matches!(by, By::Operator(_)) && before.close_time.is_none();
    let after = match sessions::request_end(&mut tx, session_id, reason).await? {
        Some(after) => after,
        None if is_said => before.clone(),
        None => {
            tx.commit().await?;
            return Ok(before.into());
        }
    };
    let detail = json!({"allocation_id": after.allocation_id, "kind": after.kind, "principal": after.principal, "reason": reason});
    let project_id = after.project_id;
    let (before, after) = (TerminalSession::from(before), TerminalSession::from(after));
    let detail = audit::with_digests(detail, Some(&before), Some(&after));
    let entry = audit::Entry {
        principal: &caller.principal,
        action,
        resource: "session",
        resource_id: &after.id,
        request_id: &caller.request_id,
        detail: audit::in_project(detail, project_id),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(%session_id, action, "request the end of a terminal");
    Ok(after)
}
