//! A drain of the loop waits for held messages. On the real clock: a drain is an affair of running loops.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{DrainOptions, Drained, EventLoopGroup, In, local};
use waterwheel_handlers::{TrafficRate, TrafficShaping};
use waterwheel_testkit::message_collector::MessageCollector;

#[test]
fn k08_a_drain_of_the_loop_waits_for_held_messages() {
    let group = EventLoopGroup::builder(TaskOnly).threads(1).build().unwrap();
    let shaping =
        TrafficShaping::builder().channel_write(TrafficRate::per_second(100_000)).build().unwrap();
    let (ours, theirs) = local::pair();
    let collector = MessageCollector::<Bytes>::new();
    let receiver = collector.clone();
    let _theirs = group
        .register(theirs.initialiser(move |edit| {
            edit.add_last("collector", In(receiver))?;
            Ok(())
        }))
        .join()
        .unwrap();
    let channel = group
        .register(ours.initialiser(move |edit| {
            edit.add_last("shaping", shaping.handler())?;
            Ok(())
        }))
        .join()
        .unwrap();
    let written = channel.write_and_flush(Bytes::from(vec![7; 10_000]));
    let options =
        DrainOptions::default().shutdown(Duration::ZERO, Duration::from_secs(10)).unwrap();
    assert_eq!(group.drain(options).join().unwrap(), Drained::Complete);
    written.join().unwrap();
    let received: usize = collector.take().iter().map(Bytes::len).sum();
    assert_eq!(received, 10_000);
}
