//! `LatencyCurve`: the percentiles of times.

use hdrhistogram::Histogram;

use super::figure::{Figure, FigureUnit};

/// The percentiles that are figures of their own, with their keys and labels.
const NAMED: [(f64, &str, &str); 4] = [
    (0.5, "latency_p50_ns", "publish to receive, p50"),
    (0.9, "latency_p90_ns", "publish to receive, p90"),
    (0.99, "latency_p99_ns", "publish to receive, p99"),
    (0.999, "latency_p999_ns", "publish to receive, p99.9"),
];

/// The steps of the curve for each ten-fold of the distance to 100 %.
const STEPS: u32 = 6;

/// Times by the share of deliveries that took no longer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LatencyCurve {
    /// Shares of one, ascending, with the time in nanoseconds.
    pub(crate) points: Vec<(f64, u64)>,
    figures: Vec<Figure>,
}

impl LatencyCurve {
    /// Returns the curve of these times in nanoseconds, as far as their number tells it: the last share is that of the slowest
    /// but one.
    pub(crate) fn of(times: &Histogram<u64>) -> Self {
        if times.is_empty() {
            return Self::default();
        }
        let share = |step: u32| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(STEPS));
        let finest = 1.0 - 1.0 / times.len() as f64;
        let shares = (0..).map(share).take_while(|share| *share < finest);
        let mut points: Vec<_> =
            shares.map(|share| (share, times.value_at_quantile(share))).collect();
        points.push((finest, times.value_at_quantile(finest)));
        let figure = |key, label, nanos: u64| Figure {
            key,
            label,
            value: nanos as f64,
            unit: FigureUnit::Nanos,
        };
        let named = NAMED
            .iter()
            .map(|(share, key, label)| figure(key, label, times.value_at_quantile(*share)));
        let max = figure("latency_max_ns", "publish to receive, longest", times.max());
        Self { points, figures: named.chain([max]).collect() }
    }

    /// Returns the named percentiles and the longest time.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_the_curve_ends_where_the_samples_end() {
        let mut times = Histogram::<u64>::new(3).unwrap();
        assert_eq!(LatencyCurve::of(&times), LatencyCurve::default());
        (1..=1000).for_each(|time| times.record(time).unwrap());
        let curve = LatencyCurve::of(&times);
        assert_eq!(curve.points.first(), Some(&(0.0, 1)));
        assert_eq!(curve.points.last(), Some(&(0.999, 999)));
        assert!(curve.points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{:?}", curve.points);
        let named: Vec<_> = curve.figures().map(|figure| figure.value as u64).collect();
        assert_eq!(named, [500, 900, 990, 999, 1000]);
    }
}
