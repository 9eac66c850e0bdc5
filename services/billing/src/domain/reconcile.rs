//! The proof of P3: usage intervals against the billable history that the events tell.
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::event::{Change, LedgerEvent, Start};

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

/// The billable history, folded from events in order. It shares no code with the effects on the database, so
/// that a mistake in one is seen by the other.
#[derive(Debug, Default)]
pub struct History {
    periods: Periods,
}

impl History {
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
    allocations
        .into_iter()
        .flat_map(|id| differences_of(id, of(billed, id), of(billable, id)))
        .collect()
}

fn of(periods: &Periods, allocation_id: Uuid) -> &[Period] {
    periods
        .get(&allocation_id)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn differences_of(allocation_id: Uuid, billed: &[Period], billable: &[Period]) -> Vec<Difference> {
    let mut found = Vec::new();
    if overlaps(billed) {
        found.push(Difference::Overlap { allocation_id });
    }
    let (billable, billed) = (union(billable), union(billed));
    if billable != billed {
        found.push(Difference::Unequal {
            allocation_id,
            billable,
            billed,
        });
    }
    found
}

/// The comparison of a log that is read page by page, as [`differences`] of the whole. In memory are the allocations that are
/// billable at the end of a page, and those that differ so far: a later event or interval may still make them equal. An
/// allocation is billable once, so what is equal and has ended is done with.
#[derive(Debug, Default)]
pub struct Comparison {
    billed: Periods,
    history: History,
}

impl Comparison {
    /// A comparison that begins with intervals that events opened which are retained no more: their ends are compared, or
    /// that there is none; their starts were.
    pub fn carrying(billed: Periods) -> Self {
        let open = |(id, periods): (&Uuid, &Vec<Period>)| {
            let open = periods.iter().map(|period| Period {
                end: None,
                ..*period
            });
            (*id, open.collect())
        };
        let periods = billed.iter().map(open).collect();
        Self {
            billed,
            history: History { periods },
        }
    }

    /// Takes in the next events, and the intervals that were opened at their positions.
    pub fn push_page(&mut self, events: &[LedgerEvent], billed: Periods) {
        let mut touched: BTreeSet<Uuid> = billed.keys().copied().collect();
        for (allocation_id, periods) in billed {
            self.billed
                .entry(allocation_id)
                .or_default()
                .extend(periods);
        }
        for event in events {
            self.history.push(event);
            if let Change::Starts(Start { allocation_id, .. })
            | Change::Ends { allocation_id, .. } = &event.change
            {
                touched.insert(*allocation_id);
            }
        }
        for allocation_id in touched {
            if self.is_done(allocation_id) {
                self.billed.remove(&allocation_id);
                self.history.periods.remove(&allocation_id);
            }
        }
    }

    fn is_done(&self, allocation_id: Uuid) -> bool {
        let billed = of(&self.billed, allocation_id);
        let billable = of(&self.history.periods, allocation_id);
        let have_ended = billed.iter().chain(billable).all(|one| one.end.is_some());
        have_ended && differences_of(allocation_id, billed, billable).is_empty()
    }

    /// Where billed and billable time differ, of all pages so far.
    pub fn differences(&self) -> Vec<Difference> {
        differences(&self.billed, &self.history.periods)
    }
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

    /// Billed time as usage keeps it: the positions that opened and closed an interval, and whose it is.
    type Interval = (i64, Option<i64>, Uuid, Period);

    /// What is compared page by page, as the reconciler reads it: each page with the intervals that its positions opened.
    fn by_pages(events: &[LedgerEvent], billed: &[Interval], size: usize) -> Comparison {
        let mut comparison = Comparison::default();
        for page in events.chunks(size) {
            let (first, last) = (page[0].position, page[page.len() - 1].position);
            let mut opened = Periods::new();
            for (position, _, id, period) in billed {
                if (first..=last).contains(position) {
                    opened.entry(*id).or_default().push(*period);
                }
            }
            comparison.push_page(page, opened);
        }
        comparison
    }

    /// Allocations in memory.
    fn held(comparison: &Comparison) -> usize {
        let (billed, billable) = (&comparison.billed, comparison.history.periods());
        let ids: BTreeSet<&Uuid> = billed.keys().chain(billable.keys()).collect();
        ids.len()
    }

    #[test]
    fn p3_what_has_ended_and_is_equal_is_not_held() {
        // allocation after allocation; of every third one the end is in the page after its start
        let events: Vec<LedgerEvent> = (0_i64..100)
            .map(|n| {
                let allocation = u8::try_from(n / 2).expect("small");
                event(n + 1, n % 2 == 0, allocation, n)
            })
            .collect();
        let mut billed: Vec<Interval> = (0_i64..50)
            .map(|n| {
                let id = Uuid::from_u128(u128::from(n.unsigned_abs()));
                (
                    2 * n + 1,
                    Some(2 * n + 2),
                    id,
                    period(2 * n, Some(2 * n + 1)),
                )
            })
            .collect();
        let comparison = by_pages(&events, &billed, 3);
        assert_eq!((comparison.differences(), held(&comparison)), (vec![], 0));
        // one that is billed too long is held to the end, alone
        billed[7].3.end = Some(at(1000));
        let comparison = by_pages(&events, &billed, 3);
        assert_eq!((comparison.differences().len(), held(&comparison)), (1, 1));
    }

    proptest! {
        /// A page border at any event of an allocation changes nothing, whether usage is right, lost, invented or cut.
        #[test]
        fn p3_pages_find_what_the_whole_finds(
            steps in proptest::collection::vec((any::<bool>(), 0u8..5, 0i64..3), 1..60),
            wrongs in proptest::collection::vec((0u8..4, 0usize..60), 0..4),
        ) {
            let (mut events, mut billed, mut second) = (Vec::new(), Vec::<Interval>::new(), 0);
            let mut begun = BTreeSet::new();
            for (starts, allocation, later) in steps {
                second += later;
                // usage stops before an allocation that starts again
                if starts && !begun.insert(allocation) {
                    continue;
                }
                let position = i64::try_from(events.len()).expect("few") + 1;
                let id = Uuid::from_u128(u128::from(allocation));
                if starts {
                    billed.push((position, None, id, period(second, None)));
                } else if let Some(open) = billed.iter_mut().find(|one| one.2 == id && one.1.is_none()) {
                    open.1 = Some(position);
                    open.3.end = Some(at(second));
                }
                events.push(event(position, starts, allocation, second));
            }
            let last = i64::try_from(events.len()).expect("few");
            for (wrong, index) in wrongs {
                if billed.is_empty() {
                    break;
                }
                let index = index % billed.len();
                match wrong {
                    0 => {
                        billed.remove(index);
                    }
                    1 => billed[index].3.end = Some(at(500)),
                    2 => billed[index].3.end = None,
                    _ => {
                        let position = 1 + billed[index].0 % last;
                        let id = Uuid::from_u128(100 + u128::try_from(index).expect("small"));
                        billed.push((position, None, id, period(7, Some(9))));
                    }
                }
            }
            let (mut whole, mut history) = (Periods::new(), History::default());
            for (.., id, one) in &billed {
                whole.entry(*id).or_default().push(*one);
            }
            for event in &events {
                history.push(event);
            }
            let expected = differences(&whole, history.periods());
            for size in 1..=events.len() {
                prop_assert_eq!(by_pages(&events, &billed, size).differences(), expected.clone(), "pages of {}", size);
            }
        }

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
