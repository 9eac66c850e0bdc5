//! A role in an organisation or a project.
/// A role in an organisation or a project; the greater one is the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees usage and cost.
    Billing,
    /// Sees everything, changes nothing.
    Viewer,
    /// Launches and uses allocations.
    Member,
    /// Manages members, keys and settings, too.
    Owner,
}

impl Role {
    /// From the column.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "billing" => Some(Self::Billing),
            "viewer" => Some(Self::Viewer),
            "member" => Some(Self::Member),
            "owner" => Some(Self::Owner),
            _ => None,
        }
    }

    /// For the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Billing => "billing",
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Owner => "owner",
        }
    }
}
