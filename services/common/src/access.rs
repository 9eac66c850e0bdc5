//! The access option of every RPC, read from the contract: who may call what, and the group that its action is in.
//!
//! Policies allow groups of actions ([`Group`]); which group an action is in follows from its option and its HTTP method
//! alone, in [`group_of`]. An RPC that is new is in a group without anybody naming it in a policy, and an administrator's
//! mutation that no list here knows is for administrators alone.
use std::collections::HashMap;
use std::sync::LazyLock;

use gpuaas_proto::gpuaas::options::v1::{Access, Audience};
use prost::Message as _;
use prost_reflect::MethodDescriptor;

use crate::identity::PlatformRole;

const ACCESS_EXTENSION: &str = "gpuaas.options.v1.access";
const HTTP_EXTENSION: &str = "google.api.http";

/// Actions that policies allow together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Reads of what is the caller's own: who one is, one's SSH keys.
    Own,
    /// Changes of what is the caller's own.
    OwnWrite,
    /// What every registered principal may read: SKUs, regions, images, availability.
    Catalog,
    /// Reads of an organisation.
    OrganisationRead,
    /// Changes of an organisation, its members and projects.
    OrganisationManage,
    /// The people and groups of an organisation, kept by its identity provider (SCIM); of no method of the contract.
    Scim,
    /// Reads in a project.
    Read,
    /// Usage, prices and limits of a project.
    Billing,
    /// Changes in a project: launch, power, release, reservations, networks.
    Write,
    /// Terminals and their recordings, and what VMs print on their serial consoles.
    Terminal,
    /// A project itself, its members, service accounts, API keys and webhooks.
    Manage,
    /// Reads of the platform.
    AdminRead,
    /// Running the platform: nodes, slots, capacity, images, tenants' allocations.
    AdminOperate,
    /// Who may do what, prices, quotas, regions, SKUs.
    AdminManage,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Own,
        Self::OwnWrite,
        Self::Catalog,
        Self::OrganisationRead,
        Self::OrganisationManage,
        Self::Scim,
        Self::Read,
        Self::Billing,
        Self::Write,
        Self::Terminal,
        Self::Manage,
        Self::AdminRead,
        Self::AdminOperate,
        Self::AdminManage,
    ];

    /// Its name in policies.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::OwnWrite => "own_write",
            Self::Catalog => "catalog",
            Self::OrganisationRead => "organisation_read",
            Self::OrganisationManage => "organisation_manage",
            Self::Scim => "scim",
            Self::Read => "read",
            Self::Billing => "billing",
            Self::Write => "write",
            Self::Terminal => "terminal",
            Self::Manage => "manage",
            Self::AdminRead => "admin_read",
            Self::AdminOperate => "admin_operate",
            Self::AdminManage => "admin_manage",
        }
    }

    /// Whether its actions are on one project.
    pub fn is_of_a_project(self) -> bool {
        matches!(
            self,
            Self::Read | Self::Billing | Self::Write | Self::Terminal | Self::Manage
        )
    }
}

/// What shows the inside of a VM.
const INSIDE: [&str; 2] = ["terminal", "serial_log"];
/// What a project is charged and limited by.
const MONEY: [&str; 3] = ["usage", "price", "quota"];
/// Who may do what in a project, and who hears of it.
const PEOPLE: [&str; 8] = [
    "project",
    "allocation_grant",
    "project_member",
    "invitation",
    "service_account",
    "api_key",
    "webhook",
    "webhook_delivery",
];
/// Who accepts an invitation belongs nowhere yet.
const ACCEPT: &str = "invitation.accept";
/// What operators change.
const OPERATED: [&str; 10] = [
    "node",
    "slot",
    "capacity",
    "queue",
    "reservation",
    "image",
    "allocation",
    "break_fix",
    "finding",
    "terminal",
];
/// What operators do not change all the same.
const NOT_OPERATED: [&str; 1] = ["reservation.limit"];

/// The group of a method's action; `None` for a method that is not for people.
pub fn group_of(method: &MethodDescriptor) -> Option<Group> {
    group_by(&of_method(method)?, reads(method))
}

/// The same by the option, and by whether the method is served with GET.
fn group_by(access: &Access, is_read: bool) -> Option<Group> {
    let (noun, _) = access.action.split_once('.').unwrap_or_default();
    let reads = access.no_effect || is_read;
    let resource = access.resource.as_str();
    Some(match access.audience() {
        Audience::User if resource == "principal" && reads => Group::Own,
        Audience::User if resource == "principal" || access.action == ACCEPT => Group::OwnWrite,
        Audience::User if resource == "catalog" => Group::Catalog,
        Audience::User if resource == "organisation" && reads => Group::OrganisationRead,
        Audience::User if resource == "organisation" => Group::OrganisationManage,
        Audience::User if INSIDE.contains(&noun) => Group::Terminal,
        Audience::User if reads && MONEY.contains(&noun) => Group::Billing,
        Audience::User if reads => Group::Read,
        Audience::User if PEOPLE.contains(&noun) => Group::Manage,
        Audience::User => Group::Write,
        Audience::Admin if reads => Group::AdminRead,
        Audience::Admin
            if OPERATED.contains(&noun) && !NOT_OPERATED.contains(&access.action.as_str()) =>
        {
            Group::AdminOperate
        }
        Audience::Admin => Group::AdminManage,
        _ => return None,
    })
}

/// Whether a method only reads: the contract serves reads with GET, and nothing else with it.
fn reads(method: &MethodDescriptor) -> bool {
    let Some(extension) = method.parent_pool().get_extension_by_name(HTTP_EXTENSION) else {
        return false;
    };
    let options = method.options();
    let rule = options.get_extension(&extension);
    rule.as_message()
        .is_some_and(|rule| rule.has_field_by_name("get"))
}

/// The most that a platform role may do, whatever policies and the edge say.
pub fn may_ever(role: Option<PlatformRole>, group: Group) -> bool {
    match group {
        Group::AdminRead => role.is_some(),
        Group::AdminOperate => {
            matches!(role, Some(PlatformRole::Admin | PlatformRole::Operator))
        }
        Group::AdminManage => role == Some(PlatformRole::Admin),
        _ => true,
    }
}

/// The access option of a method; `None` when it declares none (foreign services such as health).
pub fn of_method(method: &MethodDescriptor) -> Option<Access> {
    let extension = method
        .parent_pool()
        .get_extension_by_name(ACCESS_EXTENSION)?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return None;
    }
    let value = options.get_extension(&extension);
    Access::decode(value.as_message()?.encode_to_vec().as_slice()).ok()
}

// Constant data of the contract, computed once: not state. The descriptors say the same, and each process would hold all of
// them for it.
static BY_PATH: LazyLock<HashMap<&'static str, Rule>> = LazyLock::new(|| {
    let rule = |method: &'static gpuaas_proto::Method| {
        let access = Access::decode(method.access).expect("an option of the contract decodes");
        let group = group_by(&access, method.is_read);
        (method.path, Rule { access, group })
    };
    gpuaas_proto::METHODS.iter().map(rule).collect()
});

/// What the contract demands of the callers of an RPC.
#[derive(Debug)]
pub struct Rule {
    /// The option.
    pub access: Access,
    /// The group of its action; none when it is not for people.
    pub group: Option<Group>,
}

/// The rule by gRPC path, for example "/gpuaas.allocation.v1.AllocationService/GetAllocation".
pub fn of_path(path: &str) -> Option<&'static Rule> {
    BY_PATH.get(path)
}

/// Whether the path is health or reflection, which any known peer may call.
pub fn is_introspection(path: &str) -> bool {
    path.starts_with("/grpc.health.v1.") || path.starts_with("/grpc.reflection.")
}

/// Whether the RPC is for people, by the gateway's internal token.
pub fn needs_token(access: &Access) -> bool {
    matches!(access.audience(), Audience::User | Audience::Admin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rpc_of_ours_declares_access() {
        for service in gpuaas_proto::pool()
            .services()
            .filter(|s| s.full_name().starts_with("gpuaas."))
        {
            for method in service.methods() {
                let access = of_method(&method)
                    .unwrap_or_else(|| panic!("{} has no access option", method.full_name()));
                assert!(
                    !access.action.is_empty() && !access.resource.is_empty(),
                    "{}",
                    method.full_name()
                );
                assert_ne!(
                    access.audience(),
                    Audience::Unspecified,
                    "{}",
                    method.full_name()
                );
                let public = needs_token(&access);
                assert_eq!(
                    group_of(&method).is_some(),
                    public,
                    "{}: a group goes with a method for people",
                    method.full_name()
                );
                assert_eq!(
                    access.audience() == Audience::Service,
                    !access.callers.is_empty(),
                    "{}: callers go with audience SERVICE",
                    method.full_name()
                );
            }
        }
    }

    /// Services go by the table that is made at build time.
    #[test]
    fn the_rules_by_path_are_those_of_the_descriptors() {
        let mut rules = 0;
        for service in gpuaas_proto::pool().services() {
            for method in service.methods() {
                let path = format!("/{}/{}", service.full_name(), method.name());
                let rule = of_path(&path);
                let access = of_method(&method);
                assert_eq!(rule.map(|rule| &rule.access), access.as_ref(), "{path}");
                let group = group_of(&method);
                assert_eq!(rule.and_then(|rule| rule.group), group, "{path}");
                rules += usize::from(rule.is_some());
            }
        }
        assert_eq!(rules, gpuaas_proto::METHODS.len());
    }

    /// Where the same action is on the same kind of thing, it is in one group: policies name actions.
    #[test]
    fn an_action_of_one_audience_is_in_one_group() {
        let mut known = HashMap::new();
        for service in gpuaas_proto::pool().services() {
            for method in service.methods() {
                let (Some(access), Some(group)) = (of_method(&method), group_of(&method)) else {
                    continue;
                };
                let action = (access.audience(), access.action);
                let first = *known.entry(action).or_insert(group);
                assert_eq!(first, group, "{}", method.full_name());
            }
        }
    }

    #[test]
    fn a_platform_role_has_a_most_that_it_may_do() {
        use PlatformRole::{Admin, Auditor, Operator};
        let table = [
            (None, Group::Read, true),
            (None, Group::AdminRead, false),
            (Some(Auditor), Group::AdminRead, true),
            (Some(Auditor), Group::AdminOperate, false),
            (Some(Auditor), Group::AdminManage, false),
            (Some(Operator), Group::AdminRead, true),
            (Some(Operator), Group::AdminOperate, true),
            (Some(Operator), Group::AdminManage, false),
            (Some(Admin), Group::AdminOperate, true),
            (Some(Admin), Group::AdminManage, true),
        ];
        for (role, group, may) in table {
            assert_eq!(may_ever(role, group), may, "{role:?} {group:?}");
        }
    }

    #[test]
    fn groups_follow_from_the_option_and_the_http_method() {
        let group = |path: &str| of_path(path).and_then(|rule| rule.group);
        for (path, expected) in [
            ("/gpuaas.identity.v1.IdentityService/GetCaller", Group::Own),
            ("/gpuaas.scheduler.v1.SkuService/ListSkus", Group::Catalog),
            (
                "/gpuaas.allocation.v1.AllocationService/GetAllocation",
                Group::Read,
            ),
            (
                "/gpuaas.allocation.v1.AllocationService/StopAllocation",
                Group::Write,
            ),
            ("/gpuaas.billing.v1.UsageService/ListUsage", Group::Billing),
            (
                "/gpuaas.scheduler.v1.FleetAdminService/ListFleetNodes",
                Group::AdminRead,
            ),
            (
                "/gpuaas.scheduler.v1.NodePlacementService/DrainNode",
                Group::AdminOperate,
            ),
            (
                "/gpuaas.billing.v1.PriceAdminService/CreatePriceVersion",
                Group::AdminManage,
            ),
            (
                "/gpuaas.scheduler.v1.CapacityReservationAdminService/PutProjectReservationLimit",
                Group::AdminManage,
            ),
        ] {
            assert_eq!(group(path), Some(expected), "{path}");
        }
        assert_eq!(
            group("/gpuaas.internal.scheduler.v1.PlacementService/Reserve"),
            None
        );
    }
}
