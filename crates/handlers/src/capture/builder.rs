//! The builder of a capture file: its limits, its writer, its clock.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use waterwheel_executor::{Clock, Error, EventExecutor};

use super::capture_file::{CaptureFile, CaptureParts};
use super::error::CaptureError;
use super::output::CaptureOutput;
use super::pcap_format::file_header;
use super::record_queue::{CaptureLimits, RecordQueue};

/// Bytes of a packet that are kept by default: all of them.
pub const DEFAULT_SNAP_LEN: usize = 256 * 1024;

/// Bytes that may wait to be written by default: 8 MiB.
pub const DEFAULT_QUEUE_BYTES: usize = 8 << 20;

/// The length of a file by default: 1 GiB.
pub const DEFAULT_FILE_BYTES: u64 = 1 << 30;

/// The smallest queue, and the smallest file: room for the longest packet with its header, and for a note.
const MIN_ROOM: usize = 128 * 1024;

/// Builds a [`CaptureFile`].
#[must_use]
#[derive(Clone, Debug)]
pub struct CaptureFileBuilder {
    snap_len: usize,
    queue_bytes: usize,
    file_bytes: u64,
    executor: Option<EventExecutor>,
    time_origin: Option<SystemTime>,
}

impl CaptureFileBuilder {
    pub(super) fn new() -> Self {
        Self {
            snap_len: DEFAULT_SNAP_LEN,
            queue_bytes: DEFAULT_QUEUE_BYTES,
            file_bytes: DEFAULT_FILE_BYTES,
            executor: None,
            time_origin: None,
        }
    }

    /// Limits the bytes that are kept of each packet, headers included. Default: all of them.
    pub fn snap_len(mut self, bytes: usize) -> Self {
        self.snap_len = bytes;
        self
    }

    /// Limits the bytes that wait to be written; packets without room are dropped and counted. At least 128 KiB.
    /// Default: [`DEFAULT_QUEUE_BYTES`].
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// Limits the length of the file; the capture stops before it is exceeded. At least 128 KiB. Default:
    /// [`DEFAULT_FILE_BYTES`].
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = bytes;
        self
    }

    /// Sets the executor that writes the file. It should not be an event loop, which would wait for the disk. Default: an
    /// executor of its own, `capture`, whose thread starts with the first packet.
    pub fn executor(mut self, executor: &EventExecutor) -> Self {
        self.executor = Some(executor.clone());
        self
    }

    /// Sets the time of day at which the clock of the loops showed zero: for tests with a virtual clock. Default:
    /// computed from the time of day and the monotonic clock when the file is created. Later changes of the time of day
    /// (NTP, an administrator) do not show in the timestamps.
    pub fn time_origin(mut self, origin: SystemTime) -> Self {
        self.time_origin = Some(origin);
        self
    }

    /// Creates a file: see [`CaptureFile::create`].
    ///
    /// # Errors
    /// [`CaptureError::Create`] if the file cannot be created, [`CaptureError::Write`] if its header cannot be written,
    /// [`CaptureError::Limit`] if a limit is too small.
    pub fn create(self, path: impl AsRef<Path>) -> Result<CaptureFile, CaptureError> {
        self.check()?;
        let path = path.as_ref();
        match create_private(path) {
            Ok(file) => self.build(path.display().to_string(), CaptureOutput::File(file)),
            Err(source) => Err(CaptureError::Create { path: path.to_owned(), source }),
        }
    }

    /// Writes the capture to `writer` instead of a file: to memory, to a pipe, compressed. The writer is called on the
    /// executor of the capture; it may block.
    ///
    /// # Errors
    /// [`CaptureError::Write`] if the header of the file cannot be written, [`CaptureError::Limit`] if a limit is too
    /// small.
    pub fn write_to(
        self,
        writer: impl Write + Send + 'static,
    ) -> Result<CaptureFile, CaptureError> {
        self.check()?;
        self.build(String::from("a writer"), CaptureOutput::Writer(Box::new(writer)))
    }

    fn check(&self) -> Result<(), CaptureError> {
        let limits = [
            ("snap_len", self.snap_len as u64, 1),
            ("queue_bytes", self.queue_bytes as u64, MIN_ROOM as u64),
            ("max_file_bytes", self.file_bytes, MIN_ROOM as u64),
        ];
        match limits.into_iter().find(|(_, value, min)| value < min) {
            Some((limit, value, min)) => Err(CaptureError::Limit { limit, value, min }),
            None => Ok(()),
        }
    }

    fn build(self, name: String, mut output: CaptureOutput) -> Result<CaptureFile, CaptureError> {
        let Self { snap_len, queue_bytes, file_bytes, executor, time_origin } = self;
        let header = file_header(u32::try_from(snap_len).unwrap_or(u32::MAX));
        if let Err(source) = output.write_records(&header, 0).and_then(|()| output.flush()) {
            return Err(CaptureError::Write { name, source });
        }
        let executor = match executor
            .map_or_else(|| EventExecutor::builder().name("capture").build(), Ok)
        {
            Ok(executor) => executor,
            Err(error) => return Err(CaptureError::Executor { name, source: Error::new(error) }),
        };
        let time_origin = time_origin.unwrap_or_else(monotonic_origin);
        let origin = time_origin.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let queue = RecordQueue::new(CaptureLimits { snap_len, queue_bytes, file_bytes });
        Ok(CaptureFile::new(CaptureParts { name, output, queue, executor, origin }))
    }
}

/// Creates a file, or empties an existing one, that its owner alone may read. Pipes and devices stay as they are.
fn create_private(path: &Path) -> io::Result<File> {
    const OWNER_ONLY: u32 = 0o600;
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path)?;
    // The mode above is that of a new file.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
    }
    Ok(file)
}

/// Returns the time of day at which the monotonic clock showed zero.
#[expect(
    clippy::disallowed_methods,
    reason = "timestamps of a capture are times of day; read once, and never to measure"
)]
fn monotonic_origin() -> SystemTime {
    let uptime = Duration::from_nanos(Clock::Monotonic.now().0);
    SystemTime::now().checked_sub(uptime).unwrap_or(SystemTime::UNIX_EPOCH)
}
