//! `LedgerAdminService`: the operator's proof that the ledger is sound.
use gpuaas_common::Result;
use gpuaas_common::identity::Caller;
use gpuaas_common::time::proto_time;
use gpuaas_placement::audit;
use gpuaas_proto::gpuaas::scheduler::v1::ledger_admin_service_server::LedgerAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    AuditLedgerRequest, AuditLedgerResponse, LedgerInvariant,
};
use tonic::{Request, Response, Status};

use super::Api;

#[tonic::async_trait]
impl LedgerAdminService for Api {
    async fn audit_ledger(
        &self,
        request: Request<AuditLedgerRequest>,
    ) -> Result<Response<AuditLedgerResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.audit().await?))
    }
}

impl Api {
    async fn audit(&self) -> Result<AuditLedgerResponse> {
        let mut conn = self.pool.acquire().await?;
        let report = audit::ledger(&mut conn).await?;
        for check in report.broken() {
            tracing::error!(
                invariant = check.name,
                broken = check.broken,
                subjects = ?check.subjects,
                "find broken invariant"
            );
        }
        let sound = report.broken().next().is_none();
        Ok(AuditLedgerResponse {
            audit_time: Some(proto_time(report.at.to_jiff())),
            sound,
            invariants: report
                .checks
                .into_iter()
                .map(|check| LedgerInvariant {
                    name: check.name.to_owned(),
                    rule: check.rule.to_owned(),
                    broken: check.broken,
                    subjects: check.subjects,
                })
                .collect(),
        })
    }
}
