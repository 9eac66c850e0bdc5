//! Rows of the schema `edge` as messages.
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff_sqlx::Timestamp;

use crate::store::{OwnOrganisation, PlatformRole, PrincipalKind, ProjectRow, Role, TenantState};

pub(super) fn time(at: Timestamp) -> Option<prost_types::Timestamp> {
    Some(proto_time(at.to_jiff()))
}

pub(super) fn kind(kind: PrincipalKind) -> pb::PrincipalKind {
    match kind {
        PrincipalKind::User => pb::PrincipalKind::User,
        PrincipalKind::ServiceAccount => pb::PrincipalKind::ServiceAccount,
    }
}

pub(super) fn platform_role(role: Option<PlatformRole>) -> pb::PlatformRole {
    match role {
        None => pb::PlatformRole::Unspecified,
        Some(PlatformRole::Admin) => pb::PlatformRole::Admin,
        Some(PlatformRole::Operator) => pb::PlatformRole::Operator,
        Some(PlatformRole::Auditor) => pb::PlatformRole::Auditor,
    }
}

pub(super) fn role(role: Option<Role>) -> pb::MemberRole {
    match role {
        None => pb::MemberRole::Unspecified,
        Some(Role::Owner) => pb::MemberRole::Owner,
        Some(Role::Member) => pb::MemberRole::Member,
        Some(Role::Viewer) => pb::MemberRole::Viewer,
        Some(Role::Billing) => pb::MemberRole::Billing,
    }
}

pub(super) fn state(state: TenantState) -> pb::TenantState {
    match state {
        TenantState::Active => pb::TenantState::Active,
        TenantState::Suspended => pb::TenantState::Suspended,
        TenantState::Closed => pb::TenantState::Closed,
    }
}

pub(super) fn project(row: ProjectRow) -> pb::Project {
    pb::Project {
        state: state(row.state()).into(),
        id: row.id.to_string(),
        slug: row.slug,
        display_name: row.display_name,
        organisation: row.organisation,
        organisation_id: row.organisation_id.to_string(),
        state_reason: row.state_reason,
        suspended_by_platform: row.suspended_by_platform,
        role: role(row.role).into(),
        create_time: time(row.create_time),
        update_time: time(row.update_time),
        etag: row.version.to_string(),
    }
}

pub(super) fn own_organisation(row: OwnOrganisation) -> pb::CallerOrganisation {
    pb::CallerOrganisation {
        id: row.id.to_string(),
        slug: row.slug,
        display_name: row.display_name,
        role: role(Some(row.role)).into(),
        state: state(row.state).into(),
    }
}
