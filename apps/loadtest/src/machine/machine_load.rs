//! The CPU time of the whole machine: what others use meanwhile is missing in the figures.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// The fields of the line `cpu` in /proc/stat that are no work: idle and iowait. The last two, guests, are counted as user time
/// already.
const IDLE_FIELDS: std::ops::RangeInclusive<usize> = 3..=4;

/// Fields that count: up to steal.
const FIELDS: usize = 8;

/// Returns the CPU time that was used on all cores since the start of the machine; `None` if it cannot be read.
pub(crate) fn busy_time() -> Option<Duration> {
    let ticks = parse_busy(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

fn parse_busy(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields = line.split_whitespace().take(FIELDS).enumerate();
    let busy = fields.filter(|(at, _)| !IDLE_FIELDS.contains(at));
    busy.map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_the_machine_is_busy_with_all_but_idle_time() {
        let stat = "cpu  100 20 30 9000 800 4 5 6 70 80\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_busy(stat), Some(165));
        assert_eq!((parse_busy("intr 1"), parse_busy("cpu  1 x")), (None, None));
        assert!(busy_time().is_some_and(|time| !time.is_zero()));
    }
}
