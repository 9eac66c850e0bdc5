//! The proof of P3: usage intervals against the billable history that the events tell.
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::event::{Change, LedgerEvent};

/// Billable time; without an end it is still going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// First instant.
    pub start: Timestamp,
    /// First instant after it.
    pub end: Option<Timestamp>,
}

/// Billable time by allocation.
pub type Periods = BTreeMap<Uuid, Vec<Period>>;

/// What is billed, as far as the events that the ledger retains can prove it.
#[derive(Debug, Default)]
pub struct Billed {
    /// The intervals that a retained event opened, are open, or that a retained event closed.
    pub periods: Periods,
    /// Starts of those that an event opened which is retained no more: their ends are proven, their starts were.
    pub carried: BTreeMap<Uuid, Timestamp>,
}

/// The billable history, folded from events in order. It shares no code with the effects on the database, so
/// that a mistake in one is seen by the other.
#[derive(Debug, Default)]
pub struct History {
    periods: Periods,
}

impl History {
    /// A history that begins with these allocations billable, each since then.
    pub fn carrying(starts: &BTreeMap<Uuid, Timestamp>) -> Self {
        let open = |(id, start): (&Uuid, &Timestamp)| {
            let (start, end) = (*start, None);
            (*id, vec![Period { start, end }])
        };
        Self {
            periods: starts.iter().map(open).collect(),
        }
    }

    /// Takes in the next event.
    pub fn push(&mut self, event: &LedgerEvent) {
        match &event.change {
            Change::Starts(start) => {
                self.periods
                    .entry(start.allocation_id)
                    .or_default()
                    .push(Period {
                        start: start.at,
                        end: None,
                    });
            }
            Change::Ends { allocation_id, at } => {
                let open = self
                    .periods
                    .get_mut(allocation_id)
                    .and_then(|periods| periods.last_mut());
                if let Some(period) = open.filter(|period| period.end.is_none()) {
                    period.end = Some(*at);
                }
            }
            Change::HostLost { .. } | Change::HostFound { .. } | Change::None => {}
        }
    }

    /// The history so far.
    pub fn periods(&self) -> &Periods {
        &self.periods
    }
}

/// Where billed and billable time differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The union of the intervals is not the billable time: a gap, or time nobody should pay.
    Unequal {
        /// The allocation.
        allocation_id: Uuid,
        /// What the events say.
        billable: Vec<Period>,
        /// What the intervals say.
        billed: Vec<Period>,
    },
    /// Two intervals of one allocation share time.
    Overlap {
        /// The allocation.
        allocation_id: Uuid,
    },
}

/// Compares union(intervals) with the billable periods, allocation by allocation. Empty means equal.
pub fn differences(billed: &Periods, billable: &Periods) -> Vec<Difference> {
    let allocations: BTreeSet<Uuid> = billed.keys().chain(billable.keys()).copied().collect();
    let of = |periods: &Periods, id: Uuid| periods.get(&id).cloned().unwrap_or_default();
    let mut found = Vec::new();
    for allocation_id in allocations {
        let intervals = of(billed, allocation_id);
        if overlaps(&intervals) {
            found.push(Difference::Overlap { allocation_id });
        }
        let (billable, billed) = (union(&of(billable, allocation_id)), union(&intervals));
        if billable != billed {
            found.push(Difference::Unequal {
                allocation_id,
                billable,
                billed,
            });
        }
    }
    found
}

/// Sorted, disjoint, non-empty periods that cover the same time.
fn union(periods: &[Period]) -> Vec<Period> {
    let mut sorted: Vec<Period> = periods
        .iter()
        .copied()
        .filter(|p| p.end != Some(p.start))
        .collect();
    sorted.sort_by_key(|p| p.start);
    let mut merged: Vec<Period> = Vec::with_capacity(sorted.len());
    for period in sorted {
        match merged.last_mut() {
            Some(last) if last.end.is_none_or(|end| period.start <= end) => {
                last.end = last.end.zip(period.end).map(|(a, b)| a.max(b));
            }
            _ => merged.push(period),
        }
    }
    merged
}

fn overlaps(periods: &[Period]) -> bool {
    let mut sorted: Vec<Period> = periods
        .iter()
        .copied()
        .filter(|p| p.end != Some(p.start))
        .collect();
    sorted.sort_by_key(|p| p.start);
    sorted
        .windows(2)
        .any(|pair| pair[0].end.is_none_or(|end| pair[1].start < end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::event::Start;
    use crate::domain::money::{Currency, Price};
    use crate::domain::usage::{Effect, Recorded, decide};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_790_000_000 + second).expect("in range")
    }

    fn period(start: i64, end: Option<i64>) -> Period {
        Period {
            start: at(start),
            end: end.map(at),
        }
    }

    #[test]
    fn differences_are_found_and_only_those() {
        let id = Uuid::from_u128(1);
        let table: [(&[Period], &[Period], usize); 9] = [
            (&[], &[], 0),
            (&[period(1, Some(9))], &[period(1, Some(9))], 0),
            // cut in two without a gap is the same time
            (
                &[period(1, Some(5)), period(5, Some(9))],
                &[period(1, Some(9))],
                0,
            ),
            (&[period(1, Some(1))], &[], 0),
            (
                &[period(1, Some(5)), period(6, Some(9))],
                &[period(1, Some(9))],
                1,
            ),
            (&[period(1, None)], &[period(1, Some(9))], 1),
            (&[], &[period(1, None)], 1),
            (&[period(1, None)], &[], 1),
            (
                &[period(1, Some(6)), period(5, Some(9))],
                &[period(1, Some(9))],
                1,
            ),
        ];
        for (billed, billable, expected) in table {
            let billed = Periods::from([(id, billed.to_vec())]);
            let billable = Periods::from([(id, billable.to_vec())]);
            assert_eq!(
                differences(&billed, &billable).len(),
                expected,
                "{billed:?} against {billable:?}"
            );
        }
    }

    fn price() -> Price {
        Price {
            currency: Currency::parse("EUR").expect("a currency"),
            nanos: 1,
        }
    }

    fn event(position: i64, starts: bool, allocation: u8, second: i64) -> LedgerEvent {
        let (allocation_id, at) = (Uuid::from_u128(u128::from(allocation)), at(second));
        let start = Start {
            allocation_id,
            project_id: Uuid::nil(),
            at,
            sku: "lab-slice".to_owned(),
            gpu_count: 1,
            price_version_id: Uuid::nil(),
            price: price(),
            claims: serde_json::json!([]),
            host_lost_since: None,
        };
        let change = if starts {
            Change::Starts(start)
        } else {
            Change::Ends { allocation_id, at }
        };
        LedgerEvent { position, change }
    }

    proptest! {
        /// The effects on usage and the history told by the same events agree, whatever the allocations do in
        /// between, as long as the events are consistent.
        #[test]
        fn effects_and_history_agree(steps in proptest::collection::vec((any::<bool>(), 0u8..5, 0i64..3), 0..60)) {
            let published = ("lab-slice".to_owned(), price());
            let (mut billed, mut history, mut second) = (Periods::new(), History::default(), 0);
            for (position, (starts, allocation, later)) in (1..).zip(steps) {
                second += later;
                let event = event(position, starts, allocation, second);
                let id = Uuid::from_u128(u128::from(allocation));
                let recorded = match billed.get(&id).and_then(|periods| periods.last()) {
                    None => Recorded::Nothing,
                    Some(Period { start, end: None }) => Recorded::Open { interval_id: id, since: *start },
                    Some(_) => Recorded::Closed,
                };
                // a refused event stops usage before it, so the history does not hold it either
                let Ok(effect) = decide(&recorded, Some(&published), &event) else { continue };
                match effect {
                    Effect::None => {}
                    Effect::Open(start) => billed.entry(id).or_default().push(Period { start: start.at, end: None }),
                    Effect::Close { at, .. } => {
                        billed.get_mut(&id).and_then(|periods| periods.last_mut()).expect("open").end = Some(at);
                    }
                }
                history.push(&event);
                prop_assert_eq!(differences(&billed, history.periods()), []);
            }
        }
    }
}
