//! Real threads and loops: nothing is lost, and every call completes.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;
use std::thread;

use proptest::prelude::*;
use waterwheel_async::{
    AsyncChannel, ConnectAsync, RemoteAsyncChannel, RemoteAsyncReader, RemoteAsyncWriter, Serve,
};
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, ServerBootstrap, local};
use waterwheel_executor::Error;

/// Runs a future on this thread, and nothing else: tokio's loop has no part in what wakes it.
fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn group() -> EventLoopGroup {
    EventLoopGroup::builder(TaskOnly).threads(2).build().unwrap()
}

/// Binds a server whose connections come out of the receiver, to be used on any thread.
fn listen(group: &EventLoopGroup, name: &str) -> Receiver<RemoteAsyncChannel<u32>> {
    let (give, given): (Sender<RemoteAsyncChannel<u32>>, _) = channel();
    ServerBootstrap::new(group, local::Local)
        .child_allow_half_closure(true)
        .child_initialiser(move |edit| {
            give.send(RemoteAsyncChannel::install(edit)?).map_err(Error::new)
        })
        .bind(Address::local(name))
        .join()
        .unwrap();
    given
}

fn connect(group: &EventLoopGroup, name: &str) -> RemoteAsyncChannel<u32> {
    let bootstrap =
        Bootstrap::new(group, local::Local).allow_half_closure(true).initialiser(|_| Ok(()));
    block_on(bootstrap.connect_remote(Address::local(name))).unwrap()
}

async fn send_all(mut writer: RemoteAsyncWriter<u32>, count: u32) -> Result<(), Error> {
    for n in 0..count {
        match n % 7 {
            0 => writer.feed(n).await?,
            _ => writer.send(n).await?,
        }
    }
    writer.flush().await
}

/// Reads to the end; returns how many came.
///
/// # Panics
/// If one is missing among those that came.
async fn read_all(mut reader: RemoteAsyncReader<u32>) -> Result<u32, Error> {
    let mut expected = 0;
    while let Some(n) = reader.try_next().await? {
        assert_eq!(n, expected);
        expected += 1;
    }
    Ok(expected)
}

#[test]
fn a01_four_threads_exchange_messages_in_both_directions() {
    const COUNT: u32 = 20_000;
    let group = group();
    let accepted = listen(&group, "a01 four threads");
    let (reader, writer) = connect(&group, "a01 four threads").split();
    let (far_reader, far_writer) = accepted.recv().unwrap().split();
    let threads = [
        thread::spawn(move || block_on(send_all(writer, COUNT)).map(|()| COUNT)),
        thread::spawn(move || block_on(read_all(far_reader))),
        thread::spawn(move || block_on(send_all(far_writer, COUNT)).map(|()| COUNT)),
        thread::spawn(move || block_on(read_all(reader))),
    ];
    for thread in threads {
        assert_eq!(thread.join().unwrap().unwrap(), COUNT);
    }
}

#[test]
fn a01_a_task_of_tokio_serves_a_connection() {
    let group = group();
    let accepted = listen(&group, "a01 tokio");
    let mut client = connect(&group, "a01 tokio");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let mut connection = accepted.recv().unwrap();
    let served = runtime.spawn(async move {
        while let Some(n) = connection.try_next().await? {
            connection.send(n + 1).await?;
        }
        Ok::<_, Error>(())
    });
    for n in 0..1000 {
        block_on(client.send(n)).unwrap();
        assert_eq!(block_on(client.try_next()).unwrap(), Some(n + 1));
    }
    drop(client);
    runtime.block_on(served).unwrap().unwrap();
}

#[test]
fn a01_a_client_that_cannot_connect_is_told() {
    let group = group();
    let bootstrap = Bootstrap::new(&group, local::Local);
    let connected = block_on(bootstrap.connect_remote::<u32, u32>(Address::local("a01 nobody")));
    assert!(connected.is_err());
}

/// How one side of a connection behaves.
#[derive(Clone, Copy, Debug)]
enum Side {
    /// Sends this many, and drops the channel without a flush.
    SendAndDrop(u32),
    /// Reads this many, and drops the channel.
    ReadAndDrop(u32),
    /// Drops every call that waits, and makes another one, this often.
    DropCalls(u32),
    /// Sends this many with one half and reads to the end with the other.
    Split(u32),
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![far_side(), (0..50_u32).prop_map(Side::ReadAndDrop)]
}

/// A side that does not only read: two that do would wait for each other.
fn far_side() -> impl Strategy<Value = Side> {
    prop_oneof![
        (0..50_u32).prop_map(Side::SendAndDrop),
        (0..50_u32).prop_map(Side::DropCalls),
        (0..50_u32).prop_map(Side::Split),
    ]
}

/// Plays one side. What it reads is in order; every call completes.
fn play(side: Side, mut channel: RemoteAsyncChannel<u32>) {
    match side {
        Side::SendAndDrop(count) => {
            for n in 0..count {
                if block_on(channel.send(n)).is_err() {
                    return;
                }
            }
        }
        Side::ReadAndDrop(count) => {
            for expected in 0..count {
                match block_on(channel.next()) {
                    Some(Ok(n)) => assert_eq!(n, expected),
                    Some(Err(_)) | None => return,
                }
            }
        }
        Side::DropCalls(count) => {
            let mut expected = 0;
            for _ in 0..count {
                let polled = block_on(poll_fn(|context| {
                    Poll::Ready(pin!(channel.next()).as_mut().poll(context))
                }));
                match polled {
                    Poll::Ready(Some(Ok(n))) => {
                        assert_eq!(n, expected);
                        expected += 1;
                    }
                    Poll::Ready(_) => return,
                    Poll::Pending => thread::yield_now(),
                }
            }
        }
        Side::Split(count) => {
            let (reader, writer) = channel.split();
            let writes = thread::spawn(move || block_on(send_all(writer, count)));
            let _ended = block_on(read_all(reader));
            let _ended = writes.join().unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Random sides, which drop their halves or calls when they like, and a loop that may end in the middle. A call
    /// that does not complete hangs the test.
    #[test]
    fn a01_nothing_hangs_whoever_drops_or_ends_first(
        sides in prop::collection::vec((side(), far_side()), 1..4),
        ends_early: bool,
    ) {
        static CASES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("a01 whoever {}", CASES.fetch_add(1, Ordering::Relaxed));
        let group = group();
        let accepted = listen(&group, &name);
        let mut threads = Vec::new();
        for (near, far) in sides {
            let channel = connect(&group, &name);
            let far_channel = accepted.recv().unwrap();
            threads.push(thread::spawn(move || play(near, channel)));
            threads.push(thread::spawn(move || play(far, far_channel)));
        }
        if ends_early {
            drop(group.shutdown());
        }
        for thread in threads {
            prop_assert!(thread.join().is_ok());
        }
        drop(group.shutdown());
    }
}

#[test]
fn a01_a_call_completes_when_the_loop_is_shut_down_and_later_ones_say_so() {
    let group = group();
    let accepted = listen(&group, "a01 shut down");
    let mut client = connect(&group, "a01 shut down");
    let _far = accepted.recv().unwrap();
    let waits = thread::spawn(move || {
        while block_on(client.next()).is_some() {}
        client
    });
    let terminated = group.shutdown();
    let mut client = waits.join().unwrap();
    terminated.join().unwrap();
    let error = block_on(client.send(1)).unwrap_err();
    assert!(error.is_closed(), "{error}");
}

#[test]
fn a01_a_served_connection_is_handed_to_another_thread() {
    let group = group();
    let (give, given) = channel();
    ServerBootstrap::new(&group, local::Local)
        .serve(move |connection: AsyncChannel<u32>| {
            let given = give.send(connection.into_remote());
            async move { given.map_err(Error::new) }
        })
        .bind(Address::local("a01 handed"))
        .join()
        .unwrap();
    let mut client = connect(&group, "a01 handed");
    let mut connection = given.recv().unwrap();
    let echo = thread::spawn(move || {
        block_on(async move {
            while let Ok(Some(n)) = connection.try_next().await {
                connection.send(n).await.unwrap();
            }
        });
    });
    block_on(client.send(7)).unwrap();
    assert_eq!(block_on(client.try_next()).unwrap(), Some(7));
    drop(client);
    echo.join().unwrap();
}
