//! The order of lifecycle events under load (C02): thousands of short connections, closed from either side.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::OpenDriver;
use waterwheel_channel::{
    Bootstrap, Ctx, EventLoopGroup, Handler, HandlerResult, Msg, ServerBootstrap,
};
use waterwheel_executor::Error;
use waterwheel_net::{Epoll, Poll, Tcp};
use waterwheel_testkit::recorder::Log;

use crate::loop_rig::{TIME_LIMIT, get};
use crate::probe::{ip, reset, wait_until};

/// The lifecycles of all channels: started, ended, and out of order.
#[derive(Default)]
struct LifecycleCounts {
    begun: AtomicUsize,
    ended: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// Checks the order of the events of one channel.
struct LifecycleCheck {
    counts: Arc<LifecycleCounts>,
    seen: Vec<&'static str>,
    closed: bool,
    /// The handler closes its channel after this number of reads.
    max_reads: usize,
}

impl LifecycleCheck {
    fn new(counts: &Arc<LifecycleCounts>, max_reads: usize) -> Self {
        Self { counts: counts.clone(), seen: Vec::new(), closed: false, max_reads }
    }

    fn step(&mut self, what: &'static str, after: &[&'static str]) -> HandlerResult {
        let last = self.seen.last().copied().unwrap_or("nothing");
        if !after.contains(&last) {
            let seen = format!("{what} after {:?}", self.seen);
            self.counts.wrong.lock().unwrap().push(seen);
        }
        if self.seen.last() != Some(&what) {
            self.seen.push(what);
        }
        Ok(())
    }
}

impl Handler for LifecycleCheck {
    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.counts.begun.fetch_add(1, Ordering::Relaxed);
        self.step("added", &["nothing"])
    }

    fn on_registered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.step("registered", &["added"])
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.step("active", &["registered"])?;
        ctx.write_and_flush(Bytes::from("hello"));
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.step("read", &["active", "read"])?;
        self.max_reads = self.max_reads.saturating_sub(1);
        ctx.write_and_flush(msg);
        if self.max_reads == 0 && !std::mem::replace(&mut self.closed, true) {
            ctx.close();
        }
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        self.step("error", &["active", "read"])
    }

    fn on_inactive(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        let closed = ctx.channel().closed().is_done();
        self.step(
            if closed { "inactive" } else { "inactive too early" },
            &["active", "read", "error"],
        )
    }

    fn on_unregistered(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.step("unregistered", &["inactive", "registered"])
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        // Directly after "added" if the channel was not registered because the loop was shutting down.
        let _ = self.step("removed", &["unregistered", "added"]);
        self.counts.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A pseudo-random number generator (xorshift), the same in every run.
struct XorShift(u64);

impl XorShift {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Connects, behaves in one of six legal ways, and closes.
fn connect_once(address: std::net::SocketAddr, random: &mut XorShift) -> std::io::Result<()> {
    let mut peer = TcpStream::connect(address)?;
    peer.set_read_timeout(Some(TIME_LIMIT))?;
    let mut piece = [0; 64];
    match random.below(6) {
        0 => reset(peer),
        1 => drop(peer),
        2 => peer.write_all(b"and gone")?,
        3 => {
            peer.write_all(b"one")?;
            let _ = peer.read(&mut piece);
            reset(peer);
        }
        4 => {
            peer.write_all(b"last")?;
            peer.shutdown(std::net::Shutdown::Write)?;
            while peer.read(&mut piece)? > 0 {}
        }
        // Until the server closes the connection.
        _ => while peer.write_all(b"more").is_ok() && matches!(peer.read(&mut piece), Ok(1..)) {},
    }
    Ok(())
}

fn run_short_connections(driver: impl OpenDriver + 'static, connections: usize, shut_down: bool) {
    let reports = Log::new();
    let group = EventLoopGroup::builder(driver)
        .threads(2)
        .reporter(Arc::new(reports.clone()))
        .build()
        .unwrap();
    let counts = Arc::new(LifecycleCounts::default());
    let of_children = counts.clone();
    let server = ServerBootstrap::new(&group, Tcp).child_initialiser(move |edit| {
        edit.add_last("life", LifecycleCheck::new(&of_children, 3))?;
        Ok(())
    });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    let visitors: Vec<_> = (1..=3)
        .map(|seed| {
            std::thread::spawn(move || {
                let mut random = XorShift(seed * 0x9E37_79B9);
                (0..connections).for_each(|_| drop(connect_once(address, &mut random)));
            })
        })
        .collect();
    // Client channels on the same loops.
    let of_clients = counts.clone();
    let clients = Bootstrap::new(&group, Tcp).initialiser(move |edit| {
        edit.add_last("life", LifecycleCheck::new(&of_clients, 5))?;
        Ok(())
    });
    for n in 0..connections / 4 {
        let connected = clients.connect(address);
        match n % 3 {
            0 => drop(connected.cancel()),
            1 => drop(connected),
            _ => drop(connected.wait_timeout(TIME_LIMIT)),
        }
    }
    if shut_down {
        group
            .shutdown_gracefully(Duration::ZERO, TIME_LIMIT)
            .unwrap()
            .wait_timeout(TIME_LIMIT)
            .unwrap();
    }
    visitors.into_iter().for_each(|visitor| visitor.join().unwrap());
    if !shut_down {
        wait_until("all channels are closed", || {
            group.children().map(|it| it.metrics().channels).sum::<usize>() == 1
        });
        assert!(server.is_active());
        group
            .shutdown_gracefully(Duration::ZERO, TIME_LIMIT)
            .unwrap()
            .wait_timeout(TIME_LIMIT)
            .unwrap();
    }
    assert_eq!(*counts.wrong.lock().unwrap(), [""; 0]);
    let (begun, ended) =
        (counts.begun.load(Ordering::Relaxed), counts.ended.load(Ordering::Relaxed));
    assert_eq!(begun, ended, "each lifecycle ends once");
    assert!(shut_down || begun >= 3 * connections);
    let panics: Vec<_> = reports.take().into_iter().filter(|it| it.contains("panicked")).collect();
    assert_eq!(panics, [""; 0]);
}

#[test]
fn c02_thousands_of_short_connections_get_each_lifecycle_event_once() {
    run_short_connections(Epoll, 1000, false);
    run_short_connections(Poll, 300, false);
}

#[test]
fn c02_a_shutdown_under_load_ends_every_channel_with_its_events_in_order() {
    for _ in 0..3 {
        run_short_connections(Epoll, 300, true);
        run_short_connections(Poll, 100, true);
    }
}
