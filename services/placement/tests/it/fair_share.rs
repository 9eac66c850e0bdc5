//! The order of a queue, as properties of a pure function.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_placement::model::Priority;
use gpuaas_placement::queue::fair_share::{Batch, RAISED_AFTER, order};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;

const START: i64 = 1_790_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(START + seconds).expect("a time")
}

fn batch(number: u128, project: u128, priority: Priority, since: i64, last_served: i64) -> Batch {
    Batch {
        id: Uuid::from_u128(number),
        project_id: Uuid::from_u128(project),
        priority,
        since: at(since),
        last_served,
    }
}

/// Lines as the ledger makes them: each project has one turn, no two the same.
fn any_queue() -> impl Strategy<Value = Vec<Batch>> {
    let one = (0..6u128, 0..3usize, 0..20_000i64);
    let numbers = Just((0..6i64).collect::<Vec<_>>()).prop_shuffle();
    (prop::collection::vec(one, 0..40), numbers).prop_map(|(drawn, numbers)| {
        drawn
            .into_iter()
            .enumerate()
            .map(|(number, (project, class, since))| {
                let priority = Priority::ALL[class];
                let last_served = numbers[usize::try_from(project).expect("small")];
                batch(number as u128, project, priority, since, last_served)
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn everybody_has_one_place_whatever_order_they_are_told_in(
        queue in any_queue(), seed in any::<u64>(), now in 0..30_000i64
    ) {
        let now = at(now);
        let names = |queue: &[Batch]| -> Vec<Uuid> {
            order(queue, now).into_iter().map(|place| queue[place].id).collect()
        };
        let mut other = queue.clone();
        other.sort_by_key(|batch| batch.id.as_u128().wrapping_mul(u128::from(seed) | 1));
        prop_assert_eq!(names(&queue), names(&other));
        let distinct: BTreeSet<Uuid> = names(&queue).into_iter().collect();
        prop_assert_eq!(distinct.len(), queue.len());
    }

    #[test]
    fn a_higher_class_is_first_and_within_one_no_project_is_two_rounds_ahead(
        queue in any_queue(), now in 0..30_000i64
    ) {
        let now = at(now);
        let ordered: Vec<&Batch> = order(&queue, now).into_iter().map(|place| &queue[place]).collect();
        let classes: Vec<Priority> = ordered.iter().map(|batch| batch.class_at(now)).collect();
        prop_assert!(classes.windows(2).all(|pair| pair[0] >= pair[1]), "{classes:?}");
        for class in Priority::ALL {
            let of_class: Vec<&&Batch> =
                ordered.iter().filter(|batch| batch.class_at(now) == *class).collect();
            for (place, one) in of_class.iter().enumerate() {
                let served = |project: Uuid| {
                    of_class[..place].iter().filter(|before| before.project_id == project).count()
                };
                // who still waits has been passed at most once more than it was served
                let own = served(one.project_id);
                for other in &of_class[..place] {
                    prop_assert!(served(other.project_id) <= own + 1);
                }
                // of one project the oldest first
                let later = of_class[place..].iter().filter(|other| other.project_id == one.project_id);
                prop_assert!(later.into_iter().all(|other| other.since >= one.since));
            }
        }
    }

    /// No starvation: whoever joins afterwards, in whatever class, passes a request only so long.
    #[test]
    fn every_request_is_served_whatever_joins_after_it(
        queue in any_queue().prop_filter("somebody is queued", |queue| !queue.is_empty()),
        joins in prop::collection::vec((0..12u128, 0..3usize), 3),
        chosen in any::<prop::sample::Index>(),
    ) {
        let mut queue = queue;
        let chosen = queue[chosen.index(queue.len())].clone();
        // the round robin as the ledger keeps it
        let mut numbers: BTreeMap<Uuid, i64> = queue.iter().map(|batch| (batch.project_id, batch.last_served)).collect();
        let mut next_number = 1000;
        let mut next_id = 1000;
        let mut now = at(20_000);
        // in the highest class after two raises; then nobody who joins is before it, but for one turn per project
        let raised = chosen.since + RAISED_AFTER * 2;
        let mut passed: Option<BTreeMap<Uuid, u32>> = None;
        for _ in 0..20_000 {
            let first = order(&queue, now)[0];
            let served = queue.remove(first);
            if served.id == chosen.id {
                return Ok(());
            }
            if now >= raised {
                let passed = passed.get_or_insert_default();
                if served.project_id == chosen.project_id {
                    prop_assert!(served.since <= chosen.since, "a younger one of its own was served first");
                    passed.clear();
                } else {
                    let times = passed.entry(served.project_id).or_default();
                    *times += 1;
                    prop_assert!(*times <= 1, "passed twice by one project");
                }
            }
            numbers.insert(served.project_id, next_number);
            next_number += 1;
            for (project, class) in &joins {
                let project_id = Uuid::from_u128(*project);
                if !queue.iter().any(|batch| batch.project_id == project_id) {
                    numbers.insert(project_id, next_number);
                    next_number += 1;
                }
                queue.push(Batch {
                    id: Uuid::from_u128(next_id),
                    project_id,
                    priority: Priority::ALL[*class],
                    since: now,
                    last_served: 0,
                });
                next_id += 1;
            }
            for batch in &mut queue {
                batch.last_served = numbers[&batch.project_id];
            }
            now += SignedDuration::from_mins(5);
        }
        prop_assert!(false, "it still waits");
    }
}

#[test]
fn round_robin_between_projects_and_a_raise_takes_an_hour() {
    use Priority::{High, Low, Normal};
    let queue = [
        batch(1, 1, Normal, 0, 5),
        batch(2, 1, Normal, 1, 5),
        batch(3, 2, Normal, 2, 6),
        batch(4, 3, High, 3, 7),
        batch(5, 4, Low, 0, 1),
    ];
    let names = |now: i64| -> Vec<u128> {
        order(&queue, at(now))
            .into_iter()
            .map(|place| queue[place].id.as_u128())
            .collect()
    };
    assert_eq!(names(10), [4, 1, 3, 2, 5]);
    // after an hour the low one is normal, and those that were normal are high
    assert_eq!(names(3610), [1, 3, 4, 2, 5]);
    // after two all are high
    assert_eq!(names(7210), [5, 1, 3, 4, 2]);
}
