//! Budgets of connections that are async functions: memory of idle and of ended ones, allocations of an echo.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use waterwheel_async::{AsyncChannel, ByteStream, serve_channel};
use waterwheel_channel::{Channel, Edit, EventLoopGroup, ManualEventLoop};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{Embedded, connected_pair};
use waterwheel_testkit::manual::Manual;

#[path = "../../../support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::{allocations, bytes};

/// The bytes of an idle connection beyond those of a channel without handlers: the bridge, the scope, and the task.
const MAX_IDLE_BYTES: usize = 2900;

fn manual_loop() -> ManualEventLoop {
    EventLoopGroup::builder(Manual::readiness()).build_manual().unwrap()
}

fn run(event_loop: &mut ManualEventLoop) {
    while !event_loop.is_idle() {
        event_loop.turn(Some(Duration::ZERO));
    }
}

/// Registers a connection with this pipeline, and its peer.
fn connect(
    event_loop: &mut ManualEventLoop,
    initialiser: impl FnOnce(&mut Edit<'_>) -> Result<(), Error>,
) -> [Channel; 2] {
    let (one, other) = connected_pair();
    let channels = event_loop.on_loop(|here| {
        [
            here.register_with(one, initialiser).unwrap(),
            here.register_with(other, |_| Ok(())).unwrap(),
        ]
    });
    run(event_loop);
    channels.unwrap()
}

#[test]
fn a02_functions_that_return_at_once_leave_nothing() {
    let mut event_loop = manual_loop();
    let mut connections = |count| {
        for _ in 0..count {
            let [channel, _] = connect(&mut event_loop, |edit| {
                serve_channel(
                    edit,
                    |connection: AsyncChannel<Bytes>| async move { drop(connection) },
                )
            });
            assert!(!channel.is_open());
        }
    };
    connections(1000);
    let before = bytes();
    connections(10_000);
    let left = bytes().wrapping_sub(before) as isize;
    assert!(left < 10_000, "{left} bytes are left of 10,000 connections");
}

fn idle_bytes(initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error>) -> usize {
    const COUNT: usize = 1000;
    let mut event_loop = manual_loop();
    let mut kept: Vec<_> = (0..COUNT).map(|_| connect(&mut event_loop, &initialiser)).collect();
    kept.reserve(COUNT);
    let before = bytes();
    kept.extend((0..COUNT).map(|_| connect(&mut event_loop, &initialiser)));
    (bytes() - before) / COUNT
}

#[test]
fn a02_an_idle_connection_is_small() {
    let bare = idle_bytes(|_| Ok(()));
    let waiting = idle_bytes(|edit| {
        serve_channel(edit, |mut connection: AsyncChannel<Bytes>| async move {
            while let Some(bytes) = connection.next().await {
                connection.send(bytes?).await?;
            }
            Ok::<_, Error>(())
        })
    });
    assert!(waiting - bare <= MAX_IDLE_BYTES, "{waiting} bytes, {bare} without");
}

/// The instructions of an echo are in `scripts/budgets`.
#[test]
fn a07_an_echo_over_async_read_and_write_allocates_the_copy_that_it_writes_only() {
    let mut channel = Embedded::new(|edit| {
        serve_channel(edit, |connection: AsyncChannel<Bytes>| async move {
            let mut stream = ByteStream::new(connection);
            let mut buffer = [0; 64];
            loop {
                match stream.read(&mut buffer).await? {
                    0 => return std::io::Result::Ok(()),
                    count => stream.write_all(&buffer[..count]).await?,
                }
            }
        })
    })
    .unwrap();
    let mut echoes = |count| {
        for _ in 0..count {
            channel.with_pipeline(|pipeline| {
                pipeline.fire_read(Bytes::from_static(b"hello"));
                pipeline.fire_read_complete();
            });
            assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
        }
    };
    echoes(10);
    let before = allocations();
    echoes(1000);
    assert_eq!(allocations() - before, 1000);
}
