//! Groups of users. What a group is good for, owners of the organisation say.
use std::collections::BTreeSet;

use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::call::{Scim, etag, no_content, with_digests};
use super::error::{Result, ScimError};
use super::patch::Change;
use super::query::{List, Shape};
use super::schema::{self, EXTERNAL_ID, GROUP, GROUP_ATTRIBUTES};
use crate::store::{self, ScimGroupRow, changes_of};

/// Most users that an audit row names one by one.
const MAX_NAMED: usize = 100;

/// What a request says of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Input {
    display_name: String,
    external_id: Option<String>,
    members: BTreeSet<Uuid>,
}

impl Input {
    fn parse(given: &Value) -> Result<Self> {
        let Value::Object(given) = given else {
            return Err(ScimError::bad("invalidSyntax", "A group must be sent."));
        };
        Self::of(&schema::canonical(&GROUP_ATTRIBUTES, given)?)
    }

    /// From attributes under their right names.
    fn of(attributes: &Map<String, Value>) -> Result<Self> {
        let text = |name: &str| {
            attributes
                .get(name)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let members = attributes.get("members").and_then(Value::as_array);
        let members = members.map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            display_name: text("displayName")
                .ok_or_else(|| ScimError::invalid_value("displayName", "is required"))?,
            external_id: text(EXTERNAL_ID),
            members: members.iter().map(user_of).collect::<Result<_>>()?,
        })
    }

    fn of_row(row: &ScimGroupRow, members: BTreeSet<Uuid>) -> Self {
        Self {
            display_name: row.display_name.clone(),
            external_id: row.external_id.clone(),
            members,
        }
    }

    /// All of it under the names of the schema, for a PATCH.
    fn resource(&self) -> Map<String, Value> {
        let mut resource = Map::new();
        resource.insert("displayName".to_owned(), self.display_name.clone().into());
        if let Some(external_id) = &self.external_id {
            resource.insert(EXTERNAL_ID.to_owned(), external_id.clone().into());
        }
        let members = self.members.iter().map(|id| json!({ "value": id }));
        resource.insert("members".to_owned(), members.collect());
        resource
    }
}

fn user_of(member: &Value) -> Result<Uuid> {
    let is_user = member["type"]
        .as_str()
        .is_none_or(|kind| kind.eq_ignore_ascii_case("User"));
    let id = member["value"].as_str().and_then(|id| id.parse().ok());
    match id {
        Some(id) if is_user => Ok(id),
        _ => Err(ScimError::invalid_value(
            "members",
            "must be users of the organisation by their ids",
        )),
    }
}

fn resource(
    scim: &Scim<'_>,
    row: &ScimGroupRow,
    members: Option<&BTreeSet<Uuid>>,
) -> Map<String, Value> {
    let base = scim.base;
    let mut resource = Map::new();
    resource.insert("schemas".to_owned(), json!([GROUP]));
    resource.insert("id".to_owned(), row.id.to_string().into());
    if let Some(external_id) = &row.external_id {
        resource.insert(EXTERNAL_ID.to_owned(), external_id.clone().into());
    }
    resource.insert("displayName".to_owned(), row.display_name.clone().into());
    if let Some(members) = members.filter(|members| !members.is_empty()) {
        let members = members
            .iter()
            .map(|id| json!({ "value": id, "$ref": format!("{base}/Users/{id}"), "type": "User" }));
        resource.insert("members".to_owned(), members.collect());
    }
    let meta = json!({
        "resourceType": "Group",
        "created": row.create_time.to_jiff().to_string(),
        "lastModified": row.update_time.to_jiff().to_string(),
        "location": format!("{base}/Groups/{}", row.id),
        "version": etag(row.version),
    });
    resource.insert("meta".to_owned(), meta);
    resource
}

fn unknown() -> ScimError {
    ScimError::not_found("group")
}

fn taken() -> ScimError {
    ScimError::taken("The organisation has a group of this name already.")
}

async fn found(scim: &Scim<'_>, conn: &mut PgConnection, id: &str) -> Result<ScimGroupRow> {
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    let row = store::find_scim_group(conn, scim.organisation, id).await?;
    row.ok_or_else(unknown)
}

/// A group with its members when they are asked for: they may be many.
async fn shown(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    row: &ScimGroupRow,
    shape: &Shape,
) -> Result<Map<String, Value>> {
    let members = if shape.wants("members") {
        Some(members(conn, row.id).await?)
    } else {
        None
    };
    Ok(shape.apply(resource(scim, row, members.as_ref())))
}

async fn members(conn: &mut PgConnection, group: Uuid) -> Result<BTreeSet<Uuid>> {
    Ok(store::scim_members(conn, group)
        .await?
        .into_iter()
        .collect())
}

pub async fn list(scim: &Scim<'_>, list: List) -> Result<Response> {
    let mut conn = scim.app.pool.acquire().await?;
    let (total, rows) = store::select_scim_groups(
        &mut conn,
        scim.organisation,
        list.filter.as_ref(),
        &list.page,
    )
    .await?;
    let mut groups = Vec::new();
    for row in &rows {
        groups.push(shown(scim, &mut conn, row, &list.shape).await?);
    }
    Ok(super::call::json(
        StatusCode::OK,
        &list.answer(total, &groups),
    ))
}

/// A method on one group.
pub async fn one(
    scim: &Scim<'_>,
    method: &Method,
    id: &str,
    body: &Value,
    query: &str,
) -> Result<Response> {
    let shape = Shape::of_query(query)?;
    if method == Method::GET {
        let mut conn = scim.app.pool.acquire().await?;
        let row = found(scim, &mut conn, id).await?;
        let group = shown(scim, &mut conn, &row, &shape).await?;
        return Ok(scim.answer(StatusCode::OK, row.version, group));
    }
    let change = Change::read(method, &GROUP_ATTRIBUTES, body, Input::parse)?;
    let mut tx = scim.begin().await?;
    let row = found(scim, &mut tx, id).await?;
    scim.check_version(row.version)?;
    let before = Input::of_row(&row, members(&mut tx, row.id).await?);
    let after = match change {
        Change::Delete => {
            delete(scim, &mut tx, &row, &before).await?;
            tx.commit().await?;
            return Ok(no_content());
        }
        Change::Patch(patch) => {
            let mut changed = before.resource();
            patch.apply(&mut changed)?;
            Input::of(&changed)?
        }
        Change::Replace(input) => input,
    };
    if after != before {
        update(scim, &mut tx, &row, (&before, &after)).await?;
    }
    let row = found(scim, &mut tx, id).await?;
    let group = shown(scim, &mut tx, &row, &shape).await?;
    tx.commit().await?;
    Ok(scim.answer(StatusCode::OK, row.version, group))
}

pub async fn create(scim: &Scim<'_>, body: &Value, query: &str) -> Result<Response> {
    let shape = Shape::of_query(query)?;
    let input = Input::parse(body)?;
    let mut tx = scim.begin().await?;
    let id = scim.new_id();
    let names = (input.display_name.as_str(), input.external_id.as_deref());
    if !store::insert_scim_group(&mut tx, scim.organisation, id, names).await? {
        return Err(taken());
    }
    let added: Vec<Uuid> = input.members.iter().copied().collect();
    add(scim, &mut tx, id, &added).await?;
    let detail = json!({
        "display_name": input.display_name, "added": users_of(&added),
    });
    let detail = with_digests(detail, None, Some(input.resource()));
    scim.record(&mut tx, ("scim_group.create", "scim_group"), id, detail)
        .await?;
    let row = found(scim, &mut tx, &id.to_string()).await?;
    let group = shown(scim, &mut tx, &row, &shape).await?;
    tx.commit().await?;
    Ok(scim.answer(StatusCode::CREATED, row.version, group))
}

/// Adds users of the organisation, and no others.
async fn add(scim: &Scim<'_>, conn: &mut PgConnection, group: Uuid, users: &[Uuid]) -> Result<()> {
    let known = store::known_scim_users(conn, scim.organisation, users).await?;
    if known.len() != users.len() {
        return Err(ScimError::invalid_value(
            "members",
            "must be users of the organisation by their ids",
        ));
    }
    store::add_scim_members(conn, group, users).await?;
    Ok(())
}

async fn update(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    row: &ScimGroupRow,
    (before, after): (&Input, &Input),
) -> Result<()> {
    let added: Vec<Uuid> = after.members.difference(&before.members).copied().collect();
    let removed: Vec<Uuid> = before.members.difference(&after.members).copied().collect();
    let names = (after.display_name.as_str(), after.external_id.as_deref());
    if !store::update_scim_group(conn, scim.organisation, row.id, names).await? {
        return Err(taken());
    }
    add(scim, conn, row.id, &added).await?;
    store::remove_scim_members(conn, row.id, &removed).await?;
    let concerned: Vec<Uuid> = added.iter().chain(&removed).copied().collect();
    let principals = store::principals_of_users(conn, &concerned).await?;
    let changes = store::sync_scim(conn, scim.organisation, &principals).await?;
    scim.emit(conn, &changes).await?;
    let detail = json!({
        "display_name": after.display_name, "before": before.display_name, "added": users_of(&added),
        "removed": users_of(&removed), "changed": changes_of(&changes),
    });
    let detail = with_digests(detail, Some(before.resource()), Some(after.resource()));
    scim.record(conn, ("scim_group.update", "scim_group"), row.id, detail)
        .await
}

async fn delete(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    row: &ScimGroupRow,
    before: &Input,
) -> Result<()> {
    let users: Vec<Uuid> = before.members.iter().copied().collect();
    let principals = store::principals_of_users(conn, &users).await?;
    store::delete_scim_group(conn, row.id).await?;
    let changes = store::sync_scim(conn, scim.organisation, &principals).await?;
    scim.emit(conn, &changes).await?;
    let detail = json!({ "display_name": row.display_name, "removed": users_of(&users), "changed": changes_of(&changes) });
    let detail = with_digests(detail, Some(before.resource()), None);
    scim.record(conn, ("scim_group.delete", "scim_group"), row.id, detail)
        .await
}

/// Users for an audit row: their number, and the first of them.
fn users_of(users: &[Uuid]) -> Value {
    let named: Vec<&Uuid> = users.iter().take(MAX_NAMED).collect();
    json!({ "count": users.len(), "users": named })
}
