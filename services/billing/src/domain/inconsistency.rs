//! What must not be in the log or in an interval.
use uuid::Uuid;

/// The log or an interval is not what it must be. Billing stops at such an event: skipping it would lose or
/// invent money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// The next event is not the next position.
    #[error("event {found} follows position {after}: the log has a gap or is out of order")]
    Gap {
        /// Position billing has reached.
        after: i64,
        /// Position it was given.
        found: i64,
    },
    /// The log ends before the position billing has reached, as after a restore of the ledger alone.
    #[error("the log ends at {head} but was read to {after}")]
    LedgerBehind {
        /// Position billing has reached.
        after: i64,
        /// Highest position of the log.
        head: i64,
    },
    /// The log has another event where billing has read one: it was restored, and went on.
    #[error("event {position} is not the one that was applied: the log is another one")]
    AnotherLog {
        /// Position billing has reached.
        position: i64,
    },
    /// Something that billing needs is absent or wrong.
    #[error("event {position} cannot be read: {problem}")]
    Payload {
        /// The event.
        position: i64,
        /// What is wrong.
        problem: String,
    },
    /// An allocation becomes active twice.
    #[error("event {position} starts allocation {allocation_id}, which was billed before")]
    StartedBefore {
        /// The event.
        position: i64,
        /// The allocation.
        allocation_id: Uuid,
    },
    /// Billable time would end before it starts.
    #[error("event {position} ends allocation {allocation_id} before its start")]
    EndsBeforeStart {
        /// The event.
        position: i64,
        /// The allocation.
        allocation_id: Uuid,
    },
    /// The price version is unknown or has another price or SKU.
    #[error("event {position} has a price that is not price version {price_version_id}")]
    PriceDiffers {
        /// The event.
        position: i64,
        /// The price version it names.
        price_version_id: Uuid,
    },
    /// The database refused the effect.
    #[error("event {position} was refused by the database: {constraint}")]
    Refused {
        /// The event.
        position: i64,
        /// The constraint that refused it.
        constraint: String,
    },
}

impl Inconsistency {
    /// Label of the metric.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Gap { .. } => "gap",
            Self::LedgerBehind { .. } => "ledger_behind",
            Self::AnotherLog { .. } => "another_log",
            Self::Payload { .. } => "payload",
            Self::StartedBefore { .. } => "started_before",
            Self::EndsBeforeStart { .. } => "ends_before_start",
            Self::PriceDiffers { .. } => "price_differs",
            Self::Refused { .. } => "refused",
        }
    }
}
