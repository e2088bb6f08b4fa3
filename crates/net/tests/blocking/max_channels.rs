//! The limit `max_channels` of a group with a loop per channel (L13).

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waterwheel_channel::{
    Channel, ConnectionLimit, EventLoopGroup, LoopBuildError, ServerBootstrap, TooManyChannels,
    local,
};
use waterwheel_executor::{Error, ErrorKind, PromiseFuture};
use waterwheel_net::{Blocking, Tcp};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::support::{
    Bench, Echo, TIME_LIMIT, assert_echoes, connect, failure, get, ip, read_to_end, wait_until,
};

fn limited(max: usize) -> Bench {
    Bench::with(Blocking, |builder| builder.max_channels(max))
}

#[track_caller]
fn assert_too_many(error: &Error, max: usize) {
    let limit = TooManyChannels { max };
    let found = matches!(error.kind(), ErrorKind::Other(why) if why.downcast_ref() == Some(&limit));
    assert!(found, "{error}");
    assert!(error.to_string().contains(&max.to_string()), "{error}");
}

#[test]
fn l13_above_max_channels_connect_bind_and_register_fail_with_the_limit() {
    let bench = limited(2);
    let there = Bench::new();
    let (_server, address) = there.server(|| Echo);
    let one = get(bench.client().connect(address));
    let other = get(bench.client().connect(address));
    assert_too_many(&failure(bench.client().connect(address)), 2);
    assert_too_many(&failure(bench.client().connect("localhost:1")), 2);
    let server = ServerBootstrap::new(&bench.group, Tcp);
    assert_too_many(&failure(server.bind("127.0.0.1:0")), 2);
    let (pair, _) = local::pair();
    assert_too_many(&failure(bench.group.register(pair)), 2);
    assert_eq!(bench.loops(), 2);
    get(one.close());
    bench.until_channels(1);
    let again = get(bench.client().connect(address));
    assert_too_many(&failure(bench.client().connect(address)), 2);
    drop((again, other));
    bench.end();
}

#[test]
fn l13_an_accepted_connection_above_max_channels_is_closed_and_reported() {
    let bench = limited(3);
    let (server, address) = bench.server(|| Echo);
    let mut peers = [0; 2].map(|_| connect(address));
    peers.iter_mut().for_each(assert_echoes);
    for _ in 0..20 {
        let mut refused = connect(address);
        let _ = refused.write_all(b"ping");
        assert_eq!(read_to_end(&mut refused), b"");
    }
    let report = bench.wait_for_report("too many channels");
    assert!(
        report.contains("an accepted connection could not be registered and was closed, 1 so far"),
        "{report}"
    );
    assert!(bench.reports().len() <= 5, "repeated faults are reported as one");
    peers.iter_mut().for_each(assert_echoes);
    bench.assert_not_spinning();
    assert!(server.is_active());
    drop(peers);
    bench.until_channels(1);
    assert_echoes(&mut connect(address));
    assert_eq!(bench.loops(), 3);
}

#[test]
fn l13_max_channels_of_zero_or_of_a_fixed_group_is_an_error() {
    let none = EventLoopGroup::per_channel(Blocking).max_channels(0).build();
    assert!(matches!(none, Err(LoopBuildError::NoChannels)));
    let fixed = EventLoopGroup::builder(Blocking).max_channels(5).build();
    assert!(matches!(fixed, Err(LoopBuildError::NotPerChannel { max: 5 })));
}

/// A loop is free before its connection stops counting. A server whose limit is the number of loops therefore closes
/// no connection.
#[test]
fn l13_with_a_connection_limit_new_connections_wait_for_a_loop() {
    let bench = limited(3);
    let server = ServerBootstrap::new(&bench.group, Tcp)
        .connection_limit(&ConnectionLimit::new(2))
        .child_initialiser(|edit| Ok(edit.add_last("echo", Echo).map(drop)?));
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    let crowd: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || (0..50).for_each(|_| assert_echoes(&mut connect(address))))
        })
        .collect();
    for one in crowd {
        one.join().expect("all clients are served");
    }
    assert_eq!(bench.loops(), 3);
    assert_eq!(bench.reports(), [""; 0]);
}

#[test]
fn l13_bind_on_each_loop_is_refused_by_a_group_with_a_loop_per_channel() {
    let bench = Bench::new();
    let server = ServerBootstrap::new(&bench.group, Tcp);
    let error = failure(server.bind_on_each_loop("127.0.0.1:0")).to_string();
    assert!(error.contains("one loop per channel"), "{error}");
}

/// Cancels the connect, or closes the channel if it has succeeded.
fn give_up(connected: PromiseFuture<Channel>) {
    if !connected.cancel() {
        get(get(connected).close());
    }
}

/// Every failure frees the loop: with a limit of one, a second attempt would fail otherwise.
#[test]
fn l13_a_loop_is_free_again_after_any_failure() {
    let bench = limited(1);
    let there = Bench::new();
    let (_server, address) = there.server(|| Echo);
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let again = |what: &str| {
        wait_until(what, || {
            let channel = match bench.client().connect(address).join() {
                Ok(channel) => channel,
                Err(error) => {
                    assert_too_many(&error, 1);
                    return false;
                }
            };
            get(channel.close());
            true
        });
        bench.until_channels(0);
    };
    for _ in 0..3 {
        drop(failure(bench.client().connect(unused)));
        again("after a refused connect");
        drop(failure(bench.client().connect("no.such.name.invalid:80")));
        again("after an unknown name");
        let fails = bench.client().initialiser(|_| Err(Error::new("no key for you")));
        assert!(failure(fails.connect(address)).to_string().contains("no key"));
        again("after an initialiser that failed");
        let blows = bench.client().initialiser(|_| panic_quietly("initialiser on fire"));
        drop(failure(blows.connect(address)));
        bench.wait_for_report("initialiser on fire");
        again("after an initialiser that panicked");
        let server = ServerBootstrap::new(&bench.group, Tcp);
        drop(failure(server.bind(address)));
        again("after an address in use");
        give_up(bench.client().connect(address));
        again("after a connect that was cancelled");
        give_up(bench.client().connect(("localhost", address.port())));
        again("after a lookup that was cancelled");
        drop(bench.client().connect(unused));
        again("after a connect whose future was dropped");
    }
    assert_eq!(bench.loops(), 1);
    bench.end();
}

#[test]
fn l13_children_whose_initialiser_fails_or_panics_free_their_loops() {
    let bench = limited(2);
    let made = AtomicUsize::new(0);
    let server = ServerBootstrap::new(&bench.group, Tcp).child_initialiser(move |edit| {
        match made.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => Err(Error::new("no key for you")),
            1 => panic_quietly("initialiser on fire"),
            _ => Ok(edit.add_last("echo", Echo).map(drop)?),
        }
    });
    let server = get(server.bind("127.0.0.1:0"));
    let address = ip(server.local_address());
    for round in 0..3 {
        assert_eq!(read_to_end(&mut connect(address)), b"");
        if round == 0 {
            bench.wait_for_report("no key for you");
        }
        bench.until_channels(1);
        assert_eq!(read_to_end(&mut connect(address)), b"");
        bench.wait_for_report("on fire");
        bench.until_channels(1);
        assert_echoes(&mut connect(address));
        bench.until_channels(1);
    }
    assert_eq!(bench.loops(), 2);
}

#[test]
fn l13_a_loop_whose_thread_cannot_be_started_is_free_again() {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use waterwheel_executor::{LoopBody, ThreadFactory, ThreadSupplier};
    struct FailingFactory(AtomicBool, ThreadFactory);
    impl ThreadSupplier for FailingFactory {
        fn start(&self, body: LoopBody) -> std::io::Result<Option<std::thread::JoinHandle<()>>> {
            match self.0.load(Ordering::Relaxed) {
                true => self.1.start(body),
                false => Err(std::io::Error::other("not in the mood")),
            }
        }
    }
    let there = Bench::new();
    let (_server, address) = there.server(|| Echo);
    let supplier = Arc::new(FailingFactory(AtomicBool::new(false), ThreadFactory::new("moody")));
    let (shared, max) = (supplier.clone(), 1);
    let bench = Bench::with(Blocking, |builder| builder.thread_supplier(shared).max_channels(max));
    for _ in 0..3 {
        let error = failure(bench.client().connect(address)).to_string();
        assert!(error.contains("not in the mood"), "{error}");
    }
    supplier.0.store(true, Ordering::Relaxed);
    get(bench.client().connect(address));
    bench
        .group
        .shutdown_gracefully(Duration::ZERO, TIME_LIMIT)
        .unwrap()
        .wait_timeout(TIME_LIMIT)
        .unwrap();
}
