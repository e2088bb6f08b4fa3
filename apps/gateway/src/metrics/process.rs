//! The process as the kernel sees it.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Figures of this process. A figure that the kernel does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessFigures {
    /// CPU time of all threads.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors (Linux 6.2 and later).
    pub open_descriptors: Option<u64>,
    /// The limit of file descriptors.
    pub max_descriptors: Option<u64>,
}

impl ProcessFigures {
    /// Reads the figures: four system calls on files of `/proc`, which do not wait for a disk.
    #[must_use]
    pub fn read() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        // The size of the directory; listing it would take milliseconds with 15,000 connections.
        let open = fs::metadata("/proc/self/fd").map_or(0, |directory| directory.len());
        Self {
            cpu: Duration::try_from(cpu).unwrap_or_default(),
            resident_bytes: resident_bytes(&status),
            open_descriptors: (open > 0).then_some(open),
            max_descriptors: getrlimit(Resource::Nofile).current,
        }
    }
}

/// Returns the time of day in seconds since 1970.
#[must_use]
pub fn unix_time() -> Duration {
    #[allow(clippy::disallowed_methods, reason = "the time of day, for monitoring; orders nothing")]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// Reads the line `VmRSS:     1234 kB` of `/proc/self/status`.
fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn g05_figures_of_the_process_are_those_of_the_kernel() {
        let before = ProcessFigures::read();
        assert!(before.cpu > Duration::ZERO);
        assert!(before.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{before:?}");
        assert!(before.max_descriptors.is_some_and(|max| max > 10), "{before:?}");
        if before.open_descriptors.is_some() {
            // Other tests open and close files meanwhile: five hundred are enough to tell.
            let files: Vec<_> = (0..500).map(|_| File::open("/dev/null").unwrap()).collect();
            assert!(ProcessFigures::read().open_descriptors.unwrap() > 500);
            drop(files);
        }
        assert_eq!(resident_bytes("VmRSS:\t    1234 kB\n"), Some(1_263_616));
        assert_eq!(resident_bytes("VmPeak: 1 kB\n"), None);
    }
}
