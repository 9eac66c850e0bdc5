//! Rows of the schema `edge` as messages.
use gpuaas_common::etag;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff_sqlx::Timestamp;

use crate::auth::api_keys::prefix_of;
use crate::store::{
    AllocationGrantRow, AllocationPermission, ApiKeyRow, Group, InvitationRow, InvitationState,
    MemberRow, OrganisationRow, OwnOrganisation, PlatformRole, PrincipalKind, PrincipalRow,
    ProjectRow, Role, Scope, ServiceAccountRow, SshKeyRow, TenantState,
};

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

pub(super) fn organisation(row: OrganisationRow) -> pb::Organisation {
    pb::Organisation {
        id: row.id.to_string(),
        slug: row.slug,
        display_name: row.display_name,
        state: state(row.state).into(),
        state_reason: row.state_reason,
        role: role(row.role).into(),
        create_time: time(row.create_time),
        update_time: time(row.update_time),
        etag: row.version.to_string(),
    }
}

pub(super) fn member(row: MemberRow) -> pb::Member {
    pb::Member {
        member_id: row.id.to_string(),
        principal: row.name,
        display_name: row.display_name,
        email: row.email,
        kind: kind(row.kind).into(),
        role: role(Some(row.role)).into(),
        create_time: time(row.create_time),
        update_time: time(row.update_time),
        etag: row.version.to_string(),
        disabled: row.disabled,
        scim: row.scim,
    }
}

pub(super) fn invitation(row: InvitationRow) -> pb::Invitation {
    let state = match row.state {
        InvitationState::Pending => pb::InvitationState::Pending,
        InvitationState::Accepted => pb::InvitationState::Accepted,
        InvitationState::Revoked => pb::InvitationState::Revoked,
        InvitationState::Expired => pb::InvitationState::Expired,
    };
    let (organisation_id, project_id) = match row.group {
        Group::Organisation(id) => (id.to_string(), String::new()),
        Group::Project(id) => (String::new(), id.to_string()),
    };
    pb::Invitation {
        id: row.id.to_string(),
        organisation_id,
        project_id,
        email: row.email,
        role: role(Some(row.role)).into(),
        state: state.into(),
        token: String::new(),
        inviter: row.shown_inviter,
        accepted_by: row.accepted_by.map(|(_, name)| name).unwrap_or_default(),
        create_time: time(row.create_time),
        expire_time: time(row.expire_time),
        accept_time: row.accept_time.and_then(time),
        target: row.target,
    }
}

pub(super) fn allocation_grant(row: AllocationGrantRow) -> pb::AllocationGrant {
    let permission = match row.permission {
        AllocationPermission::Terminal => pb::AllocationPermission::Terminal,
        AllocationPermission::SerialLog => pb::AllocationPermission::SerialLog,
    };
    pb::AllocationGrant {
        id: row.id.to_string(),
        project_id: row.project.to_string(),
        allocation_id: row.allocation.to_string(),
        principal: row.principal,
        permission: permission.into(),
        creator: row.creator,
        create_time: time(row.create_time),
        expire_time: time(row.expire_time),
    }
}

pub(super) fn ssh_key(row: SshKeyRow) -> pb::SshKey {
    pb::SshKey {
        id: row.id.to_string(),
        name: row.name,
        public_key: row.public_key,
        fingerprint: row.fingerprint,
        create_time: time(row.create_time),
        project_id: row.project.map(|id| id.to_string()).unwrap_or_default(),
    }
}

pub(super) fn principal(row: PrincipalRow) -> pb::Principal {
    pb::Principal {
        id: row.id.to_string(),
        name: row.name,
        display_name: row.display_name,
        email: row.email,
        kind: kind(row.kind).into(),
        platform_role: platform_role(row.platform_role).into(),
        issuer: row.issuer,
        subject: row.subject,
        disable_time: row.disable_time.and_then(time),
        create_time: time(row.create_time),
        update_time: time(row.update_time),
        etag: row.version.to_string(),
    }
}

pub(super) fn service_account(row: ServiceAccountRow) -> pb::ServiceAccount {
    let account = pb::ServiceAccount {
        id: row.id.to_string(),
        project_id: row.project.to_string(),
        slug: row.slug,
        principal: row.name,
        description: row.description,
        role: role(row.role).into(),
        creator: row.creator,
        create_time: time(row.create_time),
        disable_time: row.disable_time.and_then(time),
        disabled_by_platform: row.disabled_by_platform,
        etag: String::new(),
    };
    pb::ServiceAccount {
        etag: etag::of(&account),
        ..account
    }
}

/// A key without its secret.
pub(super) fn api_key(row: ApiKeyRow, cell: u16) -> pb::ApiKey {
    let scope = |scope: &Scope| match scope {
        Scope::Read => pb::ApiKeyScope::Read,
        Scope::Billing => pb::ApiKeyScope::Billing,
        Scope::Write => pb::ApiKeyScope::Write,
        Scope::Terminal => pb::ApiKeyScope::Terminal,
        Scope::Manage => pb::ApiKeyScope::Manage,
        Scope::Scim => pb::ApiKeyScope::Scim,
    };
    pb::ApiKey {
        id: row.id.to_string(),
        service_account_id: row.account.to_string(),
        display_name: row.display_name,
        scopes: row.scopes.iter().map(|one| scope(one).into()).collect(),
        prefix: prefix_of(cell, row.id),
        key: String::new(),
        creator: row.creator,
        create_time: time(row.create_time),
        expire_time: row.expire_time.and_then(time),
        disable_time: row.disable_time.and_then(time),
        last_used_time: row.last_used_time.and_then(time),
        replaces: row.replaces.map(|id| id.to_string()).unwrap_or_default(),
    }
}
