//! The embedded channel, its clock and faults, the collector, the log and shuffled events (O04).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::driver::{IoEvent, OpenDriver, ReadPlan, Role};
use waterwheel_channel::{
    ChannelOptions, Ctx, Datagram, Edit, Handler, HandlerResult, In, InboundHandler, Token,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::manual::Manual;
use waterwheel_testkit::message_collector::MessageCollector;
use waterwheel_testkit::recorder::Log;
use waterwheel_testkit::shuffled::Shuffled;

const SECOND: Duration = Duration::from_secs(1);

fn no_handlers(_: &mut Edit<'_>) -> Result<(), Error> {
    Ok(())
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// Returns a byte stream without handlers that has written and flushed these bytes.
fn with_written(how: impl FnOnce(&mut Embedded), texts: &[&'static str]) -> (Embedded, Log) {
    let (mut embedded, log) =
        (Embedded::builder().stream().build(no_handlers).unwrap(), Log::new());
    how(&mut embedded);
    embedded.on_loop(|channel| {
        for it in texts {
            channel.write(text(it)).add_listener(log.listener(*it));
        }
        channel.flush();
    });
    embedded.run();
    (embedded, log)
}

fn outbound(embedded: &mut Embedded) -> Vec<Bytes> {
    std::iter::from_fn(|| embedded.read_outbound()).collect()
}

#[test]
fn o04_calls_at_the_tail_are_done_when_they_return() {
    let by_hand = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let log = Log::new();
    let mut embedded = Embedded::builder().options(by_hand).build(|edit| {
        edit.add_last("log", log.recorder())?;
        Ok(())
    });
    let embedded = embedded.as_mut().unwrap();
    embedded.run();
    drop(log.take());
    let written = embedded.write(text("first"));
    assert_eq!((embedded.writes(), written.is_done()), (0, false), "not flushed yet");
    embedded.flush();
    assert!(written.is_done());
    embedded.write_outbound(text("second")).join().unwrap();
    assert_eq!(outbound(embedded), ["first", "second"]);
    embedded.write_inbound(7_u32);
    assert_eq!(embedded.unread(), 1);
    embedded.read();
    assert_eq!((embedded.unread(), embedded.read_inbound::<u32>()), (0, Some(7)));
    embedded.fire_user_event(text("event"));
    let expected = [
        "log write first",
        "log flush",
        "log write second",
        "log flush",
        "log read",
        "log on_read u32",
        "log on_read_complete",
        "log on_user_event event",
    ];
    assert_eq!(log.take(), expected);
}

#[test]
fn o04_a_collector_keeps_one_type_and_passes_the_others_on() {
    let numbers = MessageCollector::<u32>::new();
    let mut embedded = Embedded::new(|edit| {
        edit.add_last("numbers", In(numbers.clone()))?;
        Ok(())
    })
    .unwrap();
    embedded.write_inbound(1_u32);
    embedded.write_inbound(text("passes"));
    embedded.write_inbound(2_u32);
    assert_eq!((numbers.len(), numbers.take()), (2, vec![1, 2]));
    assert!(numbers.is_empty());
    assert_eq!(embedded.read_inbound::<Bytes>().unwrap(), "passes");
}

#[test]
fn o04_a_collector_waits_for_messages_read_on_another_thread() {
    let lines = MessageCollector::<String>::new();
    let into = lines.clone();
    let reading = std::thread::spawn(move || {
        let made = Embedded::new(|edit| {
            edit.add_last("lines", In(into))?;
            Ok(())
        });
        let mut embedded = made.unwrap();
        for line in ["a", "b", "c"] {
            embedded.write_inbound(line.to_owned());
        }
    });
    assert_eq!(lines.wait_for(3, Duration::from_secs(60)), ["a", "b", "c"]);
    reading.join().unwrap();
    let too_few = std::panic::catch_unwind(|| lines.wait_for(1, Duration::ZERO));
    let said = too_few.unwrap_err().downcast::<String>().unwrap();
    assert!(said.starts_with("0 of 1 messages arrived"), "{said}");
}

#[test]
fn o04_messages_wait_on_the_wire_until_the_channel_reads() {
    let by_hand = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut embedded = Embedded::builder().options(by_hand).build(no_handlers).unwrap();
    embedded.write_inbound(1_u32);
    embedded.write_inbound(2_u32);
    assert_eq!((embedded.unread(), embedded.read_inbound::<u32>()), (2, None));
    embedded.on_loop(|channel| channel.set_auto_read(true));
    embedded.run();
    assert_eq!(embedded.unread(), 0);
    assert_eq!(embedded.read_inbound::<u32>(), Some(1));
    assert_eq!(embedded.read_inbound::<u32>(), Some(2));
    assert_eq!(embedded.read_inbound::<u32>(), None);
}

#[test]
#[should_panic(expected = "a message of type u32 was read, not one of type alloc::string::String")]
fn o04_a_message_of_an_unexpected_type_panics_with_its_type_name() {
    let mut embedded = Embedded::new(no_handlers).unwrap();
    embedded.write_inbound(1_u32);
    embedded.read_inbound::<String>();
}

#[test]
fn o04_set_room_limits_the_bytes_written() {
    let (mut embedded, log) = with_written(|embedded| embedded.set_room(5), &["abc", "def"]);
    assert_eq!(outbound(&mut embedded).concat(), b"abcde");
    assert_eq!((embedded.channel().pending_bytes(), log.take()), (1, vec!["abc ok".to_owned()]));
    embedded.clear_faults();
    assert_eq!(outbound(&mut embedded).concat(), b"f");
    assert_eq!((embedded.channel().pending_bytes(), log.take()), (0, vec!["def ok".to_owned()]));
}

#[test]
fn o04_short_writes_limits_each_write() {
    let (mut embedded, log) = with_written(|embedded| embedded.short_writes(2), &["abc", "def"]);
    assert_eq!(outbound(&mut embedded).concat(), b"abcdef");
    assert_eq!(
        (embedded.writes(), log.take()),
        (3, vec!["abc ok".to_owned(), "def ok".to_owned()])
    );
}

#[test]
fn o04_fail_write_fails_the_next_write() {
    let broken = |embedded: &mut Embedded| embedded.fail_write(io::ErrorKind::BrokenPipe.into());
    let (mut embedded, log) = with_written(broken, &["abc"]);
    assert_eq!(outbound(&mut embedded), Vec::<Bytes>::new());
    assert_eq!(log.take(), ["abc failed: the channel is closed: broken pipe"]);
    assert!(!embedded.channel().is_open());
}

#[test]
fn o04_fail_and_finish_inbound_reach_the_channel() {
    let mut embedded = Embedded::new(no_handlers).unwrap();
    embedded.fail(Error::new("reset"));
    assert_eq!(embedded.read_error().unwrap().to_string(), "reset");
    assert!(embedded.read_error().is_none() && !embedded.channel().is_open());
    let mut embedded = Embedded::new(no_handlers).unwrap();
    embedded.write_inbound(1_u32);
    embedded.finish_inbound();
    assert_eq!(embedded.read_inbound::<u32>(), Some(1));
    assert!(embedded.read_error().is_none() && !embedded.channel().is_open());
}

/// A handler that writes the time every second.
struct WritesTime;

impl Handler for WritesTime {
    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(SECOND, 0);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        ctx.write_and_flush(format!("{:?}", ctx.now()));
        ctx.schedule(SECOND, 0);
        Ok(())
    }
}

#[test]
fn o04_time_moves_only_by_advance() {
    let mut embedded = Embedded::new(|edit| {
        edit.add_last("clockwork", WritesTime)?;
        Ok(())
    })
    .unwrap();
    let began = embedded.now();
    embedded.run();
    embedded.advance(SECOND - Duration::from_nanos(1));
    assert_eq!(embedded.read_outbound::<String>(), None, "not yet");
    embedded.advance(Duration::from_nanos(1));
    assert_eq!(embedded.now(), began.plus(SECOND));
    let expected = format!("{:?}", embedded.now());
    assert_eq!(embedded.read_outbound::<String>(), Some(expected));
    // One step: a timer started by a timer counts from the new time.
    embedded.advance(SECOND * 3);
    assert_eq!(embedded.read_outbound::<String>(), Some(format!("{:?}", embedded.now())));
    assert_eq!(embedded.read_outbound::<String>(), None);
}

#[test]
fn o04_a_log_as_reporter_collects_faults() {
    let reports = Log::new();
    let builder = Embedded::builder().stream().reporter(Arc::new(reports.clone()));
    let mut embedded = builder.build(no_handlers).unwrap();
    embedded.on_loop(|channel| channel.send(String::from("text")));
    let told = reports.take();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("a message of type alloc::string::String cannot be written"));
}

/// Returns the order in which eight streams that are ready at once are read with this seed.
fn order(drivers: &Shuffled, manual: &Manual) -> Vec<u64> {
    let mut driver = drivers.open().unwrap();
    let mut peers = Vec::new();
    for n in 0..8 {
        let (io, peer) = manual.pair();
        driver.attach(Token::from_bits(n), io, Role::Stream).unwrap();
        driver.set_read(Token::from_bits(n), Some(ReadPlan::default()));
        peer.send("x");
        peers.push(peer);
    }
    driver.wait(None).unwrap();
    let events = std::iter::from_fn(|| driver.next_event());
    let reads = events.filter(|event| matches!(event, IoEvent::LastRead(..)));
    reads.map(|event| event.token().to_bits()).collect()
}

#[test]
fn o04_a_seed_determines_the_order_of_events() {
    let of_seed = |seed| {
        let manual = Manual::readiness();
        let drivers = Shuffled::new(manual.clone(), seed);
        [order(&drivers, &manual), order(&drivers, &manual)]
    };
    for seed in 0..20 {
        let [first, second] = of_seed(seed);
        assert_eq!([first.clone(), second.clone()], of_seed(seed), "the same in every run");
        for mut seen in [first, second] {
            seen.sort_unstable();
            assert_eq!(seen, (0..8).collect::<Vec<_>>(), "nobody is left out");
        }
    }
    let orders: Vec<_> = (0..20).map(|seed| of_seed(seed)[0].clone()).collect();
    assert!(orders.iter().any(|order| *order != orders[0]), "not all seeds are the same");
    assert!((0..20).any(|seed| of_seed(seed)[0] != of_seed(seed)[1]), "nor all drivers of one");
}

/// A handler that replies to each datagram.
struct DatagramEcho;

impl InboundHandler for DatagramEcho {
    type In = Datagram;

    fn on_read(&mut self, ctx: &Ctx<'_>, question: Datagram) -> HandlerResult {
        ctx.write_and_flush(question.answer("42"));
        Ok(())
    }
}

#[test]
fn o04_an_embedded_channel_reads_and_writes_datagrams() {
    let mut embedded = Embedded::new(|edit| {
        edit.add_last("answer", In(DatagramEcho))?;
        Ok(())
    })
    .unwrap();
    let there = SocketAddr::from(([192, 0, 2, 1], 37));
    embedded.write_inbound(Datagram::to(there, "what is it?"));
    let answer = embedded.read_outbound::<Datagram>().unwrap();
    assert_eq!(answer, Datagram::to(there, "42"));
}
