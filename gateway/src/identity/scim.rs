//! `ScimService` and `ScimAdminService`: for which issuer an organisation's SCIM is, and what its groups are good for.
use std::collections::HashMap;

use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{
    Begun, Call, Of, Owned, known_id, not_closed, organisation_unknown, taken, unknown,
};
use super::{parse, wire};
use crate::store::{
    self, MappingRow, Role, ScimGroupRow, ScimKeyRow, ScimSettings, SubjectAttribute,
};

pub(super) async fn get(
    call: &Call<'_>,
    request: pb::GetScimSettingsRequest,
) -> Result<pb::ScimSettings> {
    let mut conn = call.conn().await?;
    let of = Of::Organisation(&request.organisation_id);
    let group = call.seen(&mut conn, of).await?;
    shown(&mut conn, group.id()).await
}

async fn shown(conn: &mut PgConnection, organisation: Uuid) -> Result<pb::ScimSettings> {
    let (user_count, group_count) = store::count_scim(conn, organisation).await?;
    let counted = pb::ScimSettings {
        organisation_id: organisation.to_string(),
        user_count,
        group_count,
        ..pb::ScimSettings::default()
    };
    Ok(match store::scim_settings(conn, organisation).await? {
        None => counted,
        Some(settings) => pb::ScimSettings {
            issuer: settings.issuer,
            subject_attribute: match settings.subject {
                SubjectAttribute::UserName => pb::ScimSubjectAttribute::UserName,
                SubjectAttribute::ExternalId => pb::ScimSubjectAttribute::ExternalId,
            }
            .into(),
            create_time: wire::time(settings.create_time),
            update_time: wire::time(settings.update_time),
            etag: settings.version.to_string(),
            ..counted
        },
    })
}

pub(super) async fn put(
    call: &Call<'_>,
    request: pb::PutScimSettingsRequest,
) -> Result<pb::ScimSettings> {
    let id = known_id(&request.organisation_id, organisation_unknown)?;
    let issuer = parse::claim("issuer", &request.issuer)?;
    if !call.app.verifier.trusts(&issuer) {
        return Err(Error::invalid(
            "issuer",
            "must be one that the gateway trusts",
        ));
    }
    let subject = subject_attribute(request.subject_attribute)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        store::lock_organisation(&mut tx, id).await?;
        let found = store::find_organisation(&mut tx, id, call.me()).await?;
        let row = found.ok_or_else(organisation_unknown)?;
        not_closed(row.state)?;
        let known = store::scim_settings(&mut tx, id).await?;
        let version = known.as_ref().map_or(0, |known| known.version);
        etag::check(&request.etag, &version.to_string())?;
        let other = |known: &ScimSettings| known.issuer != issuer || known.subject != subject;
        let (users, _) = store::count_scim(&mut tx, id).await?;
        if users > 0 && known.as_ref().is_some_and(other) {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::StateConflict,
                "There are SCIM users of the issuer that is set: the identity provider deletes them first.",
            )
            .field("issuer", "must not change while there are SCIM users"));
        }
        let before = match &known {
            Some(_) => Some(shown(&mut tx, id).await?),
            None => None,
        };
        store::put_scim_settings(&mut tx, id, &issuer, subject).await?;
        let after = shown(&mut tx, id).await?;
        let detail = json!({
            "organisation": row.slug, "issuer": issuer, "subject_attribute": subject.as_str(),
            "before": known.map(|known| json!({ "issuer": known.issuer, "subject_attribute": known.subject.as_str() })),
        });
        let detail = with_digests(detail, before.as_ref(), Some(&after));
        call.commit(tx, id, detail).await?;
    }
    let mut conn = call.conn().await?;
    shown(&mut conn, id).await
}

fn subject_attribute(number: i32) -> Result<SubjectAttribute> {
    match pb::ScimSubjectAttribute::try_from(number) {
        Ok(pb::ScimSubjectAttribute::Unspecified | pb::ScimSubjectAttribute::UserName) => {
            Ok(SubjectAttribute::UserName)
        }
        Ok(pb::ScimSubjectAttribute::ExternalId) => Ok(SubjectAttribute::ExternalId),
        Err(_) => Err(Error::invalid(
            "subject_attribute",
            "must be user_name or external_id",
        )),
    }
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListScimGroupsRequest,
) -> Result<pb::ListScimGroupsResponse> {
    let selection = Selection::parse(&store::SCIM_GROUPS, &request.filter, &request.order_by)?;
    let mut conn = call.conn().await?;
    let of = Of::Organisation(&request.organisation_id);
    let organisation = call.seen(&mut conn, of).await?.id();
    let id = organisation.to_string();
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &["scim groups", &id],
    };
    let (rows, next_page_token) =
        store::list_scim_groups_of(&mut conn, organisation, &selection, wanted).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.group.id).collect();
    let mut mappings: HashMap<Uuid, Vec<pb::ScimGroupMapping>> = HashMap::new();
    for row in store::list_mappings(&mut conn, &ids).await? {
        mappings.entry(row.group).or_default().push(mapping(row));
    }
    let groups = rows.into_iter().map(|row| {
        let mappings = mappings.remove(&row.group.id).unwrap_or_default();
        group(row.group, row.members, mappings)
    });
    Ok(pb::ListScimGroupsResponse {
        groups: groups.collect(),
        next_page_token,
    })
}

pub(super) async fn keys(
    call: &Call<'_>,
    request: pb::ListScimKeysRequest,
) -> Result<pb::ListScimKeysResponse> {
    let selection = Selection::parse(&store::SCIM_KEYS, &request.filter, &request.order_by)?;
    let mut conn = call.conn().await?;
    let row = call
        .organisation(&mut conn, &request.organisation_id)
        .await?;
    // who lists no keys of a project lists none of an organisation
    if !call.sees_all() {
        call.needs(row.role, Role::Viewer)?;
    }
    let organisation = row.id;
    let id = organisation.to_string();
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &["scim keys", &id],
    };
    let (rows, next_page_token) =
        store::list_scim_keys(&mut conn, organisation, &selection, wanted).await?;
    let key = |row: ScimKeyRow| pb::ScimKey {
        api_key: Some(wire::api_key(row.key, call.app.cell)),
        project_id: row.project.to_string(),
        project: row.project_slug,
        service_account: row.account_slug,
        account_disabled: row.is_account_disabled,
    };
    Ok(pb::ListScimKeysResponse {
        keys: rows.into_iter().map(key).collect(),
        next_page_token,
    })
}

fn group(row: ScimGroupRow, members: i64, mappings: Vec<pb::ScimGroupMapping>) -> pb::ScimGroup {
    pb::ScimGroup {
        id: row.id.to_string(),
        display_name: row.display_name,
        external_id: row.external_id.unwrap_or_default(),
        member_count: members,
        mappings,
        create_time: wire::time(row.create_time),
        update_time: wire::time(row.update_time),
    }
}

fn mapping(row: MappingRow) -> pb::ScimGroupMapping {
    pb::ScimGroupMapping {
        id: row.id.to_string(),
        group_id: row.group.to_string(),
        project_id: row.project.to_string(),
        project: row.slug,
        role: wire::role(Some(row.role)).into(),
        creator: row.creator,
        create_time: wire::time(row.create_time),
    }
}

fn group_unknown() -> Error {
    unknown("group_id", "SCIM group of the organisation")
}

fn mapping_unknown() -> Error {
    unknown("mapping_id", "mapping of the group")
}

async fn found_group(
    conn: &mut PgConnection,
    organisation: Uuid,
    given: &str,
) -> Result<ScimGroupRow> {
    let id = known_id(given, group_unknown)?;
    let row = store::find_scim_group(conn, organisation, id).await?;
    row.ok_or_else(group_unknown)
}

async fn found_mapping(conn: &mut PgConnection, group: Uuid, id: Uuid) -> Result<MappingRow> {
    let rows = store::list_mappings(conn, &[group]).await?;
    let found = rows.into_iter().find(|row| row.id == id);
    found.ok_or_else(mapping_unknown)
}

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateScimGroupMappingRequest,
) -> Result<pb::ScimGroupMapping> {
    const FIELD: &str = "target_project_id";
    let role = parse::role(request.role)?;
    let id = call.new_id();
    let of = Of::Organisation(&request.organisation_id);
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            let owned = call.owned(&mut tx, of).await?;
            call.may_give(&owned, role)?;
            let creator = call.name_for_members(owned.role);
            let Owned {
                group: organisation,
                name,
                ..
            } = owned;
            let organisation = organisation.id();
            let of_group = found_group(&mut tx, organisation, &request.group_id).await?;
            let project = known_id(&request.target_project_id, || unknown(FIELD, "project"))?;
            let found = store::find_project(&mut tx, project, call.me()).await?;
            let project = found
                .filter(|row| row.organisation_id == organisation)
                .ok_or_else(|| unknown(FIELD, "project of the organisation"))?;
            not_closed(project.state())?;
            let ids = (of_group.id, project.id);
            if !store::insert_mapping(&mut tx, id, ids, role, creator).await? {
                return Err(taken(FIELD, "is one that the group is mapped on already"));
            }
            let changes = sync(&mut tx, organisation, of_group.id).await?;
            call.emit_memberships(&mut tx, organisation, &changes)
                .await?;
            let detail = json!({
                "group": of_group.display_name, "project": project.slug, "role": role.as_str(), "of": name,
                "changed": store::changes_of(&changes),
            });
            let made = mapping(found_mapping(&mut tx, of_group.id, id).await?);
            let detail = with_digests(detail, None, Some(&made));
            call.commit(tx, organisation, detail).await?;
            id
        }
    };
    let mut conn = call.conn().await?;
    let organisation = call.seen(&mut conn, of).await?.id();
    let group = found_group(&mut conn, organisation, &request.group_id).await?;
    Ok(mapping(found_mapping(&mut conn, group.id, id).await?))
}

pub(super) async fn delete(
    call: &Call<'_>,
    request: pb::DeleteScimGroupMappingRequest,
) -> Result<pb::DeleteScimGroupMappingResponse> {
    let id = known_id(&request.mapping_id, mapping_unknown)?;
    let of = Of::Organisation(&request.organisation_id);
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let Owned { group, name, .. } = call.owned(&mut tx, of).await?;
        let organisation = group.id();
        let of_group = found_group(&mut tx, organisation, &request.group_id).await?;
        let row = found_mapping(&mut tx, of_group.id, id).await?;
        store::delete_mapping(&mut tx, id).await?;
        let changes = sync(&mut tx, organisation, of_group.id).await?;
        call.emit_memberships(&mut tx, organisation, &changes)
            .await?;
        let detail = json!({
            "group": of_group.display_name, "project": row.slug, "before": row.role.as_str(), "of": name,
            "changed": store::changes_of(&changes),
        });
        let detail = with_digests(detail, Some(&mapping(row)), None);
        call.commit(tx, organisation, detail).await?;
    }
    Ok(pb::DeleteScimGroupMappingResponse {})
}

/// Brings the memberships of a group's members to what all mappings give now.
async fn sync(
    conn: &mut PgConnection,
    organisation: Uuid,
    group: Uuid,
) -> Result<Vec<store::MembershipChange>> {
    store::hold_projects_of(conn, organisation).await?;
    let users = store::scim_members(conn, group).await?;
    let principals = store::principals_of_users(conn, &users).await?;
    Ok(store::sync_scim(conn, organisation, &principals).await?)
}
