//! In-process measurements: `micro [loop|spin] <m1|m1z|m1x2|m2|m3|m3acc|m4> [quick]` prints one JSON
//! line.
//!
//! Measures an executor without I/O; with `loop` an event loop with the driver `Auto`; with `spin` an event loop that
//! polls for a while before it sleeps. The loop's thread is pinned to core 0, producers to core 1.
//!
//! | workload | what is measured |
//! |---|---|
//! | m1, m1x2 | tasks per second from one or two producers; each task owns a `u64` |
//! | m1z | the same with a task that captures nothing |
//! | m2 | the time from a submission to an idle loop until its task runs |
//! | m3 | timers per second, a million scheduled and cancelled in random order, on the loop |
//! | m3acc | how late timers of 1 to 20 ms fire on an idle loop |
//! | m4 | promises per second: created, completed, observed, on one thread |
//!
//! For counting system calls and instructions with strace and callgrind:
//!
//! | command | what it runs |
//! |---|---|
//! | `micro empty <turns>` | turns of an event loop without work |
//! | `micro ready <turns>` | turns with a file descriptor that is always readable and read once per turn |
//! | `micro hop <slots> <events>` | events through a pipeline of this many handlers |
//! | `micro echo <echoes>` | reads and writes through a pipeline, without sockets |
//! | `micro stream <peers> <rounds>` | echoes over sockets, loop and peers on one thread |
//! | `micro served <echoes>` | echoes over a socket, the loop on its own thread |
//! | `micro async-bytes <echoes>` | the same by an async function over `AsyncRead` and `AsyncWrite` |
//! | `micro async-messages <echoes>` | the same by an async function over messages |
//! | `micro connections <n>` | connections accepted, served once and closed |
//! | `micro chain <by-hand|chain|slots> <lines>` | lines decoded and added up in three ways |
//! | `micro frames <by-hand|chain|slot> <frames>` | frames with a length field decoded in three ways |
//! | `micro replies <none|parts|slot|stage> <replies>` | RESP commands answered in four ways, 16 per read |
//! | `micro datagrams <bursts>` | datagrams echoed, 64 per burst |
//! | `micro tls <echoes> <size>` | echoes over TLS 1.3, the loop on its own thread |
//! | `micro tls-server <port> <certificate> <key>` | an echo server with TLS 1.3, without session tickets |
//! | `micro http-server <port>` | hyper's HTTP/1 on one loop: `Hello, World!` |
//! | `micro plaintext <port>` | the same by `waterwheel::http` |
//! | `micro requests <n> <depth>` | requests to it over a socket, so many at a time, the loop on its own thread |
//! | `micro websocket <port>` | a server of WebSocket: messages are echoed on `/echo`, and sent to all on `/broadcast` |
//! | `micro messages <n>` | messages of 64 bytes to it over a socket, the loop on its own thread |
//! | `micro deliveries <n> <members>` | messages of 64 bytes that it broadcasts to so many connections |
//! | `micro rearm <timers> <times>` | one of many pending timers replaced, as idle timeouts do |

#![forbid(unsafe_code)]

mod chains;
mod connections;
mod datagrams;
mod frames;
mod hops;
mod http;
mod plaintext;
mod replies;
mod served;
mod streams;
mod timers;
mod tls;
mod websocket;

use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use waterwheel::channel::driver::Interest;
use waterwheel::channel::{EventLoopGroup, on_ready};
use waterwheel::executor::{Clock, EventExecutor, ManualExecutor, Nanos, ThreadFactory};
use waterwheel::net::{Auto, foreign};

type MicroResult = Result<(), Box<dyn Error>>;

const LOOP_CORE: usize = 0;
const PRODUCER_CORE: usize = 1;

/// Maximum number of tasks in flight, so that memory allocation does not dominate.
const WINDOW: u64 = 65_536;

/// Spin time, longer than the pause between two wake-ups of m2.
const SPIN: Duration = Duration::from_millis(1);

fn main() -> MicroResult {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = arguments.first().cloned().unwrap_or_default();
    match kind.as_str() {
        "empty" | "ready" => turn(kind == "ready", number(&arguments, 1, 1)?),
        "hop" => hops::hops(number(&arguments, 1, 3)?, number(&arguments, 2, 1_000_000)?),
        "echo" => hops::echoes(number(&arguments, 1, 1_000_000)?),
        "stream" => streams::streams(number(&arguments, 1, 1)?, number(&arguments, 2, 100_000)?),
        "served" => served::by_a_handler(number(&arguments, 1, 100_000)?),
        "async-bytes" => served::by_a_byte_stream(number(&arguments, 1, 100_000)?),
        "async-messages" => served::by_messages(number(&arguments, 1, 100_000)?),
        "connections" => connections::connections(number(&arguments, 1, 10_000)?),
        "datagrams" => datagrams::datagrams(number(&arguments, 1, 1000)?),
        "rearm" => timers::rearm(number(&arguments, 1, 10_000)?, number(&arguments, 2, 1_000_000)?),
        "tls" => tls::echoes(number(&arguments, 1, 10_000)?, number(&arguments, 2, 64)?),
        "tls-server" => match &arguments[1..] {
            [port, certificate, key] => tls::server(port.parse()?, certificate, key),
            _ => Err("usage: micro tls-server <port> <certificate> <key>".into()),
        },
        "requests" => match &arguments[1..] {
            [requests, depth] => plaintext::requests(requests.parse()?, depth.parse()?),
            _ => Err("usage: micro requests <n> <depth>".into()),
        },
        "plaintext" => match &arguments[1..] {
            [port] => plaintext::server(port.parse()?),
            _ => Err("usage: micro plaintext <port>".into()),
        },
        "messages" => websocket::messages(number(&arguments, 1, 100_000)?),
        "deliveries" => {
            websocket::deliveries(number(&arguments, 1, 1000)?, number(&arguments, 2, 100)?)
        }
        "websocket" => match &arguments[1..] {
            [port] => websocket::server(port.parse()?),
            _ => Err("usage: micro websocket <port>".into()),
        },
        "http-server" => match &arguments[1..] {
            [port] => http::server(port.parse()?),
            _ => Err("usage: micro http-server <port>".into()),
        },
        "chain" => {
            let kind = arguments.get(1).map_or("chain", String::as_str);
            chains::chains(kind, number(&arguments, 2, 1_000_000)?)
        }
        "frames" => {
            let kind = arguments.get(1).map_or("chain", String::as_str);
            frames::frames(kind, number(&arguments, 2, 1_000_000)?)
        }
        "replies" => {
            let kind = arguments.get(1).map_or("stage", String::as_str);
            replies::replies(kind, number(&arguments, 2, 1_000_000)?)
        }
        "loop" | "spin" => {
            arguments.remove(0);
            let spin = if kind == "spin" { SPIN } else { Duration::ZERO };
            let group = EventLoopGroup::builder(Auto)
                .threads(1)
                .thread_supplier(threads())
                .spin_before_sleep(spin)
                .build()?;
            measure(&arguments, &group.next())
        }
        _ => measure(&arguments, &EventExecutor::builder().thread_supplier(threads()).build()?),
    }
}

fn number<N: FromStr>(arguments: &[String], at: usize, otherwise: N) -> Result<N, N::Err> {
    arguments.get(at).map_or(Ok(otherwise), |n| n.parse())
}

fn measure<X: Send + 'static>(arguments: &[String], executor: &EventExecutor<X>) -> MicroResult {
    let quick = arguments.iter().any(|argument| argument == "quick");
    let tasks = if quick { 500_000 } else { 2_000_000 };
    match arguments.first().map(String::as_str) {
        Some("m1") => submission(executor, 1, tasks, true),
        Some("m1z") => submission(executor, 1, tasks, false),
        Some("m1x2") => submission(executor, 2, tasks, true),
        Some("m2") => wake_up(executor, if quick { 3_000 } else { 15_000 }),
        Some("m3") => timers::timers(executor, 1_000_000),
        Some("m3acc") => lateness(executor, Duration::from_secs(if quick { 1 } else { 3 })),
        Some("m4") => promises(if quick { 2_000_000 } else { 5_000_000 }),
        _ => Err("usage: micro empty|ready <turns>, or micro [loop|spin] <m1|m1z|m1x2|m2|m3|m3acc|m4> [quick]".into()),
    }
}

fn threads() -> Arc<ThreadFactory> {
    Arc::new(ThreadFactory::new("micro").pin_to([LOOP_CORE]))
}

fn pin(core: usize) -> MicroResult {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

fn now() -> Nanos {
    Clock::Monotonic.now()
}

// m1: submission

static DONE: AtomicU64 = AtomicU64::new(0);

/// Increments a counter that only the loop writes: a load and a store are enough.
fn bump() {
    DONE.store(DONE.load(Ordering::Relaxed) + 1, Ordering::Release);
}

fn submission<X: Send + 'static>(
    executor: &EventExecutor<X>,
    producers: u64,
    tasks: u64,
    owns_a_u64: bool,
) -> MicroResult {
    pin(PRODUCER_CORE)?;
    executor.submit(|| ())?.join()?;
    let mut rounds = Vec::new();
    for _ in 0..4 {
        rounds.push(produce(executor, producers, tasks, owns_a_u64));
    }
    rounds.remove(0); // The warm-up.
    rounds.sort();
    let seconds = rounds[1].as_secs_f64();
    let (per_second, nanos) = (tasks as f64 / seconds, seconds * 1e9 / tasks as f64);
    println!(
        r#"{{"impl":"waterwheel","producers":{producers},"ops_s":{per_second:.0},"ns_op":{nanos:.2}}}"#
    );
    Ok(())
}

fn produce<X: Send + 'static>(
    executor: &EventExecutor<X>,
    producers: u64,
    tasks: u64,
    owns_a_u64: bool,
) -> Duration {
    let (begun, base, share) = (now(), DONE.load(Ordering::Relaxed), tasks / producers);
    let threads: Vec<_> = (0..producers)
        .map(|_| {
            let executor = executor.clone();
            thread::spawn(move || {
                pin(PRODUCER_CORE).expect("core 1 is there");
                for i in 0..share {
                    if i & 1023 == 0 {
                        wait_for_room(i * producers, base, producers > 1);
                    }
                    let accepted = if owns_a_u64 {
                        executor
                            .execute(move || {
                                black_box(i);
                                bump();
                            })
                            .is_ok()
                    } else {
                        executor.execute(bump).is_ok()
                    };
                    assert!(accepted, "no bound, no shutdown");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("producers do not panic");
    }
    while DONE.load(Ordering::Acquire) - base < share * producers {
        spin_loop();
    }
    now().since(begun)
}

fn wait_for_room(submitted: u64, base: u64, yielding: bool) {
    while submitted > DONE.load(Ordering::Relaxed) - base + WINDOW {
        if yielding {
            thread::yield_now();
        } else {
            spin_loop();
        }
    }
}

// m2: wake-up

fn wake_up<X: Send + 'static>(executor: &EventExecutor<X>, samples: u64) -> MicroResult {
    const WARM_UP: u64 = 500;
    const IDLE: Duration = Duration::from_micros(60);
    pin(PRODUCER_CORE)?;
    let flag = Arc::new(AtomicU64::new(0));
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3)?;
    for i in 1..=samples + WARM_UP {
        let asleep = now().plus(IDLE);
        while now() < asleep {
            spin_loop();
        }
        let begun = now();
        let raise = flag.clone();
        executor.execute(move || raise.store(i, Ordering::Release))?;
        while flag.load(Ordering::Acquire) != i {
            spin_loop();
        }
        if i > WARM_UP {
            histogram.saturating_record(nanos(now().since(begun)));
        }
    }
    let (p50, p99) = (micros(&histogram, 0.5), micros(&histogram, 0.99));
    let max = histogram.max() as f64 / 1e3;
    println!(r#"{{"impl":"waterwheel","p50_us":{p50:.2},"p99_us":{p99:.2},"max_us":{max:.1}}}"#);
    Ok(())
}

// m3acc: lateness

const PARALLEL: u64 = 8;

fn lateness<X: Send + 'static>(executor: &EventExecutor<X>, length: Duration) -> MicroResult {
    let end = now().plus(length);
    let (late, all_late) = mpsc::channel();
    for k in 0..PARALLEL {
        let (ticker, late) = (executor.clone(), late.clone());
        executor.execute(move || tick(ticker, Random(77 + k), end, late))?;
    }
    drop(late);
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3)?;
    let mut early = 0;
    for (due, fired) in all_late {
        early += u64::from(fired < due);
        histogram.saturating_record(nanos(fired.since(due)).max(1));
    }
    let (p50, p99) = (micros(&histogram, 0.5), micros(&histogram, 0.99));
    let (n, max) = (histogram.len(), histogram.max() as f64 / 1e3);
    println!(
        r#"{{"impl":"waterwheel","n":{n},"late_p50_us":{p50:.1},"late_p99_us":{p99:.1},"late_max_us":{max:.1},"early":{early}}}"#
    );
    Ok(())
}

/// Reschedules itself with random delays until the end.
fn tick<X: Send + 'static>(
    executor: EventExecutor<X>,
    mut random: Random,
    end: Nanos,
    late: mpsc::Sender<(Nanos, Nanos)>,
) {
    let delay = Duration::from_nanos(1_000_000 + random.next() % 19_000_000);
    let (due, ticker) = (now().plus(delay), executor.clone());
    let scheduled = executor.schedule(delay, move || {
        let fired = now();
        let _ = late.send((due, fired));
        if fired < end {
            tick(ticker, random, end, late);
        }
    });
    drop(scheduled.expect("not shut down"));
}

// m4: promises

/// Measures promises on a single thread, with a manually driven executor.
fn promises(count: u64) -> MicroResult {
    pin(LOOP_CORE)?;
    let manual = ManualExecutor::new();
    let executor = manual.executor();
    let best = {
        let mut best = Duration::MAX;
        let mut sum = 0;
        for _ in 0..3 {
            let begun = now();
            for i in 0..count {
                let (promise, mut future) = executor.new_promise::<u64>();
                black_box(promise).set_success(i);
                if let Some(Ok(value)) = future.try_take() {
                    sum += value;
                }
            }
            best = best.min(now().since(begun));
        }
        assert_eq!(black_box(sum), 3 * (count * (count - 1) / 2), "each was observed once");
        best
    };
    let seconds = best.as_secs_f64();
    let (per_second, nanos) = (count as f64 / seconds, seconds * 1e9 / count as f64);
    println!(r#"{{"impl":"waterwheel","ops_s":{per_second:.0},"ns_op":{nanos:.2}}}"#);
    Ok(())
}

// Turns, counted by strace and callgrind.

fn turn(ready: bool, turns: u32) -> MicroResult {
    let mut manual = EventLoopGroup::builder(Auto).build_manual()?;
    if ready {
        let count = eventfd(turns, EventfdFlags::SEMAPHORE | EventfdFlags::NONBLOCK)?;
        let read = on_ready(|count: &OwnedFd, _, _| {
            rustix::io::read(count, &mut [0; 8]).map_err(std::io::Error::from)?;
            Ok(())
        });
        let event_loop = manual.event_loop();
        let registered = event_loop.register_foreign(foreign(count), Interest::READABLE, read);
        manual.turn(Some(Duration::ZERO));
        drop(registered.join()?);
    }
    for _ in 0..turns {
        manual.turn(Some(Duration::ZERO));
    }
    let metrics = manual.event_loop().metrics();
    println!(r#"{{"turns":{},"ready_events":{}}}"#, metrics.turns, metrics.ready_events);
    Ok(())
}

// Helpers.

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn micros(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e3
}

/// Xorshift generator with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
