//! Conversions between ledger time, proto time and durations; the pause between two attempts.
use std::time::Duration;

use jiff::Timestamp;

/// A time as proto.
pub fn proto_time(at: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    }
}

/// A proto time; `None` when it is out of range.
pub fn from_proto_time(at: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(at.seconds, at.nanos).ok()
}

/// A duration as proto.
pub fn proto_duration(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos: length.subsec_nanos() as i32,
    }
}

/// A proto duration; negative ones are zero.
pub fn from_proto_duration(length: &prost_types::Duration) -> Duration {
    Duration::new(
        u64::try_from(length.seconds).unwrap_or(0),
        u32::try_from(length.nanos).unwrap_or(0),
    )
}

/// Pause after so many failures in a row: `first`, doubled with every further one, at most `longest`.
pub fn backoff(failures: u32, first: Duration, longest: Duration) -> Duration {
    let doublings = failures.saturating_sub(1);
    first
        .saturating_mul(2_u32.saturating_pow(doublings))
        .min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_both_ways() {
        let at = Timestamp::new(1_700_000_000, 123_456_789).expect("in range");
        assert_eq!(from_proto_time(&proto_time(at)), Some(at));
        assert_eq!(
            from_proto_duration(&proto_duration(Duration::from_millis(1500))),
            Duration::from_millis(1500)
        );
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pause =
            |failures| backoff(failures, Duration::from_millis(500), Duration::from_secs(5));
        let pauses = [0, 1, 2, 3, 4, 5, 100, u32::MAX].map(|failures| pause(failures).as_millis());
        assert_eq!(pauses, [500, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
    }
}
