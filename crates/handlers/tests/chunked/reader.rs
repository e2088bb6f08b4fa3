//! Blocking readers on an executor of their own.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use waterwheel_channel::FileRegion;
use waterwheel_executor::{EventExecutorGroup, ManualExecutor};
use waterwheel_handlers::{ChunkedMessage, ReaderChunks};

use crate::support::{Bench, bench, failure, is_written};

/// Reads what the test sends, and logs what happens to it.
struct ScriptedReader {
    script: Receiver<io::Result<&'static str>>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Read for ScriptedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let text = self.script.try_recv().unwrap_or(Ok(""))?;
        assert!(text != "panic", "the reader is broken");
        self.log.lock().unwrap().push(format!("read {text}"));
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        Ok(text.len())
    }
}

impl Drop for ScriptedReader {
    fn drop(&mut self) {
        self.log.lock().unwrap().push("dropped".into());
    }
}

struct ReaderBench {
    bench: Bench,
    executor: ManualExecutor,
    script: Sender<io::Result<&'static str>>,
    log: Arc<Mutex<Vec<String>>>,
}

/// A channel that sends what a reader on a manual executor returns: first these texts.
fn reading(texts: &[&'static str]) -> (ReaderBench, waterwheel_channel::ChannelFuture) {
    let (mut bench, executor) = (bench(), ManualExecutor::new());
    let (script, receiver) = channel();
    texts.iter().for_each(|text| script.send(Ok(*text)).unwrap());
    let log = Arc::new(Mutex::new(Vec::new()));
    let reader = ScriptedReader { script: receiver, log: log.clone() };
    let chunks = ReaderChunks::on(executor.executor(), reader).chunk_size(16).unwrap();
    let future = bench.write_outbound(ChunkedMessage::new(chunks));
    (ReaderBench { bench, executor, script, log }, future)
}

impl ReaderBench {
    /// Runs one read, then the loop.
    fn read_once(&mut self) {
        self.executor.run_now();
        self.bench.run();
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

#[test]
fn k11_a_reader_is_read_on_its_executor_one_chunk_ahead() {
    let (mut it, mut future) = reading(&["one ", "two ", "three"]);
    assert_eq!((it.log(), it.bench.sent().as_str()), (vec![], ""));
    it.bench.set_room(0);
    it.read_once();
    assert_eq!(it.log(), ["read one "]);
    it.read_once();
    assert_eq!(it.log(), ["read two "], "while the first is not sent");
    it.bench.set_room(usize::MAX);
    it.bench.run();
    assert_eq!(it.bench.sent(), "one two ");
    for _ in 0..4 {
        it.read_once();
    }
    assert_eq!(it.log(), ["read three", "read ", "dropped"]);
    assert_eq!(it.bench.sent(), "three");
    assert!(is_written(&mut future));
}

#[test]
fn k11_a_reader_is_not_read_further_while_the_channel_is_not_writable() {
    let (mut it, _future) = reading(&["0123456789abcdef"; 10_000]);
    it.bench.set_room(0);
    for _ in 0..1000 {
        it.read_once();
    }
    // 256 chunks in flight, and one ahead.
    assert_eq!(it.log().len(), 257);
}

#[test]
fn k11_an_error_of_the_reader_fails_the_write() {
    let (mut it, future) = reading(&[]);
    it.script.send(Err(io::Error::from(io::ErrorKind::Interrupted))).unwrap();
    it.script.send(Err(io::Error::other("bad sector"))).unwrap();
    it.read_once();
    assert_eq!(
        failure(future),
        "the source of a chunked write failed after 0 chunks: bad sector",
        "an interrupted read is repeated"
    );
    assert!(it.bench.channel().is_open());
    assert_eq!(it.log(), ["dropped"]);
}

#[test]
fn k11_a_panic_of_the_reader_fails_the_write() {
    let (mut it, future) = reading(&["half", "panic"]);
    it.read_once();
    it.read_once();
    let error = failure(future);
    assert!(error.contains("the reader panicked, or the executor"), "{error}");
    assert!(!it.bench.channel().is_open(), "half of the message was sent");
    assert_eq!(it.log(), ["read half", "dropped"]);
}

#[test]
fn k11_an_executor_that_has_ended_fails_the_write() {
    let (mut it, future) = reading(&["one", "two"]);
    drop(std::mem::take(&mut it.executor)); // Runs what it has accepted: the first read.
    it.bench.run();
    let error = failure(future);
    assert!(error.contains("failed after 1 chunks: task rejected"), "{error}");
    assert_eq!(it.log(), ["read one", "dropped"]);
}

#[test]
fn k11_a_cancelled_reader_is_dropped_on_its_executor() {
    let (mut it, future) = reading(&["one"]);
    it.read_once();
    it.executor.run_now(); // A chunk is read ahead: the end.
    assert_eq!(it.log(), ["read one", "read ", "dropped"]);
    drop(future);

    // Idle in the state, or busy on the executor.
    for reads in 0..3 {
        let (mut it, future) = reading(&["one", "two", "three", "four"]);
        it.bench.set_room(0);
        (0..reads).for_each(|_| it.read_once());
        it.log();
        future.cancel();
        it.bench.run();
        assert_eq!(it.log(), Vec::<String>::new(), "not on the loop");
        it.executor.run_now();
        it.executor.run_now();
        assert_eq!(it.log().last().map(String::as_str), Some("dropped"));
    }
}

/// Returns the thread that it is read on, once.
struct ThreadProbe(Sender<ThreadId>);

impl Read for ThreadProbe {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.send(thread::current().id()).unwrap();
        Ok(0)
    }
}

#[test]
fn k11_readers_and_copied_files_run_on_a_thread_of_the_group() {
    let group = EventExecutorGroup::builder().threads(1).build().unwrap();
    let (sender, threads) = channel();
    let mut bench = bench();
    let message = ChunkedMessage::new(ReaderChunks::new(&group, ThreadProbe(sender)));
    let mut future = bench.write_outbound(message);
    assert_ne!(threads.recv().unwrap(), thread::current().id());
    // The wake is sent after the read: a second read of the group's only thread is behind it.
    group.submit(|| ()).unwrap().join().unwrap();
    bench.run();
    assert!(is_written(&mut future));

    let region = FileRegion::new(std::fs::File::open("Cargo.toml").unwrap(), 5..50).unwrap();
    let expected = std::fs::read_to_string("Cargo.toml").unwrap()[5..50].to_owned();
    let chunks = ReaderChunks::of_file(&group, region).chunk_size(20).unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let log = steps.clone();
    let message = ChunkedMessage::new(chunks)
        .on_progress(move |now| log.lock().unwrap().push((now.bytes, now.total_bytes)));
    let mut future = bench.write_outbound(message);
    while !is_written(&mut future) {
        group.submit(|| ()).unwrap().join().unwrap();
        bench.run();
    }
    assert_eq!(bench.sent(), expected);
    assert_eq!(*steps.lock().unwrap(), [(20, Some(45)), (40, Some(45)), (45, Some(45))]);
}
