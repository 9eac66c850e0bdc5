//! `AuditService`: the audit records of the schema of this service, for the gateway.
use gpuaas_proto::gpuaas::audit::v1::{
    AuditChain, ExportAuditRecordsRequest, ExportAuditRecordsResponse,
};
use gpuaas_proto::gpuaas::internal::audit::v1::audit_service_server::{
    AuditService, AuditServiceServer,
};
use gpuaas_proto::gpuaas::internal::audit::v1::{
    GetChainRequest, ListRecordsRequest, ListRecordsResponse,
};
use sqlx::PgPool;
use tonic::{Request, Response, Status};

use super::read::{self, Filter};
use crate::error::Error;
use crate::id;
use crate::page::MAX_PAGE_SIZE;

/// The service.
pub struct Api {
    pool: PgPool,
}

/// The service on a pool.
pub fn service(pool: PgPool) -> AuditServiceServer<Api> {
    AuditServiceServer::new(Api { pool })
}

#[tonic::async_trait]
impl AuditService for Api {
    async fn list_records(
        &self,
        request: Request<ListRecordsRequest>,
    ) -> Result<Response<ListRecordsResponse>, Status> {
        let request = request.into_inner();
        let mut filter = Filter::parse(&request.filter.unwrap_or_default())?;
        if !request.project_id.is_empty() {
            let project = id::parse("project_id", &request.project_id)?;
            filter = filter.in_project(project, &request.kind);
        }
        let before = match request.before_id.as_str() {
            "" => None,
            before => Some(id::parse("before_id", before)?),
        };
        // one more than a page says whether there is another
        let limit = i64::from(request.limit).clamp(1, MAX_PAGE_SIZE + 1);
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let records = read::list(&mut conn, &filter, before, limit).await?;
        Ok(Response::new(ListRecordsResponse { records }))
    }

    async fn get_chain(&self, _: Request<GetChainRequest>) -> Result<Response<AuditChain>, Status> {
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        Ok(Response::new(read::chain(&mut conn).await?))
    }

    async fn export_records(
        &self,
        request: Request<ExportAuditRecordsRequest>,
    ) -> Result<Response<ExportAuditRecordsResponse>, Status> {
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        Ok(Response::new(
            read::export(&mut conn, request.get_ref()).await?,
        ))
    }
}
