//! The state that organisations and projects have.

/// State of an organisation or a project; the greater one allows less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TenantState {
    /// Everything.
    Active,
    /// Nothing new.
    Suspended,
    /// Nothing, for good.
    Closed,
}

impl TenantState {
    /// From the column.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "active" => Some(Self::Active),
            "suspended" => Some(Self::Suspended),
            "closed" => Some(Self::Closed),
            _ => None,
        }
    }

    /// For the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
            Self::Closed => "closed",
        }
    }
}
