//! Files sent with `sendfile`, in order with bytes and without a copy (C07).

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use socket2::SockRef;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{Channel, EventLoopGroup, ManualEventLoop, NewChannel, Stream};
use waterwheel_executor::Clock;
use waterwheel_net::{Epoll, Poll, Socket};
use waterwheel_testkit::temp_file::TempFile;

#[path = "../../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::allocations_in;

/// Longer than any step takes.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// A manually driven loop, a channel on it, and its peer.
struct Rig {
    manual: ManualEventLoop,
    channel: Channel,
    peer: TcpStream,
}

impl Rig {
    fn new(driver: impl OpenDriver + 'static) -> Self {
        let mut manual = EventLoopGroup::builder(driver).build_manual().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // A small send buffer, so that writes are interrupted in the middle.
        SockRef::from(&ours).set_send_buffer_size(8 * 1024).unwrap();
        let (peer, _) = listener.accept().unwrap();
        peer.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        let io = Socket::new(ours).unwrap().into();
        let new = NewChannel::new(Stream::connected(io, None));
        let registered = manual.on_loop(|here| here.register_with(new, |_| Ok(())));
        Self { channel: registered.unwrap().unwrap(), manual, peer }
    }
}

fn turn_until(manual: &mut ManualEventLoop, mut done: impl FnMut() -> bool) {
    let deadline = Clock::Monotonic.now().plus(TIME_LIMIT);
    while !done() {
        manual.turn(Some(Duration::from_millis(10)));
        assert!(Clock::Monotonic.now() < deadline, "the time limit is exceeded");
    }
}

fn over_both(test: impl Fn(Rig)) {
    test(Rig::new(Epoll));
    test(Rig::new(Poll));
}

#[test]
fn c07_files_and_bytes_arrive_in_order_at_a_slow_reader() {
    let temp_file = TempFile::new(1_000_000);
    over_both(|mut rig| {
        let (head, tail) = (Bytes::from(vec![1; 100_000]), Bytes::from_static(b"tail"));
        let mut peer = rig.peer.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut buffer = vec![0; 50_000];
            loop {
                match peer.read(&mut buffer).unwrap() {
                    0 => return all,
                    n => all.extend_from_slice(&buffer[..n]),
                }
            }
        });
        let channel = rig.channel.clone();
        drop(channel.write(head.clone()));
        let first = channel.write(temp_file.region(1..));
        drop(channel.write(tail.clone()));
        let last = channel.write_and_flush(temp_file.region(..5));
        let over = channel.shutdown_output();
        turn_until(&mut rig.manual, || over.is_done());
        assert!(first.is_done() && last.is_done() && channel.pending_bytes() == 0);
        let text = temp_file.contents();
        let expected = [&head[..], &text[1..], &tail[..], &text[..5]].concat();
        assert!(reading.join().unwrap() == expected);
    });
}

#[test]
fn c07_a_file_is_sent_without_a_copy() {
    const LEN: usize = 4 << 20;
    let temp_file = TempFile::new(LEN);
    over_both(|mut rig| {
        let mut peer = rig.peer.try_clone().unwrap();
        let reading = std::thread::spawn(move || {
            let mut all = vec![0; LEN];
            peer.read_exact(&mut all).unwrap();
            all
        });
        let sent = rig.channel.write_and_flush(temp_file.region(..));
        let (allocations, ()) = allocations_in(|| turn_until(&mut rig.manual, || sent.is_done()));
        assert!(reading.join().unwrap() == temp_file.contents());
        // A copy in pieces of 64 KiB would take 64 allocations.
        assert!(allocations < 32, "{allocations} allocations");
    });
}

#[test]
fn c07_a_peer_that_closes_in_the_middle_of_a_file_fails_its_write() {
    let temp_file = TempFile::new(1_000_000);
    over_both(|mut rig| {
        let sent = rig.channel.write_and_flush(temp_file.region(..));
        rig.manual.turn(Some(Duration::ZERO));
        rig.peer.read_exact(&mut [0; 1000]).unwrap();
        SockRef::from(&rig.peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(rig.peer);
        let closed = rig.channel.closed();
        turn_until(&mut rig.manual, || closed.is_done());
        assert!(sent.join().is_err());
    });
}
