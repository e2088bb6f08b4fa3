//! Traffic shaping over TCP: two hundred connections on two loops, and the example `shaped_proxy`.
//!
//! Times are those of the data: from the first byte to the one that completes the count. A busy machine makes them
//! longer, but the limiter then lets more pass at once: only the rate is checked.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use waterwheel::bytes::Bytes;
use waterwheel::channel::{
    Bootstrap, Channel, Completion, Ctx, EventLoopGroup, Events, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel::executor::{Clock, Error, Nanos};
use waterwheel::handlers::{TrafficLimiter, TrafficRate, TrafficShaping};
use waterwheel::net::{Auto, Tcp};

use crate::program::{Program, WAIT_LIMIT};

const CONNECTIONS: usize = 200;
const RATE: u64 = 4_000_000;

/// Writes as long as the channel is writable.
struct Flood;

impl Flood {
    fn fill(ctx: &Ctx<'_>) {
        while ctx.is_writable() {
            ctx.write(Bytes::from_static(&[7; 4096]));
        }
        ctx.flush();
    }
}

impl Handler for Flood {
    fn interest(&self) -> Events {
        Events::ACTIVE | Events::WRITABILITY_CHANGED | Events::ERROR
    }

    /// Ignores resets at the end of the test.
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::fill(ctx);
        Ok(())
    }

    fn on_writability_changed(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        Self::fill(ctx);
        Ok(())
    }
}

/// Counts what all connections receive or, next to the transport, send; with the times at which the count reached some
/// numbers.
#[derive(Clone, Default)]
struct Received(Arc<(Mutex<ReceivedState>, Condvar)>);

#[derive(Clone, Copy, Default)]
struct ReceivedState {
    bytes: u64,
    first: Option<Nanos>,
    /// The count and the time after half a second's worth, and a second's worth later.
    begin: Option<(u64, Nanos)>,
    end: Option<(u64, Nanos)>,
}

impl Received {
    fn lock(&self) -> MutexGuard<'_, ReceivedState> {
        self.0.0.lock().unwrap()
    }

    /// Waits until one and a half seconds' worth has come.
    fn wait(&self) -> ReceivedState {
        let too_few = |state: &mut ReceivedState| state.end.is_none();
        let waited = self.0.1.wait_timeout_while(self.lock(), WAIT_LIMIT, too_few).unwrap();
        *waited.0
    }
}

impl Handler for Received {
    fn interest(&self) -> Events {
        Events::READ | Events::ERROR | Events::WRITE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.count(msg.size_hint() as u64, ctx.now());
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.count(msg.size_hint() as u64, ctx.now());
        ctx.write_with(msg, done.take());
        Ok(())
    }

    /// Ignores resets at the end of the test.
    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        Ok(())
    }
}

impl Received {
    fn count(&self, size: u64, now: Nanos) {
        let mut state = self.lock();
        state.bytes += size;
        let bytes = state.bytes;
        state.first.get_or_insert(now);
        if bytes >= RATE / 2 {
            state.begin.get_or_insert((bytes, now));
        }
        if bytes >= RATE / 2 + RATE && state.end.is_none() {
            state.end = Some((bytes, now));
            self.0.1.notify_one();
        }
    }
}

/// Starts a server whose connections have the shaping handler, and connects clients. One of the two sides writes, the
/// other counts. If it is the server that writes, `sent` counts as well, because the clock of a receiver may begin late.
fn connect_all(
    shaping: &TrafficShaping,
    sent: Option<Received>,
    received: &Received,
) -> (EventLoopGroup, EventLoopGroup, Vec<Channel>) {
    let servers = EventLoopGroup::builder(Auto).name("shaped").threads(2).build().unwrap();
    let clients = EventLoopGroup::builder(Auto).name("clients").threads(1).build().unwrap();
    let (shaping, counter, server_floods) = (shaping.clone(), received.clone(), sent.is_some());
    let server = ServerBootstrap::new(&servers, Tcp)
        .child_initialiser(move |edit| {
            if let Some(sent) = &sent {
                edit.add_last("sent", sent.clone())?;
            }
            edit.add_last("shaping", shaping.handler())?;
            match server_floods {
                true => edit.add_last("flood", Flood)?,
                false => edit.add_last("received", counter.clone())?,
            };
            Ok(())
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let counter = received.clone();
    let bootstrap = Bootstrap::new(&clients, Tcp).initialiser(move |edit| {
        match server_floods {
            true => edit.add_last("received", counter.clone())?,
            false => edit.add_last("flood", Flood)?,
        };
        Ok(())
    });
    let address = server.local_address().unwrap();
    let connects: Vec<_> = (0..CONNECTIONS).map(|_| bootstrap.connect(address.clone())).collect();
    let channels = connects.into_iter().map(|connect| connect.join().unwrap()).collect();
    (servers, clients, channels)
}

/// Checks the rate of the first one and a half seconds, and that of the second after the first half.
fn assert_rate(received: &Received, extra: u64) {
    let state = received.wait();
    let (Some(first), Some(begin), Some(end)) = (state.first, state.begin, state.end) else {
        panic!("{} bytes came within {WAIT_LIMIT:?}", state.bytes);
    };
    let whole = end.1.since(first).as_secs_f64();
    let most = (RATE as f64 * whole * 1.05) as u64 + extra;
    assert!(end.0 <= most, "{} bytes in {whole} s", end.0);
    let rate = (end.0 - begin.0) as f64 / end.1.since(begin.1).as_secs_f64();
    assert!(rate >= 0.9 * RATE as f64, "{rate} bytes per second");
}

fn end(groups: [EventLoopGroup; 2]) {
    for group in groups {
        group.shutdown_gracefully(Duration::ZERO, WAIT_LIMIT).unwrap().join().unwrap();
    }
}

#[test]
fn k08_two_hundred_connections_together_receive_the_rate_of_their_group() {
    let group = TrafficLimiter::new(TrafficRate::per_second(RATE));
    let shaping = TrafficShaping::builder().write_group(&group).build().unwrap();
    let (sent, received) = (Received::default(), Received::default());
    let (servers, clients, channels) = connect_all(&shaping, Some(sent.clone()), &received);
    assert_rate(&sent, group.rate().unwrap().burst());
    assert!(received.wait().end.is_some(), "the bytes arrived");
    let stats = group.stats();
    assert!(stats.held > 0 && stats.overdue == 0, "{stats:?}");
    drop(channels);
    end([servers, clients]);
}

#[test]
fn k08_two_hundred_connections_together_are_read_at_the_rate_of_their_group() {
    let group = TrafficLimiter::new(TrafficRate::per_second(RATE));
    let shaping = TrafficShaping::builder().read_group(&group).build().unwrap();
    let received = Received::default();
    let (servers, clients, channels) = connect_all(&shaping, None, &received);
    // Every connection may have had its first read, of 2 KiB, before the others were counted; and a read is up to 64 KiB.
    let first_reads = CONNECTIONS as u64 * 2048 + 2 * 65_536;
    assert_rate(&received, group.rate().unwrap().burst() + first_reads);
    drop(channels);
    end([servers, clients]);
}

/// Starts the example in front of a listener.
fn shaped_proxy(each: u64, total: u64) -> (Program, TcpListener) {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let address: SocketAddr = target.local_addr().unwrap();
    let args: [&dyn std::fmt::Display; 6] =
        [&"--each", &each, &"--total", &total, &"127.0.0.1:0", &address];
    (Program::start("shaped_proxy", &args), target)
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream.set_write_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Reads to the end. Returns the bytes and the seconds since `start`.
fn read_to_end(mut stream: TcpStream, start: Nanos) -> (Vec<u8>, f64) {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    (bytes, Clock::Monotonic.now().since(start).as_secs_f64())
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 / 3) as u8).collect()
}

#[test]
fn k08_shaped_proxy_forwards_each_direction_at_its_rate_and_loses_nothing() {
    let (proxy, target) = shaped_proxy(200_000, 1_000_000);
    let client = proxy.connect();
    let server = accept(&target);
    let (data, start) = (numbered(250_000), Clock::Monotonic.now());
    let to_client = thread::spawn({
        let (data, mut server) = (data.clone(), server.try_clone().unwrap());
        move || {
            server.write_all(&data).unwrap();
            server.shutdown(Shutdown::Write).unwrap();
        }
    });
    let to_server = thread::spawn({
        let (data, mut client) = (data.clone(), client.try_clone().unwrap());
        move || {
            client.write_all(&data).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
    });
    let at_client = thread::spawn(move || read_to_end(client, start));
    let (bytes, seconds) = read_to_end(server, start);
    // The burst is 4,000 bytes; a read may exceed the rate by up to 64 KiB, which the end of the data leaves unpaid.
    assert!(bytes == data && seconds >= 0.85, "{} bytes in {seconds} s", bytes.len());
    let (bytes, seconds) = at_client.join().unwrap();
    assert!(bytes == data && seconds >= 1.15, "{} bytes in {seconds} s", bytes.len());
    to_client.join().unwrap();
    to_server.join().unwrap();
}

#[test]
fn k08_shaped_proxy_limits_the_sum_of_its_connections() {
    let (proxy, target) = shaped_proxy(250_000, 300_000);
    let start = Clock::Monotonic.now();
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let client = proxy.connect();
            let mut server = accept(&target);
            thread::spawn(move || server.write_all(&numbered(100_000)).unwrap());
            thread::spawn(move || read_to_end(client, start))
        })
        .collect();
    for reader in readers {
        assert!(reader.join().unwrap().0 == numbered(100_000));
    }
    let seconds = Clock::Monotonic.now().since(start).as_secs_f64();
    assert!(seconds >= 1.1, "400,000 bytes in {seconds} s");
}
