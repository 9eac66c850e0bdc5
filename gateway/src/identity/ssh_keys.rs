//! `SshKeyService`: public keys by name, and the keys that a launch names.
use std::collections::HashMap;

use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, page, ssh};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, known_id, not_closed, project_unknown, taken, unknown};
use super::{parse, wire};
use crate::store::{self, KeyOwner, Role, SshKeyRow};

/// Fewest bits of an RSA modulus.
const MIN_RSA_BITS: usize = 3072;
/// Most keys of one owner.
const MAX_KEYS: i64 = 200;

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateSshKeyRequest,
) -> Result<pb::SshKey> {
    let given = (request.name.as_str(), request.public_key.as_str());
    add(call, &request, None, given).await
}

pub(super) async fn create_for_project(
    call: &Call<'_>,
    request: pb::CreateProjectSshKeyRequest,
) -> Result<pb::SshKey> {
    let given = (request.name.as_str(), request.public_key.as_str());
    add(call, &request, Some(&request.project_id), given).await
}

async fn add(
    call: &Call<'_>,
    request: &impl prost::Message,
    project: Option<&str>,
    (name, line): (&str, &str),
) -> Result<pb::SshKey> {
    let name = parse::key_name(name)?;
    let key = ssh::parse(line, MIN_RSA_BITS).map_err(|rule| Error::invalid("public_key", rule))?;
    let line = key.to_openssh().map_err(Error::internal)?;
    let fingerprint = ssh::fingerprint(&key);
    let id = call.new_id();
    let (id, owner) = match call.begin(request, id).await? {
        Begun::Replay(made) => {
            let mut conn = call.conn().await?;
            (made, readable(call, &mut conn, project).await?)
        }
        Begun::Fresh(mut tx) => {
            let owner = writable(call, &mut tx, project).await?;
            if store::count_ssh_keys(&mut tx, owner).await? >= MAX_KEYS {
                return Err(Error::new(
                    Code::FailedPrecondition,
                    ErrorReason::StateConflict,
                    format!("There are {MAX_KEYS} keys already: delete one that nobody needs."),
                ));
            }
            let columns = (name.as_str(), line.as_str(), fingerprint.as_str());
            if !store::insert_ssh_key(&mut tx, owner, id, columns).await? {
                return Err(taken("name", "is the name of another key"));
            }
            let detail = json!({ "name": name, "fingerprint": fingerprint, "project_id": project });
            let made = store::find_ssh_key(&mut tx, owner, id).await?;
            let detail = with_digests(detail, None, made.map(wire::ssh_key).as_ref());
            call.commit(tx, id, detail).await?;
            (id, owner)
        }
    };
    let mut conn = call.conn().await?;
    let row = store::find_ssh_key(&mut conn, owner, id).await?;
    row.map(wire::ssh_key).ok_or_else(key_unknown)
}

fn key_unknown() -> Error {
    unknown("ssh_key_id", "SSH key")
}

/// Whose keys a request reads.
async fn readable(
    call: &Call<'_>,
    conn: &mut PgConnection,
    project: Option<&str>,
) -> Result<KeyOwner> {
    match project {
        None => Ok(KeyOwner::Principal(call.me())),
        Some(given) => Ok(KeyOwner::Project(call.project(conn, given).await?.id)),
    }
}

/// Whose keys a request changes.
async fn writable(
    call: &Call<'_>,
    conn: &mut PgConnection,
    project: Option<&str>,
) -> Result<KeyOwner> {
    let Some(given) = project else {
        return Ok(KeyOwner::Principal(call.me()));
    };
    store::lock_project(conn, known_id(given, project_unknown)?).await?;
    let row = call.project(conn, given).await?;
    call.needs(row.role, Role::Member)?;
    not_closed(row.state())?;
    Ok(KeyOwner::Project(row.id))
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListSshKeysRequest,
) -> Result<pb::ListSshKeysResponse> {
    let selection = Selection::parse(&store::SSH_KEYS, &request.filter, &request.order_by)?;
    let requested = (request.page_size, request.page_token.as_str());
    let (ssh_keys, next_page_token) = listed(call, None, &selection, requested).await?;
    Ok(pb::ListSshKeysResponse {
        ssh_keys,
        next_page_token,
    })
}

pub(super) async fn list_of_project(
    call: &Call<'_>,
    request: pb::ListProjectSshKeysRequest,
) -> Result<pb::ListProjectSshKeysResponse> {
    let project = Some(request.project_id.as_str());
    let selection = Selection::parse(&store::SSH_KEYS, &request.filter, &request.order_by)?;
    let requested = (request.page_size, request.page_token.as_str());
    let (ssh_keys, next_page_token) = listed(call, project, &selection, requested).await?;
    Ok(pb::ListProjectSshKeysResponse {
        ssh_keys,
        next_page_token,
    })
}

async fn listed(
    call: &Call<'_>,
    project: Option<&str>,
    selection: &Selection,
    (size, token): (i32, &str),
) -> Result<(Vec<pb::SshKey>, String)> {
    let size = page::page_size(size)?;
    let mut conn = call.conn().await?;
    let owner = readable(call, &mut conn, project).await?;
    let whose = format!("{owner:?}");
    let wanted = Wanted {
        page_token: token,
        size,
        query: &["ssh_keys", &whose],
    };
    let (rows, next) = store::list_ssh_keys(&mut conn, owner, selection, wanted).await?;
    Ok((rows.into_iter().map(wire::ssh_key).collect(), next))
}

pub(super) async fn delete(
    call: &Call<'_>,
    request: pb::DeleteSshKeyRequest,
) -> Result<pb::DeleteSshKeyResponse> {
    remove(call, &request, None, &request.ssh_key_id).await?;
    Ok(pb::DeleteSshKeyResponse {})
}

pub(super) async fn delete_of_project(
    call: &Call<'_>,
    request: pb::DeleteProjectSshKeyRequest,
) -> Result<pb::DeleteProjectSshKeyResponse> {
    let project = Some(request.project_id.as_str());
    remove(call, &request, project, &request.ssh_key_id).await?;
    Ok(pb::DeleteProjectSshKeyResponse {})
}

async fn remove(
    call: &Call<'_>,
    request: &impl prost::Message,
    project: Option<&str>,
    given: &str,
) -> Result<()> {
    let id = known_id(given, key_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(request, id).await? {
        let owner = writable(call, &mut tx, project).await?;
        let row = store::find_ssh_key(&mut tx, owner, id).await?;
        let row = row.ok_or_else(key_unknown)?;
        store::delete_ssh_key(&mut tx, id).await?;
        let detail =
            json!({ "name": row.name, "fingerprint": row.fingerprint, "project_id": project });
        let detail = with_digests(detail, Some(&wire::ssh_key(row)), None);
        call.commit(tx, id, detail).await?;
    }
    Ok(())
}

/// The public keys of these names: of each the principal's own, otherwise the project's.
///
/// # Errors
/// `FIELD_INVALID` naming the name that neither has, as `field[i]`.
pub(super) async fn resolve(
    conn: &mut PgConnection,
    principal: Uuid,
    project: Uuid,
    (field, names): (&str, &[String]),
) -> Result<Vec<String>> {
    let rows = store::named_ssh_keys(conn, principal, project, names).await?;
    let mut by_name: HashMap<&str, &SshKeyRow> = HashMap::new();
    for row in &rows {
        let own = row.project.is_none();
        let kept = by_name.entry(&row.name).or_insert(row);
        if own {
            *kept = row;
        }
    }
    let key = |(index, name): (usize, &String)| {
        let row = by_name.get(name.as_str()).ok_or_else(|| {
            Error::invalid(
                format!("{field}[{index}]"),
                format!("must be the name of one of your SSH keys or of the project's; there is no {name:?}"),
            )
        })?;
        Ok(row.public_key.clone())
    };
    names.iter().enumerate().map(key).collect()
}
