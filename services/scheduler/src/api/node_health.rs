//! `NodeHealthService`: break-fix records and findings of outside health agents. Each change has its audit row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, audit, id, page};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::node_health::{self, Severity};
use gpuaas_placement::{node_placement, outbox};
use gpuaas_proto::gpuaas::scheduler::v1::node_health_service_server::NodeHealthService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    AddBreakFixActionRequest, BreakFix, BreakFixAction, CloseBreakFixRequest, FindingSeverity,
    ListBreakFixesRequest, ListBreakFixesResponse, ListNodeFindingsRequest,
    ListNodeFindingsResponse, NodeFinding, OpenBreakFixRequest, ReportNodeFindingRequest,
    ResolveNodeFindingRequest,
};
use prost::Message;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{Api, convert, parse};

const MAX_TEXT: usize = 500;
const MAX_NAME: usize = 100;

#[tonic::async_trait]
impl NodeHealthService for Api {
    async fn open_break_fix(
        &self,
        request: Request<OpenBreakFixRequest>,
    ) -> Result<Response<BreakFix>, Status> {
        let call = Call::of(&request, "OpenBreakFix", &request.get_ref().node_id)?;
        Ok(Response::new(self.open(&call, request.get_ref()).await?))
    }

    async fn list_break_fixes(
        &self,
        request: Request<ListBreakFixesRequest>,
    ) -> Result<Response<ListBreakFixesResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.break_fixes(request.get_ref()).await?))
    }

    async fn add_break_fix_action(
        &self,
        request: Request<AddBreakFixActionRequest>,
    ) -> Result<Response<BreakFix>, Status> {
        let call = Call::of(&request, "AddBreakFixAction", &request.get_ref().node_id)?;
        Ok(Response::new(self.act(&call, request.get_ref()).await?))
    }

    async fn close_break_fix(
        &self,
        request: Request<CloseBreakFixRequest>,
    ) -> Result<Response<BreakFix>, Status> {
        let call = Call::of(&request, "CloseBreakFix", &request.get_ref().node_id)?;
        Ok(Response::new(self.close(&call, request.get_ref()).await?))
    }

    async fn report_node_finding(
        &self,
        request: Request<ReportNodeFindingRequest>,
    ) -> Result<Response<NodeFinding>, Status> {
        let call = Call::of(&request, "ReportNodeFinding", &request.get_ref().node_id)?;
        Ok(Response::new(self.report(&call, request.get_ref()).await?))
    }

    async fn list_node_findings(
        &self,
        request: Request<ListNodeFindingsRequest>,
    ) -> Result<Response<ListNodeFindingsResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.findings(request.get_ref()).await?))
    }

    async fn resolve_node_finding(
        &self,
        request: Request<ResolveNodeFindingRequest>,
    ) -> Result<Response<NodeFinding>, Status> {
        let call = Call::of(&request, "ResolveNodeFinding", &request.get_ref().node_id)?;
        Ok(Response::new(self.resolve(&call, request.get_ref()).await?))
    }
}

/// One change of a node's records: who, under which key.
struct Call {
    caller: Caller,
    method: &'static str,
    key: String,
    hash: Vec<u8>,
    node_id: Uuid,
}

impl Call {
    fn of<T: Message>(request: &Request<T>, method: &'static str, node_id: &str) -> Result<Self> {
        let caller = Caller::of(request)?;
        let key = caller.idempotency_key()?.to_owned();
        Ok(Self {
            caller,
            method,
            key,
            hash: idempotency::hash(request.get_ref()),
            node_id: id::parse("node_id", node_id)?,
        })
    }

    fn scope(&self) -> Scope<'_> {
        Scope {
            principal: &self.caller.principal,
            method: self.method,
            key: &self.key,
        }
    }

    /// Takes the key for a record or finding, unless an earlier call has it: then what that one was about.
    async fn earlier(&self, conn: &mut PgConnection, about: Uuid) -> Result<Option<Uuid>> {
        match idempotency::take(conn, self.scope(), &self.hash, &about.to_string()).await? {
            Lookup::Fresh => Ok(None),
            Lookup::Replay { resource_id } => {
                resource_id.parse().map(Some).map_err(Error::internal)
            }
        }
    }

    async fn record(&self, conn: &mut PgConnection, action: &str, detail: Value) -> Result<()> {
        let node_id = self.node_id.to_string();
        let entry = audit::Entry {
            principal: &self.caller.principal,
            action,
            resource: "node",
            resource_id: &node_id,
            request_id: &self.caller.request_id,
            detail,
        };
        audit::record(conn, entry).await
    }

    fn attribution<'a>(&'a self, text: &'a str) -> Attribution<'a> {
        Attribution::of(&self.caller.principal, text)
    }
}

impl Api {
    async fn open(&self, call: &Call, request: &OpenBreakFixRequest) -> Result<BreakFix> {
        text("fault", &request.fault, MAX_TEXT)?;
        let slot_id = slot(&request.slot_id)?;
        let id = self.ids.next();
        let mut tx = self.pool.begin().await?;
        if let Some(id) = call.earlier(&mut tx, id).await? {
            return shown(&mut tx, call.node_id, id).await;
        }
        node_health::open(
            &mut tx,
            id,
            call.node_id,
            slot_id,
            call.attribution(&request.fault),
        )
        .await?;
        let detail = json!({ "break_fix_id": id, "slot_id": slot_id, "fault": request.fault });
        let record = shown(&mut tx, call.node_id, id).await?;
        let detail = audit::with_digests(detail, None, Some(&record));
        call.record(&mut tx, "break_fix.open", detail).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::warn!(node_id = %call.node_id, break_fix_id = %id, "open break-fix record");
        Ok(record)
    }

    async fn act(&self, call: &Call, request: &AddBreakFixActionRequest) -> Result<BreakFix> {
        text("action", &request.action, MAX_TEXT)?;
        let id = id::parse("break_fix_id", &request.break_fix_id)?;
        let mut tx = self.pool.begin().await?;
        if let Some(id) = call.earlier(&mut tx, id).await? {
            return shown(&mut tx, call.node_id, id).await;
        }
        node_placement::lock(&mut tx, call.node_id).await?;
        let before = shown(&mut tx, call.node_id, id).await?;
        node_health::act(&mut tx, call.node_id, id, call.attribution(&request.action)).await?;
        let record = shown(&mut tx, call.node_id, id).await?;
        let detail = json!({ "break_fix_id": id, "action": request.action });
        let detail = audit::with_digests(detail, Some(&before), Some(&record));
        call.record(&mut tx, "break_fix.act", detail).await?;
        tx.commit().await?;
        tracing::info!(node_id = %call.node_id, break_fix_id = %id, "note break-fix action");
        Ok(record)
    }

    async fn close(&self, call: &Call, request: &CloseBreakFixRequest) -> Result<BreakFix> {
        text("outcome", &request.outcome, MAX_TEXT)?;
        let id = id::parse("break_fix_id", &request.break_fix_id)?;
        let mut tx = self.pool.begin().await?;
        if let Some(id) = call.earlier(&mut tx, id).await? {
            return shown(&mut tx, call.node_id, id).await;
        }
        node_placement::lock(&mut tx, call.node_id).await?;
        let before = shown(&mut tx, call.node_id, id).await?;
        node_health::close(
            &mut tx,
            call.node_id,
            id,
            call.attribution(&request.outcome),
        )
        .await?;
        let record = shown(&mut tx, call.node_id, id).await?;
        let detail = json!({ "break_fix_id": id, "outcome": request.outcome });
        let detail = audit::with_digests(detail, Some(&before), Some(&record));
        call.record(&mut tx, "break_fix.close", detail).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(node_id = %call.node_id, break_fix_id = %id, "close break-fix record");
        Ok(record)
    }

    async fn break_fixes(&self, request: &ListBreakFixesRequest) -> Result<ListBreakFixesResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let selection = Selection::parse(
            &node_health::BREAK_FIXES,
            &request.filter,
            &request.order_by,
        )?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["break_fixes", &request.node_id],
        };
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) =
            node_health::break_fixes(&mut conn, node_id, &selection, wanted).await?;
        let mut break_fixes = Vec::new();
        for record in rows {
            let actions = node_health::actions(&mut conn, record.id).await?;
            break_fixes.push(break_fix(record, actions));
        }
        Ok(ListBreakFixesResponse {
            break_fixes,
            next_page_token,
        })
    }

    async fn findings(
        &self,
        request: &ListNodeFindingsRequest,
    ) -> Result<ListNodeFindingsResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let open = !request.include_resolved;
        let kind = if open { "open_findings" } else { "findings" };
        let selection =
            Selection::parse(&node_health::FINDINGS, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &[kind, &request.node_id],
        };
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) =
            node_health::findings(&mut conn, node_id, open, &selection, wanted).await?;
        Ok(ListNodeFindingsResponse {
            findings: rows.into_iter().map(finding).collect(),
            next_page_token,
        })
    }

    async fn report(&self, call: &Call, request: &ReportNodeFindingRequest) -> Result<NodeFinding> {
        parse::label("source", &request.source)?;
        text("code", &request.code, MAX_NAME)?;
        at_most("device", &request.device, MAX_NAME)?;
        at_most("message", &request.message, MAX_TEXT)?;
        let severity = match request.severity() {
            FindingSeverity::Unspecified => return Err(Error::required("severity")),
            FindingSeverity::Info => Severity::Info,
            FindingSeverity::Warning => Severity::Warning,
            FindingSeverity::Critical => Severity::Critical,
        };
        let slot_id = slot(&request.slot_id)?;
        let report = node_health::Report {
            node_id: call.node_id,
            slot_id,
            source: &request.source,
            code: &request.code,
            device: &request.device,
            severity,
            message: &request.message,
            principal: &call.caller.principal,
        };
        let new = self.ids.next();
        let mut tx = self.pool.begin().await?;
        if let Some(id) = call.earlier(&mut tx, new).await? {
            let known = node_health::finding(&mut tx, call.node_id, id).await?;
            return Ok(finding(known));
        }
        node_placement::lock(&mut tx, call.node_id).await?;
        let before = node_health::reported(&mut tx, &report).await?;
        // which finding it is about is known under the lock alone
        if let Some(known) = &before {
            let id = known.id.to_string();
            idempotency::point(&mut tx, call.scope(), &call.hash, &id).await?;
        }
        let found = node_health::report(&mut tx, new, &report).await?;
        let detail = json!({
            "finding_id": found.id, "source": found.source, "code": found.code, "device": found.device,
            "severity": found.severity, "slot_id": slot_id,
        });
        let (before, after) = (before.map(finding), finding(found.clone()));
        let detail = audit::with_digests(detail, before.as_ref(), Some(&after));
        call.record(&mut tx, "finding.report", detail).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(
            node_id = %call.node_id, finding_id = %found.id, source = found.source, code = found.code,
            severity = found.severity, "take in finding"
        );
        Ok(after)
    }

    async fn resolve(
        &self,
        call: &Call,
        request: &ResolveNodeFindingRequest,
    ) -> Result<NodeFinding> {
        text("resolution", &request.resolution, MAX_TEXT)?;
        let id = id::parse("finding_id", &request.finding_id)?;
        let mut tx = self.pool.begin().await?;
        if call.earlier(&mut tx, id).await?.is_some() {
            let known = node_health::finding(&mut tx, call.node_id, id).await?;
            return Ok(finding(known));
        }
        node_placement::lock(&mut tx, call.node_id).await?;
        let before = finding(node_health::finding(&mut tx, call.node_id, id).await?);
        let by = call.attribution(&request.resolution);
        let found = finding(node_health::resolve(&mut tx, call.node_id, id, by).await?);
        let detail = json!({ "finding_id": id, "resolution": request.resolution });
        let detail = audit::with_digests(detail, Some(&before), Some(&found));
        call.record(&mut tx, "finding.resolve", detail).await?;
        tx.commit().await?;
        tracing::info!(node_id = %call.node_id, finding_id = %id, "resolve finding");
        Ok(found)
    }
}

async fn shown(conn: &mut PgConnection, node_id: Uuid, id: Uuid) -> Result<BreakFix> {
    let record = node_health::break_fix(conn, node_id, id).await?;
    Ok(break_fix(record, node_health::actions(conn, id).await?))
}

fn break_fix(record: node_health::BreakFix, actions: Vec<node_health::Action>) -> BreakFix {
    BreakFix {
        id: record.id.to_string(),
        node_id: record.node_id.to_string(),
        slot_id: optional(record.slot_id),
        fault: record.fault,
        opened_by: record.opened_by,
        open_time: Some(convert::time(record.opened_at)),
        actions: actions
            .into_iter()
            .map(|one| BreakFixAction {
                time: Some(convert::time(one.at)),
                principal: one.principal,
                action: one.action,
            })
            .collect(),
        closed_by: record.closed_by.unwrap_or_default(),
        close_time: record.closed_at.map(convert::time),
        outcome: record.outcome.unwrap_or_default(),
    }
}

fn finding(found: node_health::Finding) -> NodeFinding {
    let severity = match found.severity.as_str() {
        "critical" => FindingSeverity::Critical,
        "warning" => FindingSeverity::Warning,
        _ => FindingSeverity::Info,
    };
    NodeFinding {
        id: found.id.to_string(),
        node_id: found.node_id.to_string(),
        slot_id: optional(found.slot_id),
        source: found.source,
        code: found.code,
        device: found.device,
        severity: severity.into(),
        message: found.message,
        reported_by: found.reported_by,
        first_time: Some(convert::time(found.first_at)),
        last_time: Some(convert::time(found.last_at)),
        count: found.seen,
        resolved_by: found.resolved_by.unwrap_or_default(),
        resolve_time: found.resolved_at.map(convert::time),
        resolution: found.resolution.unwrap_or_default(),
    }
}

fn optional(id: Option<Uuid>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

fn slot(given: &str) -> Result<Option<Uuid>> {
    match given {
        "" => Ok(None),
        given => id::parse("slot_id", given).map(Some),
    }
}

fn text(field: &'static str, value: &str, max: usize) -> Result<()> {
    if value.trim().is_empty() {
        return Err(Error::required(field));
    }
    at_most(field, value, max)
}

fn at_most(field: &'static str, value: &str, max: usize) -> Result<()> {
    if value.chars().count() > max {
        let rule = format!("must be at most {max} characters");
        return Err(Error::invalid(field, rule));
    }
    Ok(())
}
