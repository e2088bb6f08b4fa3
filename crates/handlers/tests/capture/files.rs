//! The file: flush, close, errors, and channels on several threads.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_executor::EventExecutor;
use waterwheel_handlers::{Capture, CaptureError, CaptureFile, CapturePhase};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::Log;

use crate::support::{MemoryWriter, builder, read_pcap, stream};

const LOCAL: &str = "192.0.2.1:4000";
const PEER: &str = "192.0.2.7:80";

/// Limit of every wait: far longer than a busy machine needs.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

#[test]
fn k06_a_flush_writes_everything_that_was_recorded_before_it() {
    let memory = MemoryWriter::default();
    let file = builder().write_to(memory.clone()).unwrap();
    assert_eq!(memory.bytes().len(), 24, "the header is written at once");
    let mut channel = stream(&file, LOCAL, PEER);
    for round in 1..=20 {
        channel.write_inbound(Bytes::from_static(b"x"));
        file.flush().join().unwrap();
        assert_eq!(read_pcap(&memory.bytes()).len(), 3 + round);
    }
    assert_eq!(file.stats().phase, CapturePhase::Open);
}

#[test]
fn k06_after_a_close_nothing_is_recorded() {
    let memory = MemoryWriter::default();
    let file = builder().write_to(memory.clone()).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    let stats = file.close().join().unwrap();
    assert_eq!((stats.phase, stats.packets, stats.dropped), (CapturePhase::Closed, 3, 0));
    channel.write_inbound(Bytes::from_static(b"late"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "late");
    assert_eq!(file.close().join().unwrap(), stats, "again");
    file.flush().join().unwrap();
    assert_eq!(read_pcap(&memory.bytes()).len(), 3);
}

#[test]
fn k06_records_are_written_after_the_last_handle_was_dropped() {
    struct SignalsDrop(MemoryWriter, mpsc::Sender<Vec<u8>>);

    impl Write for SignalsDrop {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Drop for SignalsDrop {
        fn drop(&mut self) {
            self.1.send(self.0.bytes()).unwrap();
        }
    }

    let (sender, dropped) = mpsc::channel();
    let file = builder().write_to(SignalsDrop(MemoryWriter::default(), sender)).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    drop(file);
    for _ in 0..100 {
        channel.write_inbound(Bytes::from_static(b"x"));
    }
    channel.close();
    drop(channel);
    let bytes = dropped.recv_timeout(WAIT_LIMIT).unwrap();
    assert_eq!(read_pcap(&bytes).len(), 3 + 100 + 4);
}

/// Fails after this many bytes, like a disk that is full, and counts the calls after that.
struct FullDisk {
    room: usize,
    calls: Arc<AtomicUsize>,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room);
        self.room -= taken;
        if taken == 0 {
            self.calls.fetch_add(1, Ordering::Relaxed);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn k06_a_full_disk_ends_the_capture_and_is_reported_once_while_traffic_goes_on() {
    let (reports, calls) = (Log::new(), Arc::new(AtomicUsize::new(0)));
    let executor = EventExecutor::builder()
        .name("writer")
        .reporter(Arc::new(reports.clone()))
        .build()
        .unwrap();
    let disk = FullDisk { room: 200, calls: calls.clone() };
    let file = builder().executor(&executor).write_to(disk).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    let expected = "a writer cannot be written: no storage space";
    for _ in 0..3 {
        channel.write_inbound(Bytes::from(vec![b'x'; 1000]));
        assert_eq!(channel.read_inbound::<Bytes>().unwrap().len(), 1000);
        assert_eq!(file.flush().join().unwrap_err().to_string(), expected);
    }
    assert_eq!(file.stats().phase, CapturePhase::Failed);
    let error = file.close().join().unwrap_err();
    assert!(matches!(error.find(), Some(CaptureError::Write { .. })), "{error:?}");
    assert_eq!(file.stats().phase, CapturePhase::Failed);
    let report =
        format!("capture to a writer: {expected}; capture stops, channels are not affected");
    assert_eq!((reports.take(), calls.load(Ordering::Relaxed)), (vec![report], 1));
}

#[test]
fn k06_a_writer_that_panics_ends_the_capture_only() {
    struct Panics(bool);

    impl Write for Panics {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            assert!(!std::mem::replace(&mut self.0, true), "no more than the header");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let reports = Log::new();
    let executor = EventExecutor::builder().reporter(Arc::new(reports.clone())).build().unwrap();
    let file = builder().executor(&executor).write_to(Panics(false)).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    let error = file.flush().join().unwrap_err();
    assert!(matches!(error.find(), Some(CaptureError::WriterPanicked { .. })), "{error:?}");
    assert_eq!(file.stats().phase, CapturePhase::Failed);
    channel.write_inbound(Bytes::from_static(b"x"));
    assert!(channel.channel().is_open() && file.close().join().is_err());
    assert!(reports.take().iter().any(|report| report.contains("no more than the header")));
}

#[test]
fn k06_the_end_of_the_executor_ends_the_capture() {
    let executor = EventExecutor::builder().build().unwrap();
    let file = builder().executor(&executor).write_to(MemoryWriter::default()).unwrap();
    executor.shutdown().join().unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    channel.write_inbound(Bytes::from_static(b"x"));
    assert_eq!(channel.read_inbound::<Bytes>().unwrap(), "x");
    let error = file.close().join().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the executor that writes a writer is not available: task rejected: the executor is shut down"
    );
    assert_eq!(file.stats().phase, CapturePhase::Failed);
}

#[test]
fn k06_the_end_of_the_executor_after_a_close_is_no_failure() {
    let reports = Log::new();
    let executor = EventExecutor::builder().reporter(Arc::new(reports.clone())).build().unwrap();
    let file = builder().executor(&executor).write_to(MemoryWriter::default()).unwrap();
    drop(stream(&file, LOCAL, PEER));
    let stats = file.close().join().unwrap();
    executor.shutdown().join().unwrap();
    assert_eq!(file.close().join().unwrap(), stats);
    file.flush().join().unwrap();
    assert_eq!((file.stats(), reports.take()), (stats, vec![]));
}

#[test]
fn k06_a_file_that_cannot_be_created_or_written_is_an_error() {
    let error = CaptureFile::create("/nowhere/x.pcap").unwrap_err();
    let expected = "the capture file /nowhere/x.pcap cannot be created: ";
    assert!(error.to_string().starts_with(expected), "{error}");
    let error = CaptureFile::create("/dev/full").unwrap_err();
    assert!(error.to_string().starts_with("/dev/full cannot be written: "), "{error}");
    let wrong = [
        builder().snap_len(0).write_to(io::sink()),
        builder().queue_bytes(1000).write_to(io::sink()),
        builder().max_file_bytes(1000).create("/nowhere/x.pcap"),
    ];
    let texts = [
        "`snap_len` of a capture is 0, and must be at least 1",
        "`queue_bytes` of a capture is 1000, and must be at least 131072",
        "`max_file_bytes` of a capture is 1000, and must be at least 131072",
    ];
    assert_eq!(wrong.map(|wrong| wrong.unwrap_err().to_string()), texts);
}

#[test]
fn k06_a_file_is_readable_by_its_owner_only() {
    let path = std::env::temp_dir().join(format!("waterwheel-mode-{}.pcap", std::process::id()));
    let file = CaptureFile::create(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    file.close().join().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn k06_an_existing_file_that_everybody_may_read_is_closed_to_others() {
    let path = std::env::temp_dir().join(format!("waterwheel-open-{}.pcap", std::process::id()));
    std::fs::write(&path, "from before").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let file = CaptureFile::create(&path).unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    file.close().join().unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.len()), (0o600, 24));
}

/// Runs again in a process of its own, whose files cannot be longer than 100 KiB.
#[test]
fn k06_a_record_that_a_full_disk_has_cut_off_is_removed() {
    const LIMITED: &str = "WATERWHEEL_LIMITED_FILES";
    if std::env::var_os(LIMITED).is_none() {
        let limited = "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\"";
        let name = "files::k06_a_record_that_a_full_disk_has_cut_off_is_removed";
        let mut command = Command::new("bash");
        command.args(["-c", limited]).arg(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name, "--nocapture"]).env(LIMITED, "").output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}");
        return;
    }
    let path = std::env::temp_dir().join(format!("waterwheel-full-{}.pcap", std::process::id()));
    let file = builder().create(&path).unwrap();
    let mut channel = stream(&file, LOCAL, PEER);
    let mut whole = Vec::new();
    let error = loop {
        for len in [1_000, 7_000, 3_000] {
            channel.write_inbound(Bytes::from(vec![b'x'; len]));
        }
        match file.flush().join() {
            Ok(()) => whole = std::fs::read(&path).unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.find(), Some(CaptureError::Write { .. })), "{error:?}");
    let left = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    // A round has 11,168 bytes: nine fit, and the first record of the tenth.
    let (before, after) = (read_pcap(&whole), read_pcap(&left));
    assert_eq!((before.len(), after.len()), (3 + 9 * 3, 3 + 9 * 3 + 1));
    assert!(left.starts_with(&whole) && left.len() < 100 * 1024);
}

#[test]
fn k06_channels_on_several_threads_write_whole_records() {
    const THREADS: usize = 4;
    const MESSAGES: usize = 300;
    let memory = MemoryWriter::default();
    let file = builder().queue_bytes(64 << 20).write_to(memory.clone()).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                let mut channel = Embedded::builder()
                    .stream()
                    .build(|edit| {
                        edit.add_first("capture", Capture::stream(file))?;
                        Ok(())
                    })
                    .unwrap();
                for message in 0..MESSAGES {
                    channel.write_inbound(Bytes::from(vec![thread as u8; 1 + message % 700]));
                }
                channel.close();
            });
        }
    });
    let stats = file.close().join().unwrap();
    assert_eq!(stats.packets as usize, THREADS * (3 + MESSAGES + 4));
    let packets = read_pcap(&memory.bytes());
    for thread in 0..THREADS {
        let data = packets.iter().filter(|packet| packet.payload.first() == Some(&(thread as u8)));
        let lens: Vec<_> = data.map(|packet| packet.payload.len()).collect();
        assert!(lens.into_iter().eq((0..MESSAGES).map(|message| 1 + message % 700)));
    }
}
