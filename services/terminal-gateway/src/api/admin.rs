//! `TerminalAdminService`: the list of sessions.
use gpuaas_common::error::Result;
use gpuaas_common::{id, page};
use gpuaas_proto::gpuaas::terminal::v1::terminal_admin_service_server::TerminalAdminService;
use gpuaas_proto::gpuaas::terminal::v1::{
    ListTerminalSessionsRequest, ListTerminalSessionsResponse, TerminalSession,
};
use sqlx::PgPool;
use tonic::{Request, Response, Status};

use crate::store::sessions::{self, Filter};

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
        let query = ["terminal-sessions", request.allocation_id.as_str()];
        let page = list(
            &self.pool,
            &filter,
            &query,
            request.page_size,
            &request.page_token,
        )
        .await?;
        let (sessions, next_page_token) = page;
        Ok(ListTerminalSessionsResponse {
            sessions,
            next_page_token,
        })
    }
}

/// One page of sessions, with the token of the next one.
pub(crate) async fn list(
    pool: &PgPool,
    filter: &Filter,
    query: &[&str],
    page_size: i32,
    page_token: &str,
) -> Result<(Vec<TerminalSession>, String)> {
    let size = page::page_size(page_size)?;
    let before = page::decode(page_token, query)?;
    let mut rows = sessions::list(pool, filter, before, size + 1).await?;
    let more = rows.len() as i64 > size;
    rows.truncate(size as usize);
    let next_page_token = match rows.last() {
        Some(last) if more => page::encode(&(last.open_time.to_jiff(), last.id), query),
        _ => String::new(),
    };
    Ok((rows.into_iter().map(Into::into).collect(), next_page_token))
}
