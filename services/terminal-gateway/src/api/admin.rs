//! `TerminalAdminService`: the sessions of all projects, and their end by an operator.
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Result, audit, id, idempotency, page};
use gpuaas_proto::gpuaas::terminal::v1::terminal_admin_service_server::TerminalAdminService;
use gpuaas_proto::gpuaas::terminal::v1::{
    EndTenantTerminalSessionRequest, ListTerminalSessionsRequest, ListTerminalSessionsResponse,
    TerminalSession,
};
use sqlx::PgPool;
use tonic::{Request, Response, Status};

use super::end::{By, end};
use crate::store::sessions::{self, Filter, SESSIONS};

/// Answers from the database.
#[derive(Debug, Clone)]
pub(crate) struct AdminApi {
    pub(crate) pool: PgPool,
}

#[tonic::async_trait]
impl TerminalAdminService for AdminApi {
    async fn list_terminal_sessions(
        &self,
        request: Request<ListTerminalSessionsRequest>,
    ) -> Result<Response<ListTerminalSessionsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn end_tenant_terminal_session(
        &self,
        request: Request<EndTenantTerminalSessionRequest>,
    ) -> Result<Response<TerminalSession>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.get_ref();
        let session_id = id::parse("session_id", &request.session_id)?;
        let by = By::Operator(audit::reason(&request.reason)?);
        let hash = idempotency::hash(request);
        let ended = end(&self.pool, &caller, &hash, session_id, by).await?;
        Ok(Response::new(ended))
    }
}

impl AdminApi {
    async fn list(
        &self,
        request: ListTerminalSessionsRequest,
    ) -> Result<ListTerminalSessionsResponse> {
        let allocation_id = match request.allocation_id.as_str() {
            "" => None,
            text => Some(id::parse("allocation_id", text)?),
        };
        let filter = Filter {
            allocation_id,
            projects: None,
        };
        let selection = Selection::parse(&SESSIONS, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["terminal-sessions", &request.allocation_id],
        };
        let (sessions, next_page_token) =
            sessions::list(&self.pool, &filter, &selection, wanted).await?;
        Ok(ListTerminalSessionsResponse {
            sessions: sessions.into_iter().map(Into::into).collect(),
            next_page_token,
        })
    }
}
