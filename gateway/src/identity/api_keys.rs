//! `ApiKeyService` and `TokenService`: what service accounts call with.
use std::collections::BTreeSet;

use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, Result, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, Of, Owned, known_id, project_unknown, unknown};
use super::service_accounts::{account_unknown, found as found_account};
use super::{events, parse, wire};
use crate::auth::api_keys::{ApiKey, SECRET_BYTES};
use crate::policy::Asked;
use crate::store::{self, ApiKeyRow, NewApiKey, Role, Scope};

/// Most characters of a name.
const MAX_NAME: usize = 200;
/// How long a rotated key is good still, when nothing else is asked for.
const OVERLAP: SignedDuration = SignedDuration::from_hours(24);
/// The longest overlap.
const MAX_OVERLAP: SignedDuration = SignedDuration::from_hours(7 * 24);

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateApiKeyRequest,
) -> Result<pb::ApiKey> {
    let account = known_id(&request.service_account_id, account_unknown)?;
    let display_name = parse::text("display_name", &request.display_name, MAX_NAME)?;
    let scopes = scopes(&request.scopes)?;
    let expire_time = end(request.expire_time.as_ref(), Timestamp::now())?;
    let id = call.new_id();
    let of = Of::Project(&request.project_id);
    let (id, key) = match call.begin(&request, id).await? {
        // shown once: who has lost it makes another
        Begun::Replay(made) => (made, None),
        Begun::Fresh(mut tx) => {
            let Owned {
                group,
                role: own,
                name: owner,
            } = call.owned(&mut tx, of).await?;
            no_more_than_own(call, &scopes)?;
            for_the_organisation(call, &mut tx, group.id(), &scopes).await?;
            may_last(call, &mut tx, group.id(), expire_time).await?;
            let of_account = found_account(&mut tx, group.id(), account).await?;
            let key = new_key(call, id)?;
            let new = NewApiKey {
                id,
                account,
                display_name: &display_name,
                hash: &key.hash(),
                scopes: &scopes,
                creator: call.name_for_members(own),
                expire_time: expire_time.map(ToSqlx::to_sqlx),
                replaces: None,
            };
            store::insert_api_key(&mut tx, &new).await?;
            let detail = json!({
                "api_key": id, "scopes": names(&scopes), "service_account": of_account.name, "of": owner,
            });
            let made = wire::api_key(found(&mut tx, account, id).await?, call.app.cell);
            let detail = with_digests(detail, None, Some(&made));
            let (ids, actor) = ((group.id(), id), call.name_for_members(own));
            let event = events::of_api_key("api_key.created", ids, made, actor);
            call.emit(&mut tx, event).await?;
            call.commit_in(tx, group, group.id(), detail).await?;
            (id, Some(key))
        }
    };
    shown(call, of, (account, id), key.as_ref()).await
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListApiKeysRequest,
) -> Result<pb::ListApiKeysResponse> {
    let selection = Selection::parse(&store::API_KEYS, &request.filter, &request.order_by)?;
    let size = page::page_size(request.page_size)?;
    let account = known_id(&request.service_account_id, account_unknown)?;
    let mut conn = call.conn().await?;
    let group = call
        .seen(&mut conn, Of::Project(&request.project_id))
        .await?;
    found_account(&mut conn, group.id(), account).await?;
    let id = account.to_string();
    let wanted = Wanted {
        page_token: &request.page_token,
        size,
        query: &["api keys", &id],
    };
    let (rows, next_page_token) =
        store::list_api_keys(&mut conn, account, &selection, wanted).await?;
    let cell = call.app.cell;
    Ok(pb::ListApiKeysResponse {
        api_keys: rows
            .into_iter()
            .map(|row| wire::api_key(row, cell))
            .collect(),
        next_page_token,
    })
}

pub(super) async fn rotate(
    call: &Call<'_>,
    request: pb::RotateApiKeyRequest,
) -> Result<pb::ApiKey> {
    let account = known_id(&request.service_account_id, account_unknown)?;
    let old = known_id(&request.api_key_id, key_unknown)?;
    let now = Timestamp::now();
    let overlap = overlap(request.overlap.as_ref())?;
    let given_end = end(request.expire_time.as_ref(), now)?;
    let id = call.new_id();
    let of = Of::Project(&request.project_id);
    let (id, key) = match call.begin(&request, id).await? {
        Begun::Replay(made) => (made, None),
        Begun::Fresh(mut tx) => {
            // the lock on the project makes two rotations of one key one after the other
            let Owned {
                group,
                role: own,
                name: owner,
            } = call.owned(&mut tx, of).await?;
            let of_account = found_account(&mut tx, group.id(), account).await?;
            let row = found(&mut tx, account, old).await?;
            let expired = row.expire_time.is_some_and(|at| at.to_jiff() <= now);
            if row.disable_time.is_some() || expired || row.is_replaced {
                return Err(Error::new(
                    Code::FailedPrecondition,
                    ErrorReason::StateConflict,
                    "The key is disabled, expired, or rotated already. Create a new one.",
                ));
            }
            no_more_than_own(call, &row.scopes)?;
            for_the_organisation(call, &mut tx, group.id(), &row.scopes).await?;
            // as long as the old one was meant to live
            let lifetime = row
                .expire_time
                .map(|at| at.to_jiff().duration_since(row.create_time.to_jiff()));
            let expire_time =
                given_end.or(lifetime.and_then(|lifetime| now.checked_add(lifetime).ok()));
            may_last(call, &mut tx, group.id(), expire_time).await?;
            let key = new_key(call, id)?;
            let new = NewApiKey {
                id,
                account,
                display_name: &row.display_name,
                hash: &key.hash(),
                scopes: &row.scopes,
                creator: call.name_for_members(own),
                expire_time: expire_time.map(ToSqlx::to_sqlx),
                replaces: Some(old),
            };
            store::insert_api_key(&mut tx, &new).await?;
            let ends = now.checked_add(overlap).map_err(Error::internal)?;
            store::expire_api_key(&mut tx, old, ends.to_sqlx()).await?;
            let detail = json!({
                "api_key": id, "replaces": old, "service_account": of_account.name, "of": owner,
            });
            // of the one that it ends
            let before = wire::api_key(row, call.app.cell);
            let after = wire::api_key(found(&mut tx, account, old).await?, call.app.cell);
            let detail = with_digests(detail, Some(&before), Some(&after));
            let made = wire::api_key(found(&mut tx, account, id).await?, call.app.cell);
            let (ids, actor) = ((group.id(), id), call.name_for_members(own));
            let event = events::of_api_key("api_key.rotated", ids, made, actor);
            call.emit(&mut tx, event).await?;
            call.commit_in(tx, group, group.id(), detail).await?;
            (id, Some(key))
        }
    };
    shown(call, of, (account, id), key.as_ref()).await
}

pub(super) async fn disable(
    call: &Call<'_>,
    request: pb::DisableApiKeyRequest,
) -> Result<pb::ApiKey> {
    let account = known_id(&request.service_account_id, account_unknown)?;
    let id = known_id(&request.api_key_id, key_unknown)?;
    let of = Of::Project(&request.project_id);
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let Owned {
            group,
            name: owner,
            role: own,
        } = call.owned(&mut tx, of).await?;
        let of_account = found_account(&mut tx, group.id(), account).await?;
        let cell = call.app.cell;
        let before = wire::api_key(found(&mut tx, account, id).await?, cell);
        store::disable_api_key(&mut tx, id).await?;
        let after = wire::api_key(found(&mut tx, account, id).await?, cell);
        let detail = json!({ "api_key": id, "service_account": of_account.name, "of": owner });
        let detail = with_digests(detail, Some(&before), Some(&after));
        if before.disable_time.is_none() {
            let (ids, actor) = ((group.id(), id), call.name_for_members(own));
            let event = events::of_api_key("api_key.disabled", ids, after, actor);
            call.emit(&mut tx, event).await?;
        }
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    shown(call, of, (account, id), None).await
}

/// A short token for the key that the call is made with; a token is not exchanged for another.
pub(super) async fn exchange(
    call: &Call<'_>,
    _: pb::ExchangeApiKeyRequest,
) -> Result<pb::ExchangeApiKeyResponse> {
    let identity = &call.session.identity;
    let Some(key) = identity.key.filter(|_| !identity.is_short) else {
        return Err(Error::new(
            Code::FailedPrecondition,
            ErrorReason::StateConflict,
            "Only an API key is exchanged: send it as Authorization: Bearer gpuaas_….",
        ));
    };
    let now = Timestamp::now().as_second();
    let signed = call
        .app
        .short_tokens
        .sign(&identity.subject, key, identity.expires, now);
    let (token, seconds) = signed.map_err(Error::internal)?;
    Ok(pb::ExchangeApiKeyResponse {
        token,
        expire_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
    })
}

/// A key makes none that could do more than itself.
fn no_more_than_own(call: &Call<'_>, scopes: &[Scope]) -> Result<()> {
    let own = call.principal().scopes.as_deref();
    match scopes
        .iter()
        .find(|scope| own.is_some_and(|own| !own.contains(scope)))
    {
        None => Ok(()),
        Some(scope) => Err(Error::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            format!(
                "This key lacks the scope {}, and so gives it to no other.",
                scope.name()
            ),
        )),
    }
}

/// The scope for SCIM is good for the whole organisation: an owner of a project alone does not give it.
async fn for_the_organisation(
    call: &Call<'_>,
    conn: &mut PgConnection,
    project: Uuid,
    scopes: &[Scope],
) -> Result<()> {
    if !scopes.contains(&Scope::Scim) || call.administers() {
        return Ok(());
    }
    let of = store::find_project(conn, project, call.me()).await?;
    let organisation = of.map(|row| row.organisation_id).unwrap_or_default();
    let found = store::find_organisation(conn, organisation, call.me()).await?;
    if found.is_some_and(|row| row.role == Some(Role::Owner)) {
        return Ok(());
    }
    Err(Error::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        "Only an owner of the organisation makes or rotates a key with the scope scim.",
    )
    .field(
        "scopes",
        "must not have scim unless you own the organisation",
    )
    .meta("action", call.route.access.action.clone()))
}

/// Refuses a key that would be good for longer than the organisation of its project allows.
async fn may_last(
    call: &Call<'_>,
    conn: &mut PgConnection,
    project: Uuid,
    end: Option<Timestamp>,
) -> Result<()> {
    let seconds = match end {
        Some(end) => end.duration_since(Timestamp::now()).as_secs(),
        None => i64::MAX,
    };
    let row = store::find_project(conn, project, call.me()).await?;
    let row = row.ok_or_else(project_unknown)?;
    let asked = Asked {
        api_key_seconds: Some(seconds),
        ..Asked::default()
    };
    call.decide_in(conn, &row, asked).await
}

fn new_key(call: &Call<'_>, id: Uuid) -> Result<ApiKey> {
    let mut random = [0; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| Error::internal("no random bytes"))?;
    Ok(ApiKey::new(call.app.cell, id, &random))
}

fn scopes(numbers: &[i32]) -> Result<Vec<Scope>> {
    const FIELD: &str = "scopes";
    let mut scopes = BTreeSet::new();
    for number in numbers {
        scopes.insert(match pb::ApiKeyScope::try_from(*number) {
            Ok(pb::ApiKeyScope::Read) => Scope::Read,
            Ok(pb::ApiKeyScope::Billing) => Scope::Billing,
            Ok(pb::ApiKeyScope::Write) => Scope::Write,
            Ok(pb::ApiKeyScope::Terminal) => Scope::Terminal,
            Ok(pb::ApiKeyScope::Manage) => Scope::Manage,
            Ok(pb::ApiKeyScope::Scim) => Scope::Scim,
            Ok(pb::ApiKeyScope::Unspecified) | Err(_) => {
                let rule = "must be read, billing, write, terminal, manage or scim";
                return Err(Error::invalid(FIELD, rule));
            }
        });
    }
    if scopes.is_empty() {
        return Err(Error::required(FIELD));
    }
    Ok(scopes.into_iter().collect())
}

fn names(scopes: &[Scope]) -> Vec<&'static str> {
    scopes.iter().map(|scope| scope.name()).collect()
}

/// When a key ends by itself.
fn end(given: Option<&prost_types::Timestamp>, now: Timestamp) -> Result<Option<Timestamp>> {
    const FIELD: &str = "expire_time";
    let Some(given) = given else { return Ok(None) };
    let at = from_proto_time(given).ok_or_else(|| Error::invalid(FIELD, "must be a time"))?;
    if at <= now {
        return Err(Error::invalid(FIELD, "must be in the future"));
    }
    Ok(Some(at))
}

fn overlap(given: Option<&prost_types::Duration>) -> Result<SignedDuration> {
    let Some(given) = given else {
        return Ok(OVERLAP);
    };
    let given = SignedDuration::new(given.seconds, given.nanos);
    if given.is_negative() || given > MAX_OVERLAP {
        return Err(Error::invalid("overlap", "must be 0s to 604800s (7 days)"));
    }
    Ok(given)
}

fn key_unknown() -> Error {
    unknown("api_key_id", "API key")
}

async fn found(conn: &mut PgConnection, account: Uuid, id: Uuid) -> Result<ApiKeyRow> {
    store::find_api_key(conn, account, id)
        .await?
        .ok_or_else(key_unknown)
}

/// A key of a project that the caller may see.
async fn shown(
    call: &Call<'_>,
    of: Of<'_>,
    (account, id): (Uuid, Uuid),
    key: Option<&ApiKey>,
) -> Result<pb::ApiKey> {
    let mut conn = call.conn().await?;
    let group = call.seen(&mut conn, of).await?;
    found_account(&mut conn, group.id(), account).await?;
    let mut shown = wire::api_key(found(&mut conn, account, id).await?, call.app.cell);
    if let Some(key) = key {
        key.reveal().clone_into(&mut shown.key);
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_ends_and_overlaps_are_checked() {
        let read = pb::ApiKeyScope::Read.into();
        let write = pb::ApiKeyScope::Write.into();
        assert_eq!(
            scopes(&[write, read, write]).expect("good"),
            [Scope::Read, Scope::Write]
        );
        for (bad, reason) in [
            (vec![], ErrorReason::FieldRequired),
            (vec![0], ErrorReason::FieldInvalid),
            (vec![read, 99], ErrorReason::FieldInvalid),
        ] {
            let error = scopes(&bad).expect_err("bad");
            assert_eq!(
                (error.reason(), error.fields()[0].0.as_ref()),
                (reason, "scopes")
            );
        }
        let now = Timestamp::UNIX_EPOCH;
        let at = |seconds| prost_types::Timestamp { seconds, nanos: 0 };
        assert_eq!(end(None, now).expect("never"), None);
        assert!(end(Some(&at(1)), now).expect("later").is_some());
        assert!(end(Some(&at(0)), now).is_err());
        let lasts = |seconds| {
            let given = prost_types::Duration { seconds, nanos: 0 };
            overlap(Some(&given)).map(|overlap| overlap.as_secs()).ok()
        };
        assert_eq!(overlap(None).expect("default"), OVERLAP);
        assert_eq!((lasts(0), lasts(604_800)), (Some(0), Some(604_800)));
        assert_eq!((lasts(-1), lasts(604_801)), (None, None));
    }
}
