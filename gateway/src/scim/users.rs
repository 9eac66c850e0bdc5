//! Users: each is a principal of the organisation's issuer.
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::{Map, Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::call::{Scim, etag, no_content, with_digests};
use super::error::{Result, ScimError};
use super::patch::Change;
use super::query::{List, Shape};
use super::schema::{self, EXTERNAL_ID, USER, USER_ATTRIBUTES};
use crate::auth::verify::Identity;
use crate::identity::{display_name, names};
use crate::store::{
    self, Disabled, Group, MembershipChange, NewScimUser, NewUser, Person, Role, ScimUserRow,
    SubjectAttribute, changes_of,
};

/// What a request says of a user.
#[derive(Clone, Debug, PartialEq)]
struct Input {
    user_name: String,
    external_id: Option<String>,
    active: Option<bool>,
    attributes: Map<String, Value>,
}

impl Input {
    fn parse(given: &Value) -> Result<Self> {
        let Value::Object(given) = given else {
            return Err(ScimError::bad("invalidSyntax", "A user must be sent."));
        };
        Self::of(schema::canonical(&USER_ATTRIBUTES, given)?)
    }

    /// From attributes under their right names.
    fn of(mut attributes: Map<String, Value>) -> Result<Self> {
        let mut text = |name: &str| match attributes.shift_remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (user_name, external_id) = (text("userName"), text(EXTERNAL_ID));
        let active = attributes.shift_remove("active");
        Ok(Self {
            user_name: user_name
                .ok_or_else(|| ScimError::invalid_value("userName", "is required"))?,
            external_id,
            active: active.and_then(|active| active.as_bool()),
            attributes,
        })
    }

    fn of_row(row: &ScimUserRow) -> Self {
        Self {
            user_name: row.user_name.clone(),
            external_id: row.external_id.clone(),
            active: row.active,
            attributes: row.attributes.clone(),
        }
    }

    /// All of it under the names of the schema, for a PATCH.
    fn resource(&self) -> Map<String, Value> {
        let mut resource = self.attributes.clone();
        resource.insert("userName".to_owned(), self.user_name.clone().into());
        if let Some(external_id) = &self.external_id {
            resource.insert(EXTERNAL_ID.to_owned(), external_id.clone().into());
        }
        if let Some(active) = self.active {
            resource.insert("active".to_owned(), active.into());
        }
        resource
    }

    /// The subject in the issuer's tokens.
    fn subject(&self, attribute: SubjectAttribute) -> Result<&str> {
        match attribute {
            SubjectAttribute::UserName => Ok(&self.user_name),
            SubjectAttribute::ExternalId => self.external_id.as_deref().ok_or_else(|| {
                ScimError::invalid_value(EXTERNAL_ID, "is required: the issuer names people by it")
            }),
        }
    }

    /// What people call the user.
    fn shown_as(&self) -> String {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let name = |part: &str| text(self.attributes.get("name").and_then(|name| name.get(part)));
        let whole = || {
            let parts: Vec<String> = [name("givenName"), name("familyName")]
                .into_iter()
                .flatten()
                .collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        };
        let given = text(self.attributes.get("displayName"))
            .or_else(|| name("formatted"))
            .or_else(whole);
        let good = |text: &str| display_name(text).ok();
        given
            .and_then(|text| good(&text))
            .or_else(|| good(&self.user_name))
            .unwrap_or_default()
    }
}

fn resource(scim: &Scim<'_>, row: &ScimUserRow) -> Map<String, Value> {
    let base = scim.base;
    let mut resource = Map::new();
    resource.insert("schemas".to_owned(), json!([USER]));
    resource.insert("id".to_owned(), row.id.to_string().into());
    resource.extend(Input::of_row(row).resource());
    if !row.groups.is_empty() {
        let groups = row.groups.iter().map(|(id, name)| {
            json!({ "value": id, "$ref": format!("{base}/Groups/{id}"), "display": name })
        });
        resource.insert("groups".to_owned(), groups.collect());
    }
    let meta = json!({
        "resourceType": "User",
        "created": row.create_time.to_jiff().to_string(),
        "lastModified": row.update_time.to_jiff().to_string(),
        "location": format!("{base}/Users/{}", row.id),
        "version": etag(row.version),
    });
    resource.insert("meta".to_owned(), meta);
    resource
}

fn unknown() -> ScimError {
    ScimError::not_found("user")
}

fn taken() -> ScimError {
    ScimError::taken("The organisation has a user of this name or identity already.")
}

async fn found(scim: &Scim<'_>, conn: &mut PgConnection, id: &str) -> Result<ScimUserRow> {
    let id: Uuid = id.parse().map_err(|_| unknown())?;
    let row = store::find_scim_user(conn, scim.organisation, id).await?;
    row.ok_or_else(unknown)
}

pub async fn list(scim: &Scim<'_>, list: List) -> Result<Response> {
    let mut conn = scim.app.pool.acquire().await?;
    let (total, rows) = store::select_scim_users(
        &mut conn,
        scim.organisation,
        list.filter.as_ref(),
        &list.page,
    )
    .await?;
    let users = rows.iter().map(|row| list.shape.apply(resource(scim, row)));
    let users: Vec<_> = users.collect();
    Ok(super::call::json(
        StatusCode::OK,
        &list.answer(total, &users),
    ))
}

/// A method on one user.
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
        return Ok(scim.answer(
            StatusCode::OK,
            row.version,
            shape.apply(resource(scim, &row)),
        ));
    }
    let change = Change::read(method, &USER_ATTRIBUTES, body, Input::parse)?;
    let mut tx = scim.begin().await?;
    let row = found(scim, &mut tx, id).await?;
    scim.check_version(row.version)?;
    let before = Input::of_row(&row);
    let after = match change {
        Change::Delete => {
            delete(scim, &mut tx, &row).await?;
            tx.commit().await?;
            return Ok(no_content());
        }
        Change::Patch(patch) => {
            let mut changed = before.resource();
            patch.apply(&mut changed)?;
            Input::of(changed)?
        }
        Change::Replace(mut replaced) => {
            // who does not speak of it lets nobody in again
            replaced.active = replaced.active.or(row.active);
            replaced
        }
    };
    if after != before {
        update(scim, &mut tx, &row, &after).await?;
    }
    let row = found(scim, &mut tx, id).await?;
    tx.commit().await?;
    Ok(scim.answer(
        StatusCode::OK,
        row.version,
        shape.apply(resource(scim, &row)),
    ))
}

pub async fn create(scim: &Scim<'_>, body: &Value, query: &str) -> Result<Response> {
    let shape = Shape::of_query(query)?;
    let mut input = Input::parse(body)?;
    input.active.get_or_insert(true);
    let mut tx = scim.begin().await?;
    let person = person(scim, &mut tx, &input).await?;
    let id = scim.new_id();
    let new = NewScimUser {
        id,
        organisation: scim.organisation,
        principal: person.id,
        user_name: &input.user_name,
        external_id: input.external_id.as_deref(),
        active: input.active,
        attributes: &input.attributes,
    };
    if !store::insert_scim_user(&mut tx, &new).await? {
        return Err(taken());
    }
    name(scim, &mut tx, &person, &input).await?;
    let changes = bring(scim, &mut tx, &person, &input).await?;
    scim.emit(&mut tx, &changes).await?;
    let detail = detail(&person, &input, &changes);
    let row = found(scim, &mut tx, &id.to_string()).await?;
    let detail = with_digests(detail, None, Some(Input::of_row(&row).resource()));
    scim.record(&mut tx, ("scim_user.create", "scim_user"), id, detail)
        .await?;
    tx.commit().await?;
    let shown = shape.apply(resource(scim, &row));
    Ok(scim.answer(StatusCode::CREATED, row.version, shown))
}

/// The principal of the user's identity, registered when it is not.
async fn person(scim: &Scim<'_>, conn: &mut PgConnection, input: &Input) -> Result<Person> {
    let subject = input.subject(scim.settings.subject)?;
    let issuer = &scim.settings.issuer;
    let known = store::person_by_identity(conn, issuer, subject).await?;
    if let Some(person) = known {
        return if person.is_user {
            Ok(person)
        } else {
            Err(taken())
        };
    }
    // its name tells whose issuer says so: an address that a provider sends is not proven to be the person's
    let identity = Identity {
        issuer: issuer.clone(),
        subject: subject.to_owned(),
        ..Identity::default()
    };
    for name in names(&identity) {
        let new = NewUser {
            id: scim.new_id(),
            name: &name,
            display_name: &input.shown_as(),
            // one that a provider sends is kept with the SCIM user alone
            email: "",
            issuer,
            subject,
        };
        if store::register_person(conn, &new, scim.organisation).await? {
            return Ok(store::person_by_id(conn, new.id).await?);
        }
    }
    Err(taken())
}

/// Gives a principal that SCIM registered the names that the provider has for it.
async fn name(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    person: &Person,
    input: &Input,
) -> Result<()> {
    let subject = input.subject(scim.settings.subject)?;
    let same = person.subject == subject;
    // an owner, or somebody whom another organisation reads of too, is not this provider's to name
    let may_name = person.is_kept_by(scim.organisation)
        && !owns(scim, conn, person).await?
        && !store::is_member_elsewhere(conn, scim.organisation, person.id).await?;
    if !may_name {
        if same {
            return Ok(());
        }
        let detail = "The person was here before SCIM, owns the organisation or is a member of another one: what its issuer calls it is not changed by SCIM.";
        return Err(ScimError::bad("mutability", detail));
    }
    if !same {
        // another subject is another person at the issuer, who would sign in with all that this one has
        if store::has_rights_by_hand(conn, person.id).await? {
            let detail = "The person has rights that SCIM did not give (a role that an owner gave, a grant for an allocation, an SSH key): what its issuer calls it is not changed by SCIM.";
            return Err(ScimError::bad("mutability", detail));
        }
        let other = store::person_by_identity(conn, &scim.settings.issuer, subject).await?;
        if other.is_some() {
            return Err(taken());
        }
    }
    store::update_person(conn, person.id, (subject, &input.shown_as())).await?;
    Ok(())
}

async fn update(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    row: &ScimUserRow,
    input: &Input,
) -> Result<()> {
    let person = store::person_by_id(conn, row.principal).await?;
    name(scim, conn, &person, input).await?;
    let to = NewScimUser {
        id: row.id,
        organisation: scim.organisation,
        principal: row.principal,
        user_name: &input.user_name,
        external_id: input.external_id.as_deref(),
        active: input.active,
        attributes: &input.attributes,
    };
    if !store::update_scim_user(conn, &to).await? {
        return Err(taken());
    }
    let changes = bring(scim, conn, &person, input).await?;
    scim.emit(conn, &changes).await?;
    let mut detail = detail(&person, input, &changes);
    detail["before"] = json!({ "user_name": row.user_name, "active": row.active });
    let detail = with_digests(
        detail,
        Some(Input::of_row(row).resource()),
        Some(input.resource()),
    );
    scim.record(conn, ("scim_user.update", "scim_user"), row.id, detail)
        .await
}

async fn delete(scim: &Scim<'_>, conn: &mut PgConnection, row: &ScimUserRow) -> Result<()> {
    let person = store::person_by_id(conn, row.principal).await?;
    let input = Input {
        active: None,
        ..Input::of_row(row)
    };
    let mut changes = bring(scim, conn, &person, &input).await?;
    store::delete_scim_user(conn, row.id).await?;
    changes.extend(store::leave_organisation(conn, scim.organisation, person.id).await?);
    scim.emit(conn, &changes).await?;
    let detail = detail(&person, &input, &changes);
    let detail = with_digests(detail, Some(Input::of_row(row).resource()), None);
    scim.record(conn, ("scim_user.delete", "scim_user"), row.id, detail)
        .await
}

fn detail(person: &Person, input: &Input, changes: &[MembershipChange]) -> Value {
    json!({
        "user_name": input.user_name, "principal": person.name, "active": input.active == Some(true),
        "changed": changes_of(changes),
    })
}

/// Lets somebody in, or puts somebody out. Whom the platform has disabled nobody else lets in.
async fn bring(
    scim: &Scim<'_>,
    conn: &mut PgConnection,
    person: &Person,
    input: &Input,
) -> Result<Vec<MembershipChange>> {
    let active = input.active == Some(true);
    let mut kept = person.is_kept_by(scim.organisation);
    if !active {
        keep_an_owner(scim, conn, person).await?;
        // what somebody is elsewhere is not this organisation's to end
        kept = kept && !store::is_member_elsewhere(conn, scim.organisation, person.id).await?;
    }
    if kept && !person.disabled_by_platform && person.is_disabled == active {
        let to = if active {
            Disabled::No
        } else {
            Disabled::ByProject
        };
        store::set_disabled(conn, person.id, to).await?;
    }
    if !active && !kept {
        return Ok(store::leave_organisation(conn, scim.organisation, person.id).await?);
    }
    Ok(store::sync_scim(conn, scim.organisation, &[person.id]).await?)
}

/// Refuses to put out the last owner, whom no identity provider can make again. The lock on the organisation makes two that go
/// at once one after the other.
async fn keep_an_owner(scim: &Scim<'_>, conn: &mut PgConnection, person: &Person) -> Result<()> {
    let of = Group::Organisation(scim.organisation);
    if !owns(scim, conn, person).await? || store::has_other_owner(conn, of, person.id).await? {
        return Ok(());
    }
    Err(ScimError::forbidden(
        "This is the last owner of the organisation, whom SCIM does not remove: make somebody else an owner first.",
    ))
}

async fn owns(scim: &Scim<'_>, conn: &mut PgConnection, person: &Person) -> Result<bool> {
    let of = Group::Organisation(scim.organisation);
    let member = store::find_member(conn, of, person.id).await?;
    Ok(member.is_some_and(|member| member.role == Role::Owner))
}
