//! Scopes of API keys.
use super::role::Role;

/// What of a key's account a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Reads.
    Read,
    /// Usage, prices and limits.
    Billing,
    /// Changes.
    Write,
    /// Terminals.
    Terminal,
    /// The project, its members and keys.
    Manage,
    /// The people and groups of the organisation, by SCIM.
    Scim,
}

impl Scope {
    /// All that roles in projects have: [`Scope::Scim`] goes with none.
    pub const ALL: [Self; 5] = [
        Self::Read,
        Self::Billing,
        Self::Write,
        Self::Terminal,
        Self::Manage,
    ];

    /// What a role may do in a project: who gives the role gives these.
    pub fn of_role(role: Role) -> &'static [Self] {
        match role {
            Role::Owner => &Self::ALL,
            Role::Member => &[Self::Read, Self::Billing, Self::Write, Self::Terminal],
            Role::Viewer => &[Self::Read, Self::Billing],
            Role::Billing => &[Self::Billing],
        }
    }

    /// Its name in policies and in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Billing => "billing",
            Self::Write => "write",
            Self::Terminal => "terminal",
            Self::Manage => "manage",
            Self::Scim => "scim",
        }
    }

    /// The scope of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut known = Self::ALL.into_iter().chain([Self::Scim]);
        known.find(|scope| scope.name() == name)
    }
}
