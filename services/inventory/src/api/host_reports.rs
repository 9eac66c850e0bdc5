//! Reports of validate-host: attaching one to a node, and reading them.
use std::collections::BTreeMap;

use gpuaas_common::error::{Error, Result};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{audit, id, page};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use jiff::Timestamp;
use prost::Message as _;
use tonic::Request;

use super::lifecycle::in_service;
use super::{Mutation, Nodes, gone, no_node};
use crate::convert;
use crate::domain::host_report;
use crate::store::host_reports::{self, KEPT, ReportRow};
use crate::store::nodes::{self, NodeRow};

impl Nodes {
    pub(super) async fn attach_report(
        &self,
        request: &Request<api::AttachHostReportRequest>,
    ) -> Result<api::AttachedHostReport> {
        let mutation = Mutation::of(request, "AttachHostReport")?;
        let given = request.get_ref();
        let node_id = id::parse("node_id", &given.node_id)?;
        let report = given
            .report
            .as_ref()
            .ok_or_else(|| Error::required("report"))?;
        let report_id = self.0.ids.next();
        let key = report_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &key).await? {
            let earlier = earlier.parse().map_err(Error::internal)?;
            let row = host_reports::find(&mut tx, earlier).await?;
            return attached(row.ok_or_else(|| gone("the report"))?);
        }
        nodes::lock(&mut tx, node_id).await?;
        let node = nodes::find(&mut tx, node_id, self.0.config.freshness())
            .await?
            .filter(NodeRow::is_shown)
            .ok_or_else(|| no_node(&node_id))?;
        in_service(&node)?;
        host_report::check(report, &node.hostname, Timestamp::now())?;
        let node = node_id.to_string();
        let mut detail = host_report::summary(report);
        detail["report_id"] = key.into();
        let principal = &mutation.caller.principal;
        host_reports::insert(
            &mut tx,
            report_id,
            node_id,
            &report.encode_to_vec(),
            principal,
        )
        .await?;
        let row = host_reports::find(&mut tx, report_id).await?;
        let made = attached(row.ok_or_else(|| gone("the report"))?)?;
        let detail = audit::with_digests(detail, None, Some(&made));
        mutation
            .audit(&mut tx, "node.attach_report", ("node", &node), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%node_id, %report_id, "attach host report");
        Ok(made)
    }

    pub(super) async fn reports(
        &self,
        request: &api::ListHostReportsRequest,
    ) -> Result<api::ListHostReportsResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let size = match request.page_size {
            0 => 1,
            size => page::page_size(size)?.min(KEPT),
        };
        let selection =
            Selection::parse(&host_reports::REPORTS, &request.filter, &request.order_by)?;
        self.row(node_id).await?;
        let mut conn = self.0.pool.acquire().await?;
        let rows = host_reports::of_node(&mut conn, node_id).await?;
        let all = rows.into_iter().map(attached).collect::<Result<Vec<_>>>()?;
        let facts = all.iter().map(host_report::facts).collect();
        let wanted = Wanted {
            page_token: &request.page_token,
            size,
            query: &[&request.node_id],
        };
        let (chosen, next_page_token) =
            host_reports::select(&mut conn, facts, &selection, wanted).await?;
        let mut all: BTreeMap<String, _> =
            all.into_iter().map(|one| (one.id.clone(), one)).collect();
        let chosen = chosen.iter().filter_map(|id| all.remove(&id.to_string()));
        Ok(api::ListHostReportsResponse {
            reports: chosen.collect(),
            next_page_token,
        })
    }
}

fn attached(row: ReportRow) -> Result<api::AttachedHostReport> {
    let report = api::HostReport::decode(row.report.as_slice()).map_err(Error::internal)?;
    Ok(api::AttachedHostReport {
        id: row.id.to_string(),
        node_id: row.node_id.to_string(),
        report: Some(report),
        principal: row.principal,
        attach_time: Some(convert::time(row.attach_time)),
    })
}
