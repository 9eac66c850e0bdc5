//! Tells the ledger which projects are suspended, so that what is queued there does not start: with each change, and again and
//! again, in case the ledger did not hear of one. It needs no order, since each project is told with its version.
use std::collections::HashSet;
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::{CancellationToken, Error, Result, db};
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_client::SuspensionServiceClient;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ProjectSuspension, PutProjectSuspensionsRequest,
};
use sqlx::PgPool;
use tonic::Request;
use uuid::Uuid;

use super::call::Call;
use crate::store::{self, SuspensionRow};

/// Between two rounds.
const POLL: Duration = Duration::from_secs(10);
/// Longest time that the ledger may take for one.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Tells of a change that was made. Where the ledger does not answer, it hears of it later: the change stands.
pub(super) async fn changed(call: &Call<'_>) {
    if let Err(error) = tell(&call.app.pool, &call.app.peers).await {
        tracing::warn!(
            "tell the ledger later which projects are suspended: {}",
            error.chain()
        );
    }
}

/// Tells the ledger until `shutdown`.
pub(crate) async fn run(pool: PgPool, peers: Peers, shutdown: CancellationToken) {
    let mut trouble = false;
    while !shutdown.is_cancelled() {
        let told = db::within(db::PASS, tell(&pool, &peers)).await;
        match (&told, trouble) {
            (Err(error), false) => tracing::warn!(
                "wait to tell the ledger which projects are suspended: {}",
                error.chain()
            ),
            (Ok(()), true) => tracing::info!("tell the ledger again which projects are suspended"),
            _ => {}
        }
        trouble = told.is_err();
        shutdown.run_until_cancelled(tokio::time::sleep(POLL)).await;
    }
}

/// Tells what is suspended, and then of what the ledger has as suspended that it is not.
async fn tell(pool: &PgPool, peers: &Peers) -> Result<()> {
    let suspended = store::suspended_projects(pool).await?;
    let known: HashSet<Uuid> = suspended.iter().map(|one| one.project_id).collect();
    let has = put(peers, suspended).await?;
    let others: Vec<Uuid> = has.into_iter().filter(|id| !known.contains(id)).collect();
    if !others.is_empty() {
        // as they are now: one of them may have been suspended meanwhile
        let others = store::suspensions_of(pool, &others).await?;
        put(peers, others).await?;
    }
    Ok(())
}

/// Answers what the ledger has as suspended then.
async fn put(peers: &Peers, said: Vec<SuspensionRow>) -> Result<Vec<Uuid>> {
    let said = said.into_iter().map(|one| ProjectSuspension {
        project_id: one.project_id.to_string(),
        suspended: one.suspended,
        version: one.version,
    });
    let mut request = Request::new(PutProjectSuspensionsRequest {
        projects: said.collect(),
    });
    request.set_timeout(TIMEOUT);
    let answer = SuspensionServiceClient::new(peers.channel("scheduler")?)
        .put_project_suspensions(request)
        .await
        .map_err(Error::from)?
        .into_inner();
    let ids = answer.suspended_project_ids.iter();
    Ok(ids.filter_map(|id| id.parse().ok()).collect())
}
