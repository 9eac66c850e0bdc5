//! What an event does to usage intervals: the sequence rule and the interval rules (P3).
use jiff::Timestamp;
use uuid::Uuid;

use super::event::{Change, LedgerEvent, Start};
use super::money::Price;

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
            Self::Payload { .. } => "payload",
            Self::StartedBefore { .. } => "started_before",
            Self::EndsBeforeStart { .. } => "ends_before_start",
            Self::PriceDiffers { .. } => "price_differs",
            Self::Refused { .. } => "refused",
        }
    }
}

/// What the sequence rule says about an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventOrder {
    /// It was applied before: a replay is harmless.
    Applied,
    /// It is the next one.
    Next,
}

/// The sequence rule: every position exactly once, in order.
///
/// # Errors
/// [`Inconsistency::Gap`] when events before it were not seen.
pub fn event_order(after: i64, position: i64) -> Result<EventOrder, Inconsistency> {
    match position {
        p if p <= after => Ok(EventOrder::Applied),
        p if p == after + 1 => Ok(EventOrder::Next),
        found => Err(Inconsistency::Gap { after, found }),
    }
}

/// What is on record about an allocation's usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// Never billable so far.
    Nothing,
    /// Billable since.
    Open {
        /// The interval.
        interval_id: Uuid,
        /// Its start.
        since: Timestamp,
    },
    /// Was billable.
    Closed,
}

/// The effect of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect<'a> {
    /// Nothing to write.
    None,
    /// Open an interval.
    Open(&'a Start),
    /// Close an interval.
    Close {
        /// The interval.
        interval_id: Uuid,
        /// Its end.
        at: Timestamp,
    },
}

/// The interval rules. An allocation is billable once, from `active` to its end; what never became active is
/// never billed (G-10). `published` is the price version on record, with its SKU.
///
/// # Errors
/// [`Inconsistency`] when the event contradicts what is on record.
pub fn decide<'a>(
    recorded: &Recorded,
    published: Option<&(String, Price)>,
    event: &'a LedgerEvent,
) -> Result<Effect<'a>, Inconsistency> {
    let position = event.position;
    match (&event.change, recorded) {
        (Change::None, _) | (Change::Ends { .. }, Recorded::Nothing | Recorded::Closed) => {
            Ok(Effect::None)
        }
        // what is credited leaves the intervals as they are
        (Change::HostLost { .. } | Change::HostFound { .. }, _) => Ok(Effect::None),
        (Change::Starts(start), Recorded::Nothing) => {
            let same_price =
                published.is_some_and(|(sku, price)| *sku == start.sku && *price == start.price);
            if !same_price {
                return Err(Inconsistency::PriceDiffers {
                    position,
                    price_version_id: start.price_version_id,
                });
            }
            Ok(Effect::Open(start))
        }
        (Change::Starts(start), Recorded::Open { .. } | Recorded::Closed) => {
            Err(Inconsistency::StartedBefore {
                position,
                allocation_id: start.allocation_id,
            })
        }
        (Change::Ends { allocation_id, at }, Recorded::Open { interval_id, since }) => {
            if at < since {
                return Err(Inconsistency::EndsBeforeStart {
                    position,
                    allocation_id: *allocation_id,
                });
            }
            Ok(Effect::Close {
                interval_id: *interval_id,
                at: *at,
            })
        }
    }
}
