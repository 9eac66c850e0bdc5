//! `TerminalSessionService`: tickets, and what a user may see of sessions.
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, Result, audit, id, idempotency, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::terminal::v1 as pb;
use gpuaas_proto::gpuaas::terminal::v1::terminal_session_service_server::TerminalSessionService;
use serde_json::json;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::end::{By, end};
use crate::config::Policy;
use crate::domain::end::NO_UNRECORDED_TUNNEL;
use crate::domain::kind::Kind;
use crate::domain::message::SecretHash;
use crate::session::{Deps, target};
use crate::store::sessions::{Filter, SESSIONS};
use crate::store::tickets::{self, NewTicket};
use crate::store::{recordings, sessions};

/// Where the gateway takes WebSockets.
const WEBSOCKET_PATH: &str = "/api/v1/terminal";
/// What they speak.
const SUBPROTOCOL: &str = "gpuaas.terminal.v1";
const CREATE: &str = "CreateTerminalSession";
/// Metadata in which the gateway says what the header Origin was.
const ORIGIN: &str = "x-origin";

/// The service.
pub(crate) struct SessionApi {
    pub(crate) deps: Deps,
}

impl SessionApi {
    async fn create(
        &self,
        caller: &Caller,
        origin: &str,
        request: &pb::CreateTerminalSessionRequest,
    ) -> Result<pb::CreateTerminalSessionResponse> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let kind = Kind::requested(request.kind)?;
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: CREATE,
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(request);
        let mut conn = self.deps.pool.acquire().await?;
        if let idempotency::Lookup::Replay { resource_id } =
            idempotency::lookup(&mut conn, scope, &hash).await?
        {
            let session_id = id::parse("session_id", &resource_id)?;
            let issued = tickets::issued(&mut conn, session_id).await?;
            let project_id = match issued {
                Some((_, project_id)) => Some(project_id),
                None => {
                    let opened = sessions::get(&mut conn, session_id).await?;
                    opened.map(|session| session.project_id)
                }
            };
            let recording = project_id.and_then(|id| self.deps.recording(kind, id));
            // the secret was shown to the first call and is nowhere any more
            return Ok(pb::CreateTerminalSessionResponse {
                session_id: resource_id,
                expire_time: issued.map(|(at, _)| proto_time(at.to_jiff())),
                recorded: recording.is_some_and(|policy| policy != Policy::Off),
                ..answer(kind)
            });
        }
        drop(conn);
        // no ticket for what could not be opened (F-11)
        let place = target::resolve(&self.deps.peers, allocation_id, &caller.projects).await?;
        let recording = self.deps.recording(kind, place.project_id);
        let recording = recording.ok_or_else(|| {
            Error::new(
                Code::FailedPrecondition,
                ErrorReason::RecordingRequired,
                NO_UNRECORDED_TUNNEL,
            )
        })?;

        let session_id = self.deps.ids.next();
        let secret = id::random_hex(32);
        let ticket = NewTicket {
            session_id,
            allocation_id,
            project_id: place.project_id,
            principal: &caller.principal,
            origin,
            kind,
        };
        let mut tx = self.deps.pool.begin().await?;
        let open = sessions::count_open(&mut tx, &caller.principal).await?;
        let usable = tickets::usable(&mut tx, &caller.principal).await?;
        let most = self.deps.config.max_sessions_per_user;
        if open + usable >= i64::from(most) {
            return Err(Error::new(
                Code::ResourceExhausted,
                ErrorReason::Quota,
                format!(
                    "You have {most} terminals open or about to be opened, the most allowed. Close one."
                ),
            ));
        }
        idempotency::record(&mut tx, scope, &hash, &session_id.to_string()).await?;
        let expire_time = tickets::insert(
            &mut tx,
            SecretHash::of(&secret),
            &ticket,
            self.deps.config.ticket_seconds,
        )
        .await?;
        let made = pb::CreateTerminalSessionResponse {
            session_id: session_id.to_string(),
            expire_time: Some(proto_time(expire_time.to_jiff())),
            recorded: recording != Policy::Off,
            ..answer(kind)
        };
        // the answer without its ticket
        let detail = json!({"allocation_id": allocation_id, "origin": origin, "kind": kind.name()});
        let detail = audit::with_digests(detail, None, Some(&made));
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "terminal.create",
            resource: "session",
            resource_id: &session_id.to_string(),
            request_id: &caller.request_id,
            detail: audit::in_project(detail, place.project_id),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(%session_id, %allocation_id, "give out terminal ticket");
        Ok(pb::CreateTerminalSessionResponse {
            ticket: secret,
            ..made
        })
    }

    async fn list(
        &self,
        caller: &Caller,
        request: pb::ListAllocationTerminalSessionsRequest,
    ) -> Result<pb::ListAllocationTerminalSessionsResponse> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let filter = Filter {
            allocation_id: Some(allocation_id),
            projects: Some(caller.projects.clone()),
        };
        let selection = Selection::parse(&SESSIONS, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["allocation-terminal-sessions", &request.allocation_id],
        };
        let (sessions, next_page_token) =
            sessions::list(&self.deps.pool, &filter, &selection, wanted).await?;
        if sessions.is_empty() {
            // no session, or no such allocation of theirs: a foreign one does not exist here either
            target::exists(&self.deps.peers, allocation_id, &caller.projects).await?;
        }
        Ok(pb::ListAllocationTerminalSessionsResponse {
            sessions: sessions.into_iter().map(Into::into).collect(),
            next_page_token,
        })
    }

    async fn end(
        &self,
        caller: &Caller,
        request: &pb::EndTerminalSessionRequest,
    ) -> Result<pb::TerminalSession> {
        let by = By::User(id::parse("allocation_id", &request.allocation_id)?);
        let session_id = id::parse("session_id", &request.session_id)?;
        let hash = idempotency::hash(request);
        end(&self.deps.pool, caller, &hash, session_id, by).await
    }

    async fn recording(
        &self,
        caller: &Caller,
        request: pb::GetTerminalRecordingRequest,
    ) -> Result<pb::GetTerminalRecordingResponse> {
        let session_id: Uuid = id::parse("session_id", &request.session_id)?;
        let query = ["terminal-recording", request.session_id.as_str()];
        let seq: i32 = page::decode(&request.page_token, &query)?.unwrap_or(0);
        let found = sessions::find(&self.deps.pool, &caller.projects, session_id).await?;
        let kept = found.filter(|session| session.recording == "kept");
        if kept.is_none() {
            return Err(Error::new(
                Code::NotFound,
                ErrorReason::NotFound,
                "There is no recording of such a session in your projects.",
            ));
        }
        let (asciicast, next) = recordings::page(&self.deps.pool, session_id, seq).await?;
        let next_page_token = next.map_or_else(String::new, |next| page::encode(&next, &query));
        Ok(pb::GetTerminalRecordingResponse {
            asciicast,
            next_page_token,
        })
    }
}

fn answer(kind: Kind) -> pb::CreateTerminalSessionResponse {
    pb::CreateTerminalSessionResponse {
        kind: kind.wire().into(),
        websocket_path: WEBSOCKET_PATH.to_owned(),
        subprotocol: SUBPROTOCOL.to_owned(),
        ..Default::default()
    }
}

#[tonic::async_trait]
impl TerminalSessionService for SessionApi {
    async fn create_terminal_session(
        &self,
        request: Request<pb::CreateTerminalSessionRequest>,
    ) -> Result<Response<pb::CreateTerminalSessionResponse>, Status> {
        let caller = Caller::of(&request)?;
        let origin = request
            .metadata()
            .get(ORIGIN)
            .and_then(|value| value.to_str().ok());
        let origin = origin.unwrap_or_default().to_owned();
        Ok(Response::new(
            self.create(&caller, &origin, request.get_ref()).await?,
        ))
    }

    async fn list_allocation_terminal_sessions(
        &self,
        request: Request<pb::ListAllocationTerminalSessionsRequest>,
    ) -> Result<Response<pb::ListAllocationTerminalSessionsResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.list(&caller, request.into_inner()).await?,
        ))
    }

    async fn end_terminal_session(
        &self,
        request: Request<pb::EndTerminalSessionRequest>,
    ) -> Result<Response<pb::TerminalSession>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(self.end(&caller, request.get_ref()).await?))
    }

    async fn get_terminal_recording(
        &self,
        request: Request<pb::GetTerminalRecordingRequest>,
    ) -> Result<Response<pb::GetTerminalRecordingResponse>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.recording(&caller, request.into_inner()).await?,
        ))
    }
}
