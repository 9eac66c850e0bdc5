//! One history of two lists: what the ledger has of a node, and what inventory itself has, merged page by page.
use serde::{Deserialize, Serialize};

/// When an entry was made: seconds and nanoseconds.
pub type Moment = (i64, i32);

/// Up to where a reader has read each list; an empty token: from its beginning on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Positions {
    pub own: String,
    pub ledger: String,
    /// Of the last entry of the page before. A token of the release before has none.
    #[serde(default)]
    pub last: Option<Moment>,
}

impl Positions {
    /// Of the entries that come after these positions those that belong there. A list of which no page had an entry yet is read
    /// from its beginning: when the newest come first, what is newer than the last entry of the page before is new since then.
    pub fn without_new<T>(
        &self,
        entries: impl Iterator<Item = Entry<T>>,
        descending: bool,
    ) -> impl Iterator<Item = Entry<T>> {
        let last = self.last.filter(|_| descending);
        entries.filter(move |entry| last.is_none_or(|last| entry.at <= Some(last)))
    }
}

/// An entry of one of the lists.
#[derive(Debug, Clone)]
pub struct Entry<T> {
    pub at: Option<Moment>,
    /// Of the page of its list that begins after it.
    pub token: String,
    pub of_ledger: bool,
    pub content: T,
}

/// A page of at most `size` entries of the first pages of both lists after `after`, each of that size and in order; and where
/// the next page begins. `more`: one of the lists has more than its page.
pub fn page<T>(
    mut entries: Vec<Entry<T>>,
    after: Positions,
    (size, descending, more): (usize, bool, bool),
) -> (Vec<T>, Option<Positions>) {
    // of one moment: inventory's own first, in either order
    entries.sort_by_key(|entry| entry.of_ledger);
    match descending {
        true => entries.sort_by_key(|entry| std::cmp::Reverse(entry.at)),
        false => entries.sort_by_key(|entry| entry.at),
    }
    // a ledger of the release before says no tokens, and has one page
    let is_last =
        !more && entries.len() <= size || entries.iter().any(|entry| entry.token.is_empty());
    entries.truncate(size);
    let mut next = after;
    for entry in &entries {
        next.last = entry.at;
        match entry.of_ledger {
            true => next.ledger.clone_from(&entry.token),
            false => next.own.clone_from(&entry.token),
        }
    }
    let entries = entries.into_iter().map(|entry| entry.content).collect();
    (entries, (!is_last).then_some(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of a list of these times, as a store answers it; its tokens are places in it.
    fn read(times: &[i64], of_ledger: bool, after: &str, size: usize) -> (Vec<Entry<i64>>, bool) {
        let begin = after.parse().unwrap_or(0);
        let entries = times.iter().enumerate().skip(begin).take(size);
        let entries = entries.map(|(place, at)| Entry {
            at: Some((*at, 0)),
            token: (place + 1).to_string(),
            of_ledger,
            content: at * 10 + i64::from(of_ledger),
        });
        (entries.collect(), times.len() > begin + size)
    }

    #[test]
    fn pages_of_any_size_have_each_entry_once_and_in_order() {
        for (own, ledger) in [
            (vec![9, 5, 5, 1], vec![8, 7, 5, 5, 5, 2]),
            (vec![], vec![3, 2, 1]),
            (vec![3, 2, 1], vec![]),
            (vec![], vec![]),
            (vec![4, 4, 4], vec![4, 4, 4]),
        ] {
            for descending in [true, false] {
                let ordered = |times: &[i64]| {
                    let mut times = times.to_vec();
                    if !descending {
                        times.reverse();
                    }
                    times
                };
                let (own, ledger) = (ordered(&own), ordered(&ledger));
                let mut all: Vec<(i64, i64)> = own.iter().map(|at| (*at, at * 10)).collect();
                all.extend(ledger.iter().map(|at| (*at, at * 10 + 1)));
                match descending {
                    true => all.sort_by_key(|(at, _)| -at),
                    false => all.sort_by_key(|(at, _)| *at),
                }
                let all: Vec<i64> = all.into_iter().map(|(_, content)| content).collect();
                for size in 1..=all.len() + 1 {
                    let (mut found, mut after) = (Vec::new(), Some(Positions::default()));
                    while let Some(positions) = after {
                        let (mut entries, more) = read(&own, false, &positions.own, size);
                        let of_ledger = read(&ledger, true, &positions.ledger, size);
                        entries.extend(of_ledger.0);
                        let how = (size, descending, more || of_ledger.1);
                        let (page, next) = super::page(entries, positions, how);
                        assert!(next.is_none() || page.len() == size, "{page:?} of {size}");
                        found.extend(page);
                        after = next;
                    }
                    assert_eq!(found, all, "{own:?} {ledger:?} in pages of {size}");
                }
            }
        }
    }

    /// A new entry of a list that no page has shown yet is on none of the later ones.
    #[test]
    fn what_is_new_since_the_first_page_is_on_no_later_one() {
        let (own, mut ledger) = (vec![9, 8, 3], vec![5, 4, 1]);
        let whole = [90, 80, 51, 41, 30, 11];
        for size in 1..whole.len() {
            let (mut found, mut after) = (Vec::new(), Some(Positions::default()));
            while let Some(positions) = after {
                // as many as there may be new ones
                let (own, _) = read(&own, false, &positions.own, 10);
                let (of_ledger, _) = read(&ledger, true, &positions.ledger, 10);
                let both = own.into_iter().chain(of_ledger);
                let entries: Vec<_> = positions.without_new(both, true).collect();
                let (page, next) = page(entries, positions, (size, true, false));
                found.extend(page);
                after = next;
                if ledger.len() == 3 && found.len() < 3 {
                    ledger = vec![11, 10, 5, 4, 1];
                }
            }
            assert_eq!(found, whole, "in pages of {size}");
            ledger = vec![5, 4, 1];
        }
        // the oldest first, what is new comes last
        let last = Some((5, 0));
        let positions = Positions {
            last,
            ..Positions::default()
        };
        let (entries, _) = read(&[6, 5, 4], true, "", 3);
        assert_eq!(positions.without_new(entries.into_iter(), false).count(), 3);
    }

    #[test]
    fn a_ledger_without_tokens_is_not_read_for_ever() {
        let (mut entries, _) = read(&[3, 2], true, "", 1);
        entries[0].token = String::new();
        let (page, next) = page(entries, Positions::default(), (1, true, true));
        assert_eq!((page, next), (vec![31], None));
    }
}
