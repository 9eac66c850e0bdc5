//! Pauses between attempts.
use std::time::Duration;

/// `first`, doubled with every further one, at most `longest`: as many as are wanted.
pub fn pauses(first: Duration, longest: Duration) -> impl Iterator<Item = Duration> {
    std::iter::successors(Some(first), move |pause| Some((*pause * 2).min(longest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_until_the_longest() {
        let pauses = pauses(Duration::from_millis(500), Duration::from_secs(3)).take(5);
        let all: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
        assert_eq!(all, [500, 1000, 2000, 3000, 3000]);
    }
}
