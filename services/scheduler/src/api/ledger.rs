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
        for finding in report.broken() {
            tracing::error!(
                invariant = finding.name,
                broken = finding.broken,
                subjects = ?finding.subjects,
                "find broken invariant"
            );
        }
        let sound = report.broken().next().is_none();
        Ok(AuditLedgerResponse {
            audit_time: Some(proto_time(report.at.to_jiff())),
            sound,
            invariants: report
                .findings
                .into_iter()
                .map(|finding| LedgerInvariant {
                    name: finding.name.to_owned(),
                    rule: finding.rule.to_owned(),
                    broken: finding.broken,
                    subjects: finding.subjects,
                })
                .collect(),
        })
    }
}
