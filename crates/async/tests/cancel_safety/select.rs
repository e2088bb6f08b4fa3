//! `select`-style use: of several calls that wait, the first that is ready is taken, and the others are dropped.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use waterwheel_async::{AsyncChannel, AsyncReader, AsyncWriter};
use waterwheel_channel::{LocalLoop, Msg, sleep};
use waterwheel_testkit::embedded::Embedded;

use crate::support::installed;

/// Something that happens to the channel.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// This many messages come in one round.
    Receive(usize),
    Advance(u64),
    /// The network takes this many messages more.
    Room(usize),
    NoRoom,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5_usize).prop_map(Step::Receive),
        (1..20_u64).prop_map(Step::Advance),
        (0..5_usize).prop_map(Step::Room),
        Just(Step::NoRoom),
    ]
}

/// The outcome of one select.
enum Selected {
    Message(Option<String>),
    Slept,
    Sent,
}

/// Waits for the first of three calls, and drops the others.
async fn select(
    reader: &mut AsyncReader<String>,
    writer: &mut AsyncWriter<String>,
    time: Duration,
    message: String,
) -> Selected {
    let mut next = pin!(reader.try_next());
    let mut sent = pin!(writer.send(message));
    let mut slept = pin!(sleep(time));
    poll_fn(|context| {
        if let Poll::Ready(item) = next.as_mut().poll(context) {
            return Poll::Ready(Selected::Message(item.unwrap()));
        }
        if slept.as_mut().poll(context).is_ready() {
            return Poll::Ready(Selected::Slept);
        }
        sent.as_mut().poll(context).map(|sent| {
            sent.unwrap();
            Selected::Sent
        })
    })
    .await
}

/// The messages that the selecting future has read and sent.
#[derive(Default)]
struct Seen {
    read: Vec<String>,
    sent: Vec<String>,
}

fn run_selects(
    channel: &mut Embedded,
    connection: AsyncChannel<String>,
    times: Vec<u64>,
) -> Rc<RefCell<Seen>> {
    let seen = Rc::new(RefCell::new(Seen::default()));
    let noted = seen.clone();
    channel.on_loop(|_| {
        LocalLoop::current().unwrap().spawn_local(async move {
            let (mut reader, mut writer) = connection.split();
            for n in 0_usize.. {
                // 30 KB: a few of them fill the channel.
                let message = format!("{n} {}", "x".repeat(30_000));
                let time = Duration::from_millis(times[n % times.len()]);
                match select(&mut reader, &mut writer, time, message.clone()).await {
                    Selected::Message(Some(line)) => noted.borrow_mut().read.push(line),
                    Selected::Message(None) => return,
                    Selected::Slept => {}
                    Selected::Sent => {
                        noted.borrow_mut().sent.push(message);
                        sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        });
    });
    seen
}

proptest! {
    #[test]
    fn a06_a_select_of_next_send_and_sleep_loses_nothing(
        steps in prop::collection::vec(step(), 1..40),
        times in prop::collection::vec(1..10_u64, 1..5),
    ) {
        let (mut channel, connection) = installed::<String, String>();
        let seen = run_selects(&mut channel, connection, times);
        let mut received = Vec::new();
        for step in steps {
            match step {
                Step::Receive(count) => {
                    let new: Vec<_> = (0..count).map(|n| (received.len() + n).to_string()).collect();
                    received.extend(new.iter().cloned());
                    channel.write_inbound_all(new.into_iter().map(Msg::from));
                }
                Step::Advance(millis) => channel.advance(Duration::from_millis(millis)),
                Step::Room(count) => channel.set_room(count),
                Step::NoRoom => channel.set_room(0),
            }
            channel.run();
        }
        channel.set_room(usize::MAX);
        for _ in 0..received.len() + 10 {
            channel.advance(Duration::from_millis(20));
        }
        channel.finish_inbound();
        channel.advance(Duration::from_millis(20));
        let written: Vec<_> = std::iter::from_fn(|| channel.read_outbound::<String>()).collect();
        let seen = seen.borrow();
        prop_assert_eq!(&seen.read, &received);
        prop_assert_eq!(seen.sent.len(), written.len());
        prop_assert!(seen.sent == written, "what was sent is what was written, in order");
    }
}
