//! Chunked writes over TCP: flat memory, files sent by the kernel, blocking readers, peers that leave.

use std::io::{self, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use waterwheel::bytes::Bytes;
use waterwheel::channel::driver::{Driver, OpenDriver, OutQueue, Submit};
use waterwheel::channel::{
    Channel, Ctx, EventLoopGroup, FileRegion, Handler, HandlerResult, Msg, ServerBootstrap, Token,
};
use waterwheel::executor::EventExecutorGroup;
use waterwheel::handlers::{ChunkedMessage, ChunkedWriter, FileChunks, ReaderChunks};
use waterwheel::net::{Auto, Tcp};
use waterwheel_testkit::driver_wrapper::{DriverWrapper, WrappedDriver};
use waterwheel_testkit::temp_file::TempFile;

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;
#[path = "../support/program.rs"]
mod program;

use counting_allocator::process_bytes;
use program::{WAIT_LIMIT, connect};

/// Held by tests that measure the memory of the process, or take some.
static MEMORY: Mutex<()> = Mutex::new(());

const CHUNK: usize = 64 * 1024;

/// Answers each connection with the messages that `answer` makes, then closes it. Without messages it is left to the
/// test.
struct Answer<F>(F);

impl<F: FnMut() -> Vec<Msg> + 'static> Handler for Answer<F> {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let answer = (self.0)();
        if !answer.is_empty() {
            answer.into_iter().for_each(|msg| ctx.write(msg));
            ctx.flush();
            ctx.close(); // When everything is written.
        }
        Ok(())
    }
}

struct Server {
    // Declared first: the channel is dropped before its loops.
    channel: Channel,
    _group: EventLoopGroup,
    accepted: Receiver<Channel>,
}

fn serve(
    driver: impl OpenDriver + 'static,
    answer: impl Fn() -> Vec<Msg> + Send + Sync + 'static,
) -> Server {
    let group = EventLoopGroup::builder(driver).threads(1).build().unwrap();
    let (sender, accepted) = mpsc::channel();
    let (answer, sender) = (Arc::new(answer), Mutex::new(sender));
    let bootstrap = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        let answer = answer.clone();
        sender.lock().unwrap().send(edit.channel()).unwrap();
        edit.add_last("chunks", ChunkedWriter::new())?;
        edit.add_last("answer", Answer(move || answer()))?;
        Ok(())
    });
    let channel = bootstrap.bind("127.0.0.1:0").join().unwrap();
    Server { channel, _group: group, accepted }
}

impl Server {
    fn address(&self) -> SocketAddr {
        self.channel.local_address().unwrap().socket_addr().unwrap()
    }
}

#[test]
fn k11_256_mib_to_a_slow_reader_keep_flat_memory() {
    const CHUNKS: u32 = 4096;
    let _memory = MEMORY.lock().unwrap();
    let server = serve(Auto, || {
        let chunks = (0..CHUNKS).map(|number| {
            let mut chunk = vec![0; CHUNK];
            chunk[..4].copy_from_slice(&number.to_be_bytes());
            Bytes::from(chunk)
        });
        vec![ChunkedMessage::from_chunks(chunks).into()]
    });
    let before = process_bytes();
    let mut client = connect(server.address());
    let channel = server.accepted.recv_timeout(WAIT_LIMIT).unwrap();
    let mut buffer = vec![0; CHUNK];
    let (mut most, mut most_pending) = (0, 0);
    for number in 0..CHUNKS {
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer[..4], number.to_be_bytes(), "chunks arrive in order");
        most = most.max(process_bytes().saturating_sub(before));
        most_pending = most_pending.max(channel.pending_bytes());
    }
    assert_eq!(client.read(&mut buffer).unwrap(), 0, "the close came after the last chunk");
    assert!(most_pending <= 2 * CHUNK, "pending: {most_pending}");
    assert!(most < 1024 * 1024, "{most} bytes for 256 MiB");
}

/// Opens drivers that count the bytes they send: from files, and others.
#[derive(Clone, Default)]
struct SendCounter {
    from_files: Arc<AtomicUsize>,
    others: Arc<AtomicUsize>,
}

fn count(counter: &AtomicUsize, submit: &io::Result<Submit>) {
    if let Ok(Submit::Done(sent)) = submit {
        counter.fetch_add(*sent, Ordering::Relaxed);
    }
}

impl OpenDriver for SendCounter {
    fn open(&self) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(WrappedDriver(CountedSends { inner: Auto.open()?, counter: self.clone() })))
    }
}

struct CountedSends {
    inner: Box<dyn Driver>,
    counter: SendCounter,
}

impl DriverWrapper for CountedSends {
    fn inner(&self) -> &dyn Driver {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Driver {
        &mut *self.inner
    }

    fn write(&mut self, token: Token, queue: &OutQueue) -> io::Result<Submit> {
        let submit = self.inner.write(token, queue);
        count(&self.counter.others, &submit);
        submit
    }

    fn send_file(&mut self, token: Token, file: &FileRegion) -> io::Result<Submit> {
        let submit = self.inner.send_file(token, file);
        count(&self.counter.from_files, &submit);
        submit
    }
}

#[test]
fn k11_ranges_of_a_file_are_sent_by_the_kernel() {
    let _memory = MEMORY.lock().unwrap();
    const MIB: u64 = 1024 * 1024;
    let file = Arc::new(TempFile::new(5 * MIB as usize));
    let counter = SendCounter::default();
    let (source, steps) = (file.clone(), Arc::new(Mutex::new(Vec::new())));
    let log = steps.clone();
    let server = serve(counter.clone(), move || {
        let log = log.clone();
        let long = ChunkedMessage::new(FileChunks::new(source.region(MIB + 1..4 * MIB)))
            .on_progress(move |now| log.lock().unwrap().push((now.bytes, now.total_bytes)));
        let short = ChunkedMessage::new(FileChunks::new(source.region(..10)));
        vec![long.into(), Bytes::from_static(b"--").into(), short.into()]
    });
    let mut received = Vec::new();
    connect(server.address()).read_to_end(&mut received).unwrap();
    let len = 3 * MIB - 1;
    let text = file.contents();
    assert!(received[..len as usize] == text[MIB as usize + 1..4 * MIB as usize]);
    assert_eq!(received[len as usize..], [b"--", &text[..10]].concat());
    assert_eq!(counter.from_files.load(Ordering::Relaxed) as u64, len + 10);
    assert_eq!(counter.others.load(Ordering::Relaxed), 2, "the bytes between the ranges");
    let total = Some(len);
    assert_eq!(*steps.lock().unwrap(), [(MIB, total), (2 * MIB, total), (len, total)]);
}

#[test]
fn k11_a_slow_pipe_is_read_elsewhere_and_passed_on_as_it_comes() {
    let _memory = MEMORY.lock().unwrap();
    let readers = EventExecutorGroup::builder().threads(1).name("readers").build().unwrap();
    let (writers, pipes): (Sender<PipeWriter>, Receiver<PipeWriter>) = mpsc::channel();
    let writers = Mutex::new(writers);
    let server = serve(Auto, move || {
        let (reader, writer) = io::pipe().unwrap();
        writers.lock().unwrap().send(writer).unwrap();
        let reader = ReaderChunks::new(&readers, reader);
        vec![ChunkedMessage::new(reader).into(), Bytes::from_static(b"end").into()]
    });
    let mut client = connect(server.address());
    let mut pipe = pipes.recv_timeout(WAIT_LIMIT).unwrap();
    for text in ["one", "and another"] {
        pipe.write_all(text.as_bytes()).unwrap();
        let mut received = vec![0; text.len()];
        client.read_exact(&mut received).unwrap(); // The pipe is still open.
        assert_eq!(received, text.as_bytes());
    }
    // The loop is free while the reader blocks: it answers a second connection, whose pipe waits for its executor.
    let mut second = connect(server.address());
    drop(pipes.recv_timeout(WAIT_LIMIT).unwrap());
    drop(pipe);
    for stream in [&mut client, &mut second] {
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "end");
    }
}

/// Tells the test when its source is dropped.
struct DropSignal(Sender<()>);

impl Drop for DropSignal {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

fn endless(signal: DropSignal) -> ChunkedMessage {
    ChunkedMessage::from_chunks(std::iter::repeat_with(move || {
        let _ = &signal;
        Bytes::from_static(&[7; CHUNK])
    }))
}

#[test]
fn k11_a_peer_that_leaves_drops_the_source() {
    let _memory = MEMORY.lock().unwrap();
    let (sender, dropped) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server =
        serve(Auto, move || vec![endless(DropSignal(sender.lock().unwrap().clone())).into()]);
    let mut client = connect(server.address());
    client.read_exact(&mut vec![0; 10 * CHUNK]).unwrap();
    drop(client); // With unread bytes: a reset.
    dropped.recv_timeout(WAIT_LIMIT).expect("the source is dropped with its channel");
}

#[test]
fn k11_a_write_is_cancelled_from_another_thread() {
    let _memory = MEMORY.lock().unwrap();
    let server = serve(Auto, Vec::new);
    let mut client = connect(server.address());
    let channel = server.accepted.recv_timeout(WAIT_LIMIT).unwrap();
    let (sender, dropped) = mpsc::channel();
    let endless = channel.write_and_flush(endless(DropSignal(sender)));
    let end = channel.write_and_flush(Bytes::from_static(b"end"));
    client.read_exact(&mut vec![0; 10 * CHUNK]).unwrap();
    assert!(endless.cancel());
    let reader = thread::spawn(move || {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).map(|_| rest)
    });
    dropped.recv_timeout(WAIT_LIMIT).expect("the source is dropped");
    end.join().unwrap();
    channel.close().join().unwrap();
    let rest = reader.join().unwrap().unwrap();
    assert!(rest.ends_with(b"end") && (rest.len() - 3).is_multiple_of(CHUNK), "{}", rest.len());
}

#[test]
fn k11_a_fast_reader_of_an_endless_source_leaves_the_loop_to_others() {
    let _memory = MEMORY.lock().unwrap();
    let (sender, _dropped) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server =
        serve(Auto, move || vec![endless(DropSignal(sender.lock().unwrap().clone())).into()]);
    let greedy = connect(server.address());
    let reader = thread::spawn(move || drain_until_closed(greedy));
    let first = server.accepted.recv_timeout(WAIT_LIMIT).unwrap();
    for _ in 0..20 {
        let mut other = connect(server.address());
        let mut byte = [0];
        other.read_exact(&mut byte).unwrap();
    }
    drop(first.disconnect().join());
    reader.join().unwrap();
}

fn drain_until_closed(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
}
