//! What operators intend with nodes.

/// An operator's intent for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Take allocations.
    Enabled,
    /// Take nothing new; what is there stays.
    Cordoned,
    /// Take nothing new until it is empty; nothing is stopped.
    Draining,
    /// Somebody works on the host, and nobody is on it.
    Maintenance,
    /// The host has an open break-fix record; what is on it stays as long as it can.
    Broken,
    /// Never to be used again; nothing is on it.
    Retired,
}

impl Intent {
    /// The values in the database.
    pub const WORDS: &'static [&'static str] = &[
        "enabled",
        "cordoned",
        "draining",
        "maintenance",
        "broken",
        "retired",
    ];

    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
            Self::Maintenance => "maintenance",
            Self::Broken => "broken",
            Self::Retired => "retired",
        }
    }
}
