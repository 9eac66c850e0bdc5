//! Reads of the audit rows of one schema.
use gpuaas_proto::gpuaas::audit::v1::{
    AuditChain, AuditOutcome, AuditPosition, AuditRecord, ExportAuditRecordsRequest,
    ExportAuditRecordsResponse, ListAuditRecordsRequest,
};
use jiff::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{Connection as _, PgConnection, Postgres, QueryBuilder, Row as _};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::page;
use crate::select::{Catalog, Field, Kind, Selection};
use crate::time::{from_proto_time, proto_time};

/// Columns of a row, in the names of [`to_record`].
pub(super) const COLUMNS: &str = "seq, id, current_schema()::text AS source, service, \
     (extract(epoch FROM at) * 1000000)::bigint AS at, principal, action, resource, resource_id, request_id, \
     address, user_agent, region, detail::text AS detail, detail->>'outcome' AS outcome, position, digest";
/// Most characters of a text to match.
const MAX_TEXT: usize = 300;
/// The most by which the clock of a service, which makes the ids, may differ from that of the database.
const CLOCKS_DIFFER: i64 = 3600 * 1_000_000;

/// A row as the API shows it.
pub(super) fn to_record(row: &PgRow) -> sqlx::Result<AuditRecord> {
    let outcome: Option<String> = row.try_get("outcome")?;
    let outcome = match outcome.as_deref() {
        Some("denied") => AuditOutcome::Denied,
        _ => AuditOutcome::Allowed,
    };
    let digest: Option<Vec<u8>> = row.try_get("digest")?;
    let at = Timestamp::from_microsecond(row.try_get("at")?);
    Ok(AuditRecord {
        id: row.try_get::<Uuid, _>("id")?.to_string(),
        source: row.try_get("source")?,
        service: row.try_get("service")?,
        create_time: at.ok().map(proto_time),
        principal: row.try_get("principal")?,
        action: row.try_get("action")?,
        resource: row.try_get("resource")?,
        resource_id: row.try_get("resource_id")?,
        request_id: row.try_get("request_id")?,
        address: row.try_get("address")?,
        user_agent: row.try_get("user_agent")?,
        region: row.try_get("region")?,
        outcome: outcome.into(),
        detail: row.try_get("detail")?,
        position: row.try_get::<Option<i64>, _>("position")?.unwrap_or(0),
        digest: digest.map(hex::encode).unwrap_or_default(),
    })
}

/// What to match, checked.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    texts: Vec<(&'static str, String)>,
    denied: Option<bool>,
    /// In microseconds since 1970.
    start: Option<i64>,
    end: Option<i64>,
    selection: Option<Selection>,
    project: Option<Uuid>,
    kind: Option<String>,
}

/// What the records can be selected by.
static CATALOG: Catalog = Catalog {
    fields: &[
        Field::new("principal", Kind::Text, "principal"),
        Field::new("action", Kind::Text, "action"),
        Field::new("resource", Kind::Text, "resource"),
        Field::new("resource_id", Kind::Text, "resource_id"),
        Field::new("request_id", Kind::Text, "request_id"),
        Field::new("address", Kind::Text, "address"),
        Field::new("user_agent", Kind::Text, "user_agent"),
        Field::new("region", Kind::Text, "region"),
        Field::new("service", Kind::Text, "service"),
        Field::new(
            "outcome",
            Kind::OneOf(&["allowed", "denied"]),
            "CASE WHEN detail->>'outcome' = 'denied' THEN 'denied' ELSE 'allowed' END",
        ),
        Field::sortable("create_time", Kind::Time, "at"),
    ],
    key: Field::new("id", Kind::Id, "id"),
    order: "create_time desc",
};

impl Filter {
    /// From a request.
    ///
    /// # Errors
    /// Naming a text that is too long, or a time that is none.
    pub fn parse(request: &ListAuditRecordsRequest) -> Result<Self> {
        let mut filter = Self::default();
        let texts = [
            ("principal", &request.principal),
            ("action", &request.action),
            ("resource", &request.resource),
            ("resource_id", &request.resource_id),
            ("request_id", &request.request_id),
        ];
        for (name, text) in texts {
            if text.chars().count() > MAX_TEXT || text.contains('\0') {
                let rule = format!("must be at most {MAX_TEXT} characters");
                return Err(Error::invalid(name, rule));
            }
            if !text.is_empty() {
                filter.texts.push((name, text.clone()));
            }
        }
        filter.denied = match AuditOutcome::try_from(request.outcome) {
            Ok(AuditOutcome::Unspecified) => None,
            Ok(outcome) => Some(outcome == AuditOutcome::Denied),
            Err(_) => return Err(Error::invalid("outcome", "must be allowed or denied")),
        };
        let micros = |name, time: Option<&prost_types::Timestamp>| match time {
            None => Ok(None),
            Some(time) => from_proto_time(time)
                .map(|at| Some(at.as_microsecond()))
                .ok_or_else(|| Error::invalid(name, "must be a time")),
        };
        filter.start = micros("start_time", request.start_time.as_ref())?;
        filter.end = micros("end_time", request.end_time.as_ref())?;
        if let (Some(start), Some(end)) = (filter.start, filter.end)
            && end <= start
        {
            return Err(Error::invalid("end_time", "must be after start_time"));
        }
        let selection = Selection::parse(&CATALOG, &request.filter, &request.order_by)?;
        filter.selection = Some(selection);
        Ok(filter)
    }

    /// Only what is of a project, and of one kind of thing there: the part of the action before its dot.
    #[must_use]
    pub fn in_project(mut self, project: Uuid, kind: &str) -> Self {
        self.project = Some(project);
        self.kind = (!kind.is_empty()).then(|| kind.to_owned());
        self
    }

    /// Whether the oldest records come first.
    #[must_use]
    pub fn is_ascending(&self) -> bool {
        let selection = self.selection.as_ref();
        selection.is_some_and(|selection| !selection.is_descending())
    }
}

/// The smallest id of a time, in microseconds since 1970.
fn first_id(micros: i64) -> Uuid {
    let millis = u64::try_from(micros.max(0) / 1000).unwrap_or_default();
    Uuid::from_u128(u128::from(millis) << 80)
}

/// The records that match and come after the one of an id, newest first or as the filter says, at most `limit`. They are in the
/// order of their ids, which begin with the time.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    filter: &Filter,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<AuditRecord>> {
    let mut query = QueryBuilder::<Postgres>::new("SELECT ");
    query.push(COLUMNS).push(" FROM audit WHERE true");
    for (column, text) in &filter.texts {
        query.push(" AND ").push(*column).push(" = ");
        query.push_bind(text.clone());
    }
    if let Some(project) = filter.project {
        // there is an index of it
        query.push(" AND detail->>'project_id' = ");
        query.push_bind(project.to_string());
    }
    if let Some(kind) = &filter.kind {
        query.push(" AND split_part(action, '.', 1) = ");
        query.push_bind(kind.clone());
    }
    if let Some(denied) = filter.denied {
        query.push(" AND (detail->>'outcome' IS NOT DISTINCT FROM 'denied') = ");
        query.push_bind(denied);
    }
    // ids are in the order of time, and there is an index of them
    if let Some(start) = filter.start {
        query.push(" AND at >= timestamptz 'epoch' + interval '1 microsecond' * ");
        query.push_bind(start).push(" AND id >= ");
        query.push_bind(first_id(start.saturating_sub(CLOCKS_DIFFER)));
    }
    if let Some(end) = filter.end {
        query.push(" AND at < timestamptz 'epoch' + interval '1 microsecond' * ");
        query.push_bind(end).push(" AND id < ");
        query.push_bind(first_id(end.saturating_add(CLOCKS_DIFFER)));
    }
    if let Some(selection) = &filter.selection {
        selection.push_filter(&mut query);
    }
    let (beyond, way) = match filter.is_ascending() {
        true => (" AND id > ", ""),
        false => (" AND id < ", " DESC"),
    };
    if let Some(after) = after {
        query.push(beyond).push_bind(after);
    }
    query.push(" ORDER BY id").push(way).push(" LIMIT ");
    query.push_bind(limit);
    let rows = query.build().fetch_all(conn).await?;
    Ok(rows.iter().map(to_record).collect::<sqlx::Result<_>>()?)
}

const CHAIN: &str = "SELECT current_schema()::text AS source, c.position, c.digest,
            h.position AS head_position, h.digest AS head_digest,
            (SELECT count(*) FROM audit WHERE position IS NULL) AS unsealed
       FROM audit_checkpoint c
       LEFT JOIN LATERAL (SELECT position, digest FROM audit WHERE position IS NOT NULL ORDER BY position DESC LIMIT 1) h
            ON true";

/// Where the hash chain begins and ends.
///
/// # Errors
/// Those of the database.
pub async fn chain(conn: &mut PgConnection) -> Result<AuditChain> {
    let row = sqlx::query(CHAIN).fetch_one(conn).await?;
    let start = position(row.try_get("position")?, row.try_get("digest")?);
    let head: Option<i64> = row.try_get("head_position")?;
    let head = match head {
        Some(at) => position(at, row.try_get("head_digest")?),
        None => start.clone(),
    };
    Ok(AuditChain {
        source: row.try_get("source")?,
        start: Some(start),
        head: Some(head),
        unsealed: row.try_get("unsealed")?,
    })
}

#[allow(clippy::needless_pass_by_value, reason = "as the database gives it")]
fn position(position: i64, digest: Vec<u8>) -> AuditPosition {
    AuditPosition {
        position,
        digest: hex::encode(digest),
    }
}

/// Sealed records after a position, in the order of the chain, as of one moment.
///
/// # Errors
/// Naming a position that the chain does not have; those of the database.
pub async fn export(
    conn: &mut PgConnection,
    request: &ExportAuditRecordsRequest,
) -> Result<ExportAuditRecordsResponse> {
    let limit = page::page_size(request.page_size)?;
    let after = request.after_position;
    let bad = |rule: &str| Err(Error::invalid("after_position", rule));
    if after < 0 {
        return bad("must not be negative");
    }
    let mut tx = conn.begin().await?;
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        .execute(&mut *tx)
        .await?;
    let chain = chain(&mut tx).await?;
    let oldest = chain.start.unwrap_or_default();
    let start = if after <= oldest.position {
        oldest
    } else {
        let digest = sqlx::query_scalar("SELECT digest FROM audit WHERE position = $1")
            .bind(after)
            .fetch_optional(&mut *tx)
            .await?;
        match digest {
            Some(digest) => position(after, digest),
            None => return bad("must be the position of a sealed record"),
        }
    };
    let mut query = QueryBuilder::<Postgres>::new("SELECT ");
    query.push(COLUMNS).push(" FROM audit WHERE position > ");
    query.push_bind(start.position);
    query.push(" ORDER BY position LIMIT ").push_bind(limit);
    let rows = query.build().fetch_all(&mut *tx).await?;
    tx.commit().await?;
    Ok(ExportAuditRecordsResponse {
        records: rows.iter().map(to_record).collect::<sqlx::Result<_>>()?,
        start: Some(start),
        head: chain.head,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_match_is_checked_by_field() {
        let base = ListAuditRecordsRequest::default;
        let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let refused = [
            (
                ListAuditRecordsRequest {
                    principal: "x".repeat(301),
                    ..base()
                },
                "principal",
            ),
            (
                ListAuditRecordsRequest {
                    action: "a\0".to_owned(),
                    ..base()
                },
                "action",
            ),
            (
                ListAuditRecordsRequest {
                    outcome: 9,
                    ..base()
                },
                "outcome",
            ),
            (
                ListAuditRecordsRequest {
                    start_time: time(i64::MAX),
                    ..base()
                },
                "start_time",
            ),
            (
                ListAuditRecordsRequest {
                    start_time: time(5),
                    end_time: time(5),
                    ..base()
                },
                "end_time",
            ),
        ];
        for (request, field) in refused {
            let error = Filter::parse(&request).expect_err(field);
            assert_eq!(error.fields()[0].0, field);
        }
        assert!(Filter::parse(&base()).is_ok());
    }
}
