//! Fields of requests as values that hold nothing but what they may.
use gpuaas_common::text::is_deceptive;
use gpuaas_common::time::from_proto_time;
use gpuaas_common::value::DnsLabel;
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff::{SignedDuration, Timestamp};

use crate::store::{
    AllocationPermission, InvitationState, PlatformRole, PrincipalKind, Role, TenantState,
};

/// Most characters of a display name.
const MAX_NAME: usize = 200;
/// Most characters of a reason.
const MAX_REASON: usize = 500;
/// Most bytes of an address (RFC 5321).
const MAX_EMAIL: usize = 254;
/// Lifetime of an invitation.
const INVITATION: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Longest lifetime of an invitation.
const MAX_INVITATION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Lifetime of a grant in an allocation.
const GRANT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Longest lifetime of a grant in an allocation.
const MAX_GRANT: SignedDuration = SignedDuration::from_hours(90 * 24);

/// Text for people, in any script, without space around it.
pub(crate) fn display_name(text: &str) -> Result<String> {
    const FIELD: &str = "display_name";
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::required(FIELD));
    }
    if text.chars().count() > MAX_NAME {
        return Err(Error::invalid(
            FIELD,
            format!("must be at most {MAX_NAME} characters"),
        ));
    }
    if text.chars().any(is_deceptive) {
        return Err(Error::invalid(
            FIELD,
            "must not contain control characters or marks that change the direction of text",
        ));
    }
    Ok(text.to_owned())
}

/// The same, or what is there otherwise.
pub(super) fn display_name_or(text: &str, default: &str) -> Result<String> {
    if text.is_empty() {
        return Ok(default.to_owned());
    }
    display_name(text)
}

/// Text for people that may be left out.
pub(super) fn text(field: &'static str, text: &str, most: usize) -> Result<String> {
    let text = text.trim();
    if text.chars().count() > most {
        let rule = format!("must be at most {most} characters");
        return Err(Error::invalid(field, rule));
    }
    if text.chars().any(is_deceptive) {
        return Err(Error::invalid(field, "must not contain control characters"));
    }
    Ok(text.to_owned())
}

pub(super) fn slug(text: &str) -> Result<DnsLabel> {
    text.parse()
        .map_err(|_| Error::invalid("slug", format!("must be {}", DnsLabel::RULE)))
}

pub(super) fn reason(text: &str) -> Result<String> {
    let text = text.trim();
    if text.chars().count() > MAX_REASON {
        return Err(Error::invalid(
            "reason",
            format!("must be at most {MAX_REASON} characters"),
        ));
    }
    if text.chars().any(is_deceptive) {
        return Err(Error::invalid(
            "reason",
            "must not contain control characters",
        ));
    }
    Ok(text.to_owned())
}

/// The reason of a change that others are told of.
pub(super) fn required_reason(text: &str) -> Result<String> {
    let text = reason(text)?;
    if text.is_empty() {
        return Err(Error::required("reason"));
    }
    Ok(text)
}

/// An address, in lower case. Whether it is somebody's only a mail shows.
pub(super) fn email(text: &str) -> Result<String> {
    let text = text.trim().to_lowercase();
    let parts = text.split_once('@');
    let good = text.len() <= MAX_EMAIL
        && !text.chars().any(|c| c.is_whitespace() || is_deceptive(c))
        && parts.is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !host.contains('@')
        });
    if good {
        return Ok(text);
    }
    Err(Error::invalid(
        "email",
        format!("must be one address of at most {MAX_EMAIL} bytes"),
    ))
}

pub(super) fn role(number: i32) -> Result<Role> {
    optional_role(number)?.ok_or_else(|| Error::required("role"))
}

pub(super) fn optional_role(number: i32) -> Result<Option<Role>> {
    match pb::MemberRole::try_from(number) {
        Ok(pb::MemberRole::Unspecified) => Ok(None),
        Ok(pb::MemberRole::Owner) => Ok(Some(Role::Owner)),
        Ok(pb::MemberRole::Member) => Ok(Some(Role::Member)),
        Ok(pb::MemberRole::Viewer) => Ok(Some(Role::Viewer)),
        Ok(pb::MemberRole::Billing) => Ok(Some(Role::Billing)),
        Err(_) => Err(Error::invalid(
            "role",
            "must be owner, member, viewer or billing",
        )),
    }
}

pub(super) fn platform_role(number: i32) -> Result<Option<PlatformRole>> {
    match pb::PlatformRole::try_from(number) {
        Ok(pb::PlatformRole::Unspecified) => Ok(None),
        Ok(pb::PlatformRole::Admin) => Ok(Some(PlatformRole::Admin)),
        Ok(pb::PlatformRole::Operator) => Ok(Some(PlatformRole::Operator)),
        Ok(pb::PlatformRole::Auditor) => Ok(Some(PlatformRole::Auditor)),
        Err(_) => Err(Error::invalid(
            "platform_role",
            "must be admin, operator or auditor",
        )),
    }
}

pub(super) fn kind(number: i32) -> Result<Option<PrincipalKind>> {
    match pb::PrincipalKind::try_from(number) {
        Ok(pb::PrincipalKind::Unspecified) => Ok(None),
        Ok(pb::PrincipalKind::User) => Ok(Some(PrincipalKind::User)),
        Ok(pb::PrincipalKind::ServiceAccount) => Ok(Some(PrincipalKind::ServiceAccount)),
        Err(_) => Err(Error::invalid("kind", "must be user or service_account")),
    }
}

pub(super) fn state(number: i32) -> Result<Option<TenantState>> {
    match pb::TenantState::try_from(number) {
        Ok(pb::TenantState::Unspecified) => Ok(None),
        Ok(pb::TenantState::Active) => Ok(Some(TenantState::Active)),
        Ok(pb::TenantState::Suspended) => Ok(Some(TenantState::Suspended)),
        Ok(pb::TenantState::Closed) => Ok(Some(TenantState::Closed)),
        Err(_) => Err(Error::invalid(
            "state",
            "must be active, suspended or closed",
        )),
    }
}

pub(super) fn invitation_state(number: i32) -> Result<Option<InvitationState>> {
    match pb::InvitationState::try_from(number) {
        Ok(pb::InvitationState::Unspecified) => Ok(None),
        Ok(pb::InvitationState::Pending) => Ok(Some(InvitationState::Pending)),
        Ok(pb::InvitationState::Accepted) => Ok(Some(InvitationState::Accepted)),
        Ok(pb::InvitationState::Revoked) => Ok(Some(InvitationState::Revoked)),
        Ok(pb::InvitationState::Expired) => Ok(Some(InvitationState::Expired)),
        Err(_) => Err(Error::invalid(
            "state",
            "must be pending, accepted, revoked or expired",
        )),
    }
}

/// When an invitation ends.
pub(super) fn invitation_end(
    given: Option<&prost_types::Timestamp>,
    now: Timestamp,
) -> Result<Timestamp> {
    end(given, now, (INVITATION, MAX_INVITATION))
}

/// When a grant in an allocation ends.
pub(super) fn allocation_grant_end(
    given: Option<&prost_types::Timestamp>,
    now: Timestamp,
) -> Result<Timestamp> {
    end(given, now, (GRANT, MAX_GRANT))
}

/// The end that is given, or the one after the usual lifetime, in whole microseconds: as it is stored, and so on record.
fn end(
    given: Option<&prost_types::Timestamp>,
    now: Timestamp,
    (usual, longest): (SignedDuration, SignedDuration),
) -> Result<Timestamp> {
    const FIELD: &str = "expire_time";
    let Some(given) = given else {
        return whole_micros(now + usual);
    };
    let end = from_proto_time(given).ok_or_else(|| Error::invalid(FIELD, "must be a time"))?;
    if end <= now || end > now + longest {
        let days = longest.as_hours() / 24;
        return Err(Error::invalid(
            FIELD,
            format!("must be in the next {days} days"),
        ));
    }
    whole_micros(end)
}

fn whole_micros(time: Timestamp) -> Result<Timestamp> {
    Timestamp::from_microsecond(time.as_microsecond()).map_err(Error::internal)
}

/// What a grant lets a member do.
pub(super) fn allocation_permission(number: i32) -> Result<AllocationPermission> {
    match pb::AllocationPermission::try_from(number) {
        Ok(pb::AllocationPermission::Unspecified) => Err(Error::required("permission")),
        Ok(pb::AllocationPermission::Terminal) => Ok(AllocationPermission::Terminal),
        Ok(pb::AllocationPermission::SerialLog) => Ok(AllocationPermission::SerialLog),
        Err(_) => Err(Error::invalid(
            "permission",
            "must be terminal or serial_log",
        )),
    }
}

/// A stable name of a user.
pub(super) fn user_name(text: &str) -> Result<String> {
    let good = text
        .strip_prefix("user:")
        .is_some_and(|name| (1..=128).contains(&name.len()) && name.bytes().all(is_name_byte));
    if good {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(
        "name",
        "must be \"user:\" and 1 to 128 letters, digits, dots, underscores, at signs and hyphens",
    ))
}

/// Whether a stable name may have it.
pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._@-".contains(&byte)
}

/// The name of an SSH key.
pub(super) fn key_name(text: &str) -> Result<String> {
    let good = (1..=63).contains(&text.len())
        && text.as_bytes()[0].is_ascii_alphanumeric()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if good {
        return Ok(text.to_owned());
    }
    Err(Error::invalid(
        "name",
        "must be 1 to 63 letters, digits, dots, underscores and hyphens, beginning with a letter or digit",
    ))
}

/// What an issuer or its subject is called: no control characters, of a sane length.
pub(super) fn claim(field: &'static str, text: &str) -> Result<String> {
    if text.is_empty() {
        return Err(Error::required(field));
    }
    if text.len() > 500 || text.chars().any(char::is_control) {
        return Err(Error::invalid(
            field,
            "must be at most 500 bytes without control characters",
        ));
    }
    Ok(text.to_owned())
}
