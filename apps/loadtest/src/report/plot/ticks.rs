//! Round numbers for an axis.

/// Returns the marks of an axis from zero to at least `max`: about four, at multiples of 1, 2 or 5 times a power of ten.
pub(super) fn round_ticks(max: f64) -> Vec<f64> {
    let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
    let raw = max / 4.0;
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= raw * 0.999);
    let step = factor.unwrap_or(10.0) * power;
    let count = (max / step * 0.999).ceil() as u32;
    (0..=count).map(|at| f64::from(at) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_ticks_are_round_and_reach_the_largest_value() {
        assert_eq!(round_ticks(100.0), [0.0, 50.0, 100.0]);
        assert_eq!(round_ticks(7.0), [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(round_ticks(4.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        for max in [0.0, -1.0, f64::NAN, 1e-9, 3.0, 1234.5, 9.99e12] {
            let ticks = round_ticks(max);
            assert!((3..=6).contains(&ticks.len()), "{max}: {ticks:?}");
            assert!(max.is_nan() || *ticks.last().unwrap() >= max * 0.998, "{max}: {ticks:?}");
        }
    }
}
