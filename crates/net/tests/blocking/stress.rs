//! Connects and closes that race with the end of the group (L13).

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use waterwheel_channel::{Channel, DrainOptions};
use waterwheel_net::Blocking;

use crate::support::{Bench, Echo, TIME_LIMIT, connect, wait_until};

/// Each attempt has an outcome, no loop is leaked, and nothing hangs.
#[test]
fn l13_connects_and_closes_race_with_the_end_of_the_group() {
    for round in 0..30 {
        let max = if round % 2 == 0 { 6 } else { 1000 };
        let bench = Bench::with(Blocking, |builder| builder.max_channels(max));
        let (_server, address) = bench.server(|| Echo);
        let over = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..4)
            .map(|n| {
                let (client, over) = (bench.client(), over.clone());
                std::thread::spawn(move || {
                    let mut open: Vec<Channel> = Vec::new();
                    for attempt in 0.. {
                        if over.load(Ordering::Relaxed) {
                            break;
                        }
                        let connected = client.connect(address);
                        match (attempt + n) % 4 {
                            0 => drop(connected.cancel()),
                            1 => drop(connected),
                            _ => {
                                connected.wait_timeout(TIME_LIMIT).expect("an outcome");
                                open.extend(connected.join());
                            }
                        }
                        if open.len() > 3 {
                            drop(open.remove(0).close());
                        }
                    }
                    open
                })
            })
            .collect();
        for _ in 0..20 {
            if let Ok(mut peer) = std::net::TcpStream::connect(address) {
                let _ = peer.write_all(b"hello");
            }
        }
        let ended = bench.group.termination();
        match round % 3 {
            0 => drop(bench.group.shutdown_gracefully(Duration::ZERO, TIME_LIMIT).unwrap()),
            1 => drop(bench.group.shutdown()),
            _ => {
                let options = DrainOptions::within(Duration::from_millis(20));
                drop(bench.group.drain(options.shutdown(Duration::ZERO, TIME_LIMIT).unwrap()));
            }
        }
        ended.wait_timeout(TIME_LIMIT).expect("all loops end");
        over.store(true, Ordering::Relaxed);
        for client in clients {
            for channel in client.join().unwrap() {
                channel.closed().wait_timeout(TIME_LIMIT).expect("the channel is closed");
            }
        }
        assert!(bench.group.children().all(|it| it.is_terminated()));
        assert!(bench.loops() <= max, "{} loops", bench.loops());
        let panics: Vec<_> =
            bench.reports().into_iter().filter(|it| it.contains("panicked")).collect();
        assert!(panics.is_empty(), "{panics:?}");
    }
}

/// With more short connections than `max_channels` at a time, the limit holds, and afterwards all loops
/// are free.
#[test]
fn l13_many_clients_at_the_limit_leave_all_loops_free() {
    let bench = Bench::with(Blocking, |builder| builder.max_channels(8));
    let (_server, address) = bench.server(|| Echo);
    let crowd: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                for _ in 0..200 {
                    let mut peer = std::net::TcpStream::connect(address).unwrap();
                    let _ = peer.write_all(b"hello");
                }
            })
        })
        .collect();
    for one in crowd {
        one.join().unwrap();
    }
    // Earlier connections may still wait to be accepted.
    let mut all = Vec::new();
    wait_until("seven loops free", || {
        let mut peer = connect(address);
        let answered = peer.write_all(b"x").and_then(|()| peer.read_exact(&mut [0]));
        all.extend(answered.is_ok().then_some(peer));
        all.len() == 7
    });
    assert_eq!((bench.loops(), bench.channels()), (8, 8));
    bench.assert_not_spinning();
    bench.end();
}
