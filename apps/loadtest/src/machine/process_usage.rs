//! `ProcessUsage`: memory and CPU time of processes, from /proc.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

use crate::error::LoadError;

/// The memory and the CPU time of one process, or the sum of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProcessUsage {
    /// Resident memory. Without memory of the kernel, such as buffers of sockets.
    pub(crate) memory_kib: u64,
    /// CPU time of all threads, in user and kernel mode.
    pub(crate) cpu: Duration,
}

impl ProcessUsage {
    /// Reads the usage of these processes.
    pub(crate) fn of(pids: &[u32]) -> Result<Self, LoadError> {
        pids.iter().try_fold(Self::default(), |sum, pid| {
            let one = Self::of_one(*pid)?;
            Ok(Self { memory_kib: sum.memory_kib + one.memory_kib, cpu: sum.cpu + one.cpu })
        })
    }

    /// Reads the usage of this process.
    pub(crate) fn of_self() -> Result<Self, LoadError> {
        Self::of_one(std::process::id())
    }

    /// Returns the CPU time since `earlier` in percent of one core, over this time.
    pub(crate) fn cpu_percent_since(self, earlier: Self, time: Duration) -> f64 {
        let used = self.cpu.saturating_sub(earlier.cpu);
        100.0 * used.as_secs_f64() / time.as_secs_f64().max(1e-9)
    }

    fn of_one(pid: u32) -> Result<Self, LoadError> {
        let failed = |reason: String| LoadError::Process { pid, reason };
        let file = |name: &str| {
            let path = format!("/proc/{pid}/{name}");
            fs::read_to_string(&path).map_err(|error| failed(format!("{path}: {error}")))
        };
        let memory_kib = parse_memory(&file("status")?)
            .ok_or_else(|| failed(String::from("its status has no VmRSS")))?;
        let ticks = parse_ticks(&file("stat")?)
            .ok_or_else(|| failed(String::from("its stat has no CPU times")))?;
        let cpu = Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64);
        Ok(Self { memory_kib, cpu })
    }
}

/// Returns the field VmRSS of /proc/PID/status, in KiB.
fn parse_memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the sum of utime and stime of /proc/PID/stat. The name of the program, in parentheses, may have spaces.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<u64>().ok()? + system.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g09_memory_and_cpu_time_are_read_from_proc() {
        let status = "Name:\tgateway\nVmRSS:\t  9000 kB\nRssAnon:\t    1234 kB\n";
        assert_eq!(parse_memory(status), Some(9000));
        let stat = "77 (a (b) c) S 1 77 77 0 -1 4194560 105 0 0 0 250 50 0 0 20 0 3 0 100 1 2";
        assert_eq!(parse_ticks(stat), Some(300));
        assert_eq!((parse_memory(""), parse_ticks("77")), (None, None));
        assert!(ProcessUsage::of_self().unwrap().memory_kib > 0);
        let error = ProcessUsage::of(&[u32::MAX]).unwrap_err().to_string();
        assert!(error.contains("4294967295 cannot be observed"), "{error}");
    }

    #[test]
    fn g09_cpu_is_a_share_of_one_core() {
        let used = |millis| ProcessUsage { memory_kib: 0, cpu: Duration::from_millis(millis) };
        assert_eq!(used(1500).cpu_percent_since(used(500), Duration::from_secs(10)), 10.0);
    }
}
