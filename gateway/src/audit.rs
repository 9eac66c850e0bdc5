//! The audit trail of the whole cell: the records of all services, each read where it is kept, and of the gateway itself.
use futures::future::join_all;
use gpuaas_common::audit::read::{self, Filter};
use gpuaas_common::client::GrpcChannel;
use gpuaas_common::{Error, id, page};
use gpuaas_proto::gpuaas::audit::v1::{
    AuditChain, AuditRecord, ExportAuditRecordsRequest, ExportAuditRecordsResponse,
    ListAuditChainsResponse, ListAuditRecordsRequest, ListAuditRecordsResponse,
};
use gpuaas_proto::gpuaas::internal::audit::v1::audit_service_client::AuditServiceClient;
use gpuaas_proto::gpuaas::internal::audit::v1::{GetChainRequest, ListRecordsRequest};
use prost_reflect::DynamicMessage;
use tonic::{Request, Status};
use uuid::Uuid;

use crate::app::App;
use crate::contract::route::Route;
use crate::error::ApiError;

/// The service of the contract that is answered here.
pub const SERVICE: &str = "gpuaas.audit.v1.AuditAdminService";
/// The schema of the gateway itself.
pub(crate) const OWN: &str = "edge";
/// Schemas with the service that reads each. Two share `placement`; either would do.
const SOURCES: [(&str, &str); 6] = [
    ("placement", "scheduler"),
    ("inventory", "inventory"),
    ("images", "image-catalog"),
    ("terminal", "terminal-gateway"),
    ("billing", "billing"),
    (OWN, ""),
];

/// Answers a call of one of these methods.
///
/// # Errors
/// A bad request; for an export, a source that does not answer.
pub async fn answer(
    app: &App,
    route: &Route,
    message: &DynamicMessage,
) -> Result<DynamicMessage, ApiError> {
    let mut answer = DynamicMessage::new(route.method.output());
    let malformed = |_| ApiError::internal();
    let filled = match route.method.name() {
        "ListAuditRecords" => {
            let request = message.transcode_to().map_err(malformed)?;
            answer.transcode_from(&list(app, &request).await?)
        }
        "ListAuditChains" => answer.transcode_from(&chains(app).await),
        "ExportAuditRecords" => {
            let request = message.transcode_to().map_err(malformed)?;
            answer.transcode_from(&export(app, request).await?)
        }
        _ => return Err(ApiError::internal()),
    };
    filled.map_err(|error| {
        tracing::error!(method = route.method.full_name(), "write answer: {error}");
        ApiError::internal()
    })?;
    Ok(answer)
}

fn refused(error: Error) -> ApiError {
    ApiError::from_status(&Status::from(error))
}

/// The service that reads a source; empty for the gateway's own.
fn reader_of(source: &str) -> Result<&'static str, ApiError> {
    let known = SOURCES.iter().find(|(schema, _)| *schema == source);
    known.map(|(_, service)| *service).ok_or_else(|| {
        let names = SOURCES.map(|(schema, _)| schema).join(", ");
        refused(Error::invalid("source", format!("must be one of {names}")))
    })
}

async fn list(
    app: &App,
    request: &ListAuditRecordsRequest,
) -> Result<ListAuditRecordsResponse, ApiError> {
    let size = page::page_size(request.page_size).map_err(refused)?;
    let filter = Filter::parse(request).map_err(refused)?;
    let text = format!("{:?}", (&filter, &request.source));
    let query = ["audit", text.as_str()];
    let after: Option<String> = page::decode(&request.page_token, &query).map_err(refused)?;
    let after = after.map(|id| id::parse("page_token", &id));
    let after = after.transpose().map_err(refused)?;
    if !request.source.is_empty() {
        reader_of(&request.source)?;
    }
    let requested = SOURCES
        .iter()
        .filter(|(schema, _)| request.source.is_empty() || request.source == *schema);
    let wanted = Wanted {
        request,
        filter: &filter,
        project: None,
    };
    let answers =
        join_all(requested.map(async |(schema, _)| {
            (*schema, records(app, schema, wanted, after, size + 1).await)
        }))
        .await;
    let mut found = ListAuditRecordsResponse::default();
    for (schema, records) in answers {
        match records {
            Ok(records) => found.records.extend(records),
            Err(status) => {
                tracing::warn!(
                    schema,
                    "list audit records without it: {}",
                    status.message()
                );
                found.unreachable_sources.push(schema.to_owned());
            }
        }
    }
    // ids begin with the time
    found.records.sort_by(|one, other| other.id.cmp(&one.id));
    if filter.is_ascending() {
        found.records.reverse();
    }
    let more = found.records.len() as i64 > size;
    found.records.truncate(size as usize);
    if let Some(last) = found.records.last().filter(|_| more) {
        found.next_page_token = page::encode(&last.id, &query);
    }
    Ok(found)
}

/// Which records.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// What a service is asked for.
    pub request: &'a ListAuditRecordsRequest,
    /// The same, for the gateway's own.
    pub filter: &'a Filter,
    /// Only those of a project, and of a kind of thing there; an empty kind is any.
    pub project: Option<(Uuid, &'a str)>,
}

/// The records of a source that come after the one of an id, at most `limit`.
pub(crate) async fn records(
    app: &App,
    source: &str,
    wanted: Wanted<'_>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<AuditRecord>, Status> {
    let known = SOURCES.iter().find(|(schema, _)| *schema == source);
    let (_, service) = known.ok_or_else(|| Status::internal("no such source"))?;
    if service.is_empty() {
        let mut conn = app.pool.acquire().await.map_err(Error::from)?;
        return Ok(read::list(&mut conn, wanted.filter, after, limit).await?);
    }
    let (project_id, kind) = wanted
        .project
        .map(|(project, kind)| (project.to_string(), kind.to_owned()))
        .unzip();
    let request = ListRecordsRequest {
        project_id: project_id.unwrap_or_default(),
        kind: kind.unwrap_or_default(),
        filter: Some(wanted.request.clone()),
        before_id: after.map_or_else(String::new, |id| id.to_string()),
        limit: i32::try_from(limit).unwrap_or(i32::MAX),
    };
    let answer = client(app, service)?
        .list_records(in_time(app, request))
        .await?;
    Ok(answer.into_inner().records)
}

async fn chains(app: &App) -> ListAuditChainsResponse {
    let answers = join_all(
        SOURCES
            .iter()
            .map(async |(schema, service)| (*schema, chain(app, service).await)),
    )
    .await;
    let mut found = ListAuditChainsResponse::default();
    for (schema, chain) in answers {
        match chain {
            Ok(chain) => found.chains.push(chain),
            Err(status) => {
                tracing::warn!(schema, "list audit chains without it: {}", status.message());
                found.unreachable_sources.push(schema.to_owned());
            }
        }
    }
    found
}

async fn chain(app: &App, service: &str) -> Result<AuditChain, Status> {
    if service.is_empty() {
        let mut conn = app.pool.acquire().await.map_err(Error::from)?;
        return Ok(read::chain(&mut conn).await?);
    }
    let answer = client(app, service)?
        .get_chain(in_time(app, GetChainRequest {}))
        .await?;
    Ok(answer.into_inner())
}

async fn export(
    app: &App,
    request: ExportAuditRecordsRequest,
) -> Result<ExportAuditRecordsResponse, ApiError> {
    let service = reader_of(&request.source)?;
    let answer = async {
        if service.is_empty() {
            let mut conn = app.pool.acquire().await.map_err(Error::from)?;
            return Ok(read::export(&mut conn, &request).await?);
        }
        let answer = client(app, service)?
            .export_records(in_time(app, request.clone()))
            .await?;
        Ok::<_, Status>(answer.into_inner())
    };
    answer
        .await
        .map_err(|status| ApiError::from_status(&status))
}

fn client(app: &App, service: &str) -> Result<AuditServiceClient<GrpcChannel>, Status> {
    let channel = app.peers.channel(service).map_err(|error| {
        tracing::error!(service, "open channel: {}", error.chain());
        Status::unavailable("no channel")
    })?;
    Ok(AuditServiceClient::new(channel))
}

fn in_time<T>(app: &App, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(app.request_timeout);
    request
}
