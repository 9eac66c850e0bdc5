//! What an event does to usage intervals: the sequence rule and the interval rules (P3).
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use jiff::Timestamp;
use uuid::Uuid;

use super::event::{self, Change, LedgerEvent, Start};
use super::inconsistency::Inconsistency;
use super::money::Price;

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

/// The rule of one log: the event at the position that usage has reached is the one that was applied there. `mark` is that
/// one's; one of another position says nothing, nor does an event that is retained no more.
///
/// # Errors
/// [`Inconsistency::AnotherLog`].
pub fn check_log(after: i64, mark: Option<&str>, events: &[Event]) -> Result<(), Inconsistency> {
    let is_of_position = |mark: &&str| {
        let position: Option<i64> = mark.split(':').next().and_then(|text| text.parse().ok());
        position == Some(after)
    };
    let there = events.iter().find(|event| event.position == after);
    match (mark.filter(is_of_position), there) {
        (Some(mark), Some(event)) if event::mark(event) != mark => {
            Err(Inconsistency::AnotherLog { position: after })
        }
        _ => Ok(()),
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
