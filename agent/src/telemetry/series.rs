//! What was measured of one VM, in memory and bounded: an hour as it was measured, a day as the mean of each minute.
use std::collections::{BTreeMap, VecDeque};

use gpuaas_proto::gpuaas::common::v1::VmMetric;

/// What is kept as it was measured, in milliseconds.
pub(super) const FINE_MS: i64 = 3600 * 1000;
/// What is kept as means, in milliseconds.
const COARSE_MS: i64 = 24 * 3600 * 1000;
/// Length of a mean.
const MINUTE_MS: i64 = 60 * 1000;
/// Most values that are kept as they were measured, however short the pause between two is.
const MOST_FINE: usize = 720;

/// What is measured, and of which GPU.
pub type Key = (VmMetric, Option<u32>);

/// A value at a time in milliseconds since 1970.
pub type Point = (i64, f64);

/// One metric over time.
#[derive(Debug, Default)]
struct Series {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    /// The minute that is under way: its start, sum and count.
    minute: Option<(i64, f64, u32)>,
}

/// All metrics of a VM.
#[derive(Debug, Default)]
pub struct VmSeries(BTreeMap<(i32, Option<u32>), Series>);

impl VmSeries {
    /// Adds a value. One that is no number, or older than the last, is left out: a clock that was set back leaves a gap.
    pub fn add(&mut self, (metric, gpu): Key, (at_ms, value): Point) {
        if !value.is_finite() {
            return;
        }
        let series = self.0.entry((metric.into(), gpu)).or_default();
        if series.fine.back().is_none_or(|(last, _)| *last < at_ms) {
            series.add(at_ms, value);
        }
    }

    /// Forgets what is too old, and metrics of which nothing is left.
    pub fn forget(&mut self, now_ms: i64) {
        self.0.retain(|_, series| {
            series.forget(now_ms);
            !(series.fine.is_empty() && series.coarse.is_empty() && series.minute.is_none())
        });
    }

    /// The means of the steps from `start_ms` to before `end_ms`, by metric and GPU; without metrics that have none.
    pub fn read(&self, start_ms: i64, end_ms: i64, step_ms: i64) -> Vec<(Key, Vec<Point>)> {
        let read = |(&(metric, gpu), series): (&(i32, Option<u32>), &Series)| {
            let metric = VmMetric::try_from(metric).ok()?;
            let points = means(series.all(), start_ms, end_ms, step_ms.max(1));
            (!points.is_empty()).then_some(((metric, gpu), points))
        };
        self.0.iter().filter_map(read).collect()
    }

    /// Values that are held, for the bound of memory.
    #[cfg(test)]
    fn held(&self) -> usize {
        let of = |series: &Series| series.fine.len() + series.coarse.len();
        self.0.values().map(of).sum()
    }
}

impl Series {
    fn add(&mut self, at_ms: i64, value: f64) {
        self.fine.push_back((at_ms, value));
        if self.fine.len() > MOST_FINE {
            self.fine.pop_front();
        }
        let start = at_ms.div_euclid(MINUTE_MS) * MINUTE_MS;
        match &mut self.minute {
            Some((minute, sum, count)) if *minute == start => {
                *sum += value;
                *count += 1;
            }
            under_way => {
                let ended = under_way.replace((start, value, 1));
                self.coarse.extend(ended.map(mean));
            }
        }
        self.forget(at_ms);
    }

    fn forget(&mut self, now_ms: i64) {
        let is_old = |point: Option<&Point>, kept: i64| {
            point.is_some_and(|(at_ms, _)| *at_ms < now_ms.saturating_sub(kept))
        };
        while is_old(self.fine.front(), FINE_MS) {
            self.fine.pop_front();
        }
        while is_old(self.coarse.front(), COARSE_MS) {
            self.coarse.pop_front();
        }
        // a clock that was ahead would keep every later value out
        let latest = now_ms.saturating_add(MINUTE_MS);
        self.fine.retain(|(at_ms, _)| *at_ms <= latest);
        self.coarse.retain(|(at_ms, _)| *at_ms <= latest);
        self.minute = self
            .minute
            .filter(|(start, ..)| (now_ms.saturating_sub(COARSE_MS)..=latest).contains(start));
    }

    /// Everything, oldest first: means of the minutes before those that are there as they were measured.
    fn all(&self) -> impl Iterator<Item = Point> {
        let first = self.fine.front().map_or(i64::MAX, |(at_ms, _)| *at_ms);
        let older = self.coarse.iter().copied();
        let older = older.chain(self.minute.filter(|_| self.fine.is_empty()).map(mean));
        older
            .take_while(move |(at_ms, _)| at_ms.saturating_add(MINUTE_MS) <= first)
            .chain(self.fine.iter().copied())
    }
}

fn mean((start, sum, count): (i64, f64, u32)) -> Point {
    (start, sum / f64::from(count.max(1)))
}

fn means(
    points: impl Iterator<Item = Point>,
    start_ms: i64,
    end_ms: i64,
    step_ms: i64,
) -> Vec<Point> {
    let mut steps: Vec<(i64, f64, u32)> = Vec::new();
    let first = start_ms.div_euclid(step_ms) * step_ms;
    for (at_ms, value) in points.filter(|(at_ms, _)| (first..end_ms).contains(at_ms)) {
        let step = at_ms.div_euclid(step_ms) * step_ms;
        match steps.last_mut().filter(|(start, ..)| *start == step) {
            Some((_, sum, count)) => {
                *sum += value;
                *count += 1;
            }
            None => steps.push((step, value, 1)),
        }
    }
    steps.into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Key = (VmMetric::CpuPercent, None);
    /// A full minute.
    const START: i64 = 1_800_000_000_000;
    const STEP: i64 = 15_000;

    fn of_cpu(series: &VmSeries, start: i64, end: i64, step: i64) -> Vec<Point> {
        let mut read = series.read(start, end, step);
        assert!(read.len() <= 1, "{read:?}");
        read.pop().map(|(_, points)| points).unwrap_or_default()
    }

    #[test]
    fn d_90_a_step_is_the_mean_of_what_was_measured_in_it() {
        let mut series = VmSeries::default();
        for (at, value) in [(0, 1.0), (15, 3.0), (60, 5.0), (180, 7.0)] {
            series.add(CPU, (START + at * 1000, value));
        }
        let read = of_cpu(&series, START, START + 240_000, 60_000);
        let expected = [(START, 2.0), (START + 60_000, 5.0), (START + 180_000, 7.0)];
        assert_eq!(read, expected, "a step without a measurement has none");
        // the end is not in it, the step of the start is
        let read = of_cpu(&series, START + 70_000, START + 180_000, 60_000);
        assert_eq!(read, [(START + 60_000, 5.0)]);
        assert_eq!(of_cpu(&series, START - 10, START, 1), []);
    }

    #[test]
    fn d_90_an_hour_is_kept_as_it_was_measured_and_a_day_by_the_minute() {
        let mut series = VmSeries::default();
        let days = 3;
        let end = START + days * COARSE_MS;
        let mut most = 0;
        for at in (START..end).step_by(usize::try_from(STEP).unwrap()) {
            series.add(CPU, (at, 10.0));
            most = most.max(series.held());
        }
        assert!(most <= 240 + 1 + 1440 + 1, "{most} values are held");
        let fine = of_cpu(&series, end - FINE_MS, end, STEP);
        assert_eq!(fine.len(), 240);
        let all = of_cpu(&series, START, end, MINUTE_MS);
        assert!((1439..=1441).contains(&all.len()), "{}", all.len());
        assert!(all.iter().all(|(_, value)| *value == 10.0));
        let times: Vec<i64> = all.iter().map(|(at, _)| *at).collect();
        assert!(times.windows(2).all(|pair| pair[0] + MINUTE_MS == pair[1]));
        // a VM that stopped has its day, and then nothing
        series.forget(end + FINE_MS + STEP);
        assert!(!of_cpu(&series, START, end, MINUTE_MS).is_empty());
        series.forget(end + COARSE_MS + MINUTE_MS);
        assert_eq!(series.held(), 0);
        assert!(series.0.is_empty());
    }

    #[test]
    fn d_90_what_is_measured_more_often_takes_no_more_memory() {
        let mut series = VmSeries::default();
        for number in 0..10_000 {
            series.add(CPU, (START + number * 100, 1.0));
        }
        assert!(series.held() <= MOST_FINE + 17, "{}", series.held());
    }

    #[test]
    fn d_90_a_clock_that_is_set_back_and_what_is_no_number_leave_gaps() {
        let mut series = VmSeries::default();
        series.add(CPU, (START + 1000, 1.0));
        series.add(CPU, (START, 2.0));
        series.add(CPU, (START + 2000, f64::NAN));
        series.add(CPU, (START + 3000, f64::INFINITY));
        let read = of_cpu(&series, START, START + 9000, 1000);
        assert_eq!(read, [(START + 1000, 1.0)]);
    }
}
