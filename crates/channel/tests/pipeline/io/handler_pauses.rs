//! C09: a handler pauses reads by a `ReadPause`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, Msg, PauseReads, ReadPause, WaterMarks,
};
use waterwheel_testkit::embedded::Embedded;

use crate::support::bytes;

/// The pauses that exist, kept by the test.
#[derive(Clone, Default)]
struct Pauses {
    list: Rc<RefCell<Vec<ReadPause>>>,
    /// The number of pauses that each read adds.
    per_read: Rc<Cell<usize>>,
}

impl Pauses {
    fn end_one(&self, channel: &mut Embedded) {
        let pause = self.list.borrow_mut().pop().expect("a pause exists");
        channel.on_loop(|_| drop(pause));
        channel.run();
    }
}

struct Pausing(Pauses);

impl Handler for Pausing {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        for _ in 0..self.0.per_read.get() {
            self.0.list.borrow_mut().push(ctx.pause_reads());
        }
        ctx.fire_read(msg);
        Ok(())
    }
}

/// Keeps its pause itself.
struct PausedForever(Option<ReadPause>);

impl Handler for PausedForever {
    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.0 = Some(ctx.pause_reads());
        Ok(())
    }
}

fn channel(options: ChannelOptions) -> (Embedded, Pauses) {
    let pauses = Pauses::default();
    pauses.per_read.set(1);
    let handler = Pausing(pauses.clone());
    let builder = Embedded::builder().stream().options(options);
    let built =
        builder.build(|edit| edit.add_last("pausing", handler).map(drop).map_err(Into::into));
    let mut channel = built.expect("the channel can be built");
    channel.run();
    (channel, pauses)
}

fn read_of(channel: &mut Embedded) -> usize {
    std::iter::from_fn(|| channel.read_inbound_any()).count()
}

#[test]
fn c09_a_pause_stops_the_round_and_reads_resume_when_it_is_dropped() {
    let (mut channel, pauses) = channel(ChannelOptions::default());
    channel.write_inbound_all((0..3).map(|_| Msg::from(bytes(5))));
    assert_eq!((read_of(&mut channel), channel.unread()), (1, 2), "the rest of the round waits");
    pauses.end_one(&mut channel);
    assert_eq!((read_of(&mut channel), channel.unread()), (1, 1));
    pauses.per_read.set(0);
    pauses.end_one(&mut channel);
    channel.write_inbound(bytes(5));
    assert_eq!((read_of(&mut channel), channel.unread()), (2, 0));
}

#[test]
fn c09_reads_resume_when_the_last_of_several_pauses_ends() {
    let (mut channel, pauses) = channel(ChannelOptions::default());
    pauses.per_read.set(3);
    channel.write_inbound(bytes(5));
    channel.write_inbound(bytes(5));
    pauses.per_read.set(0);
    for left in [1, 1, 0] {
        pauses.end_one(&mut channel);
        assert_eq!(channel.unread(), left);
    }
}

#[test]
fn c09_a_pause_does_not_change_auto_read_or_requested_reads() {
    let (mut channel, pauses) = channel(ChannelOptions::default());
    channel.write_inbound(bytes(5));
    channel.write_inbound(bytes(5));
    channel.on_loop(|channel| channel.set_auto_read(false));
    pauses.end_one(&mut channel);
    assert_eq!(channel.unread(), 1, "auto-read was turned off in the pause");
    channel.read();
    assert_eq!(channel.unread(), 0);
    channel.write_inbound(bytes(5));
    channel.read();
    assert_eq!(channel.unread(), 1, "requested, but paused");
    pauses.end_one(&mut channel);
    assert_eq!(channel.unread(), 0, "one round");
    pauses.end_one(&mut channel);
    channel.write_inbound(bytes(5));
    assert_eq!(channel.unread(), 1, "the end of a pause requests no read");
}

#[test]
fn c09_a_pause_ends_with_the_handler_that_keeps_it() {
    let mut channel = Embedded::builder()
        .stream()
        .build(|edit| edit.add_last("paused", PausedForever(None)).map(drop).map_err(Into::into))
        .expect("the channel can be built");
    channel.write_inbound(bytes(5));
    assert_eq!(channel.unread(), 1, "a pause from before the activation holds");
    channel.with_pipeline(|pipeline| pipeline.remove("paused")).unwrap().unwrap();
    assert_eq!(channel.unread(), 0);
}

#[test]
fn c09_a_pause_and_an_unwritable_channel_both_have_to_end() {
    let options = ChannelOptions {
        water_marks: WaterMarks::new(10, 20).unwrap(),
        pause_reads_while_unwritable: PauseReads::Always,
        ..ChannelOptions::default()
    };
    let (mut channel, pauses) = channel(options);
    channel.set_room(0);
    channel.write_inbound(bytes(5));
    channel.write_inbound(bytes(5));
    drop(channel.write_outbound(bytes(21)));
    pauses.end_one(&mut channel);
    assert_eq!(channel.unread(), 1, "not writable");
    channel.clear_faults();
    assert_eq!(channel.unread(), 0);
    channel.write_inbound(bytes(5));
    channel.set_room(0);
    drop(channel.write_outbound(bytes(21)));
    channel.clear_faults();
    assert_eq!(channel.unread(), 1, "writable, but paused");
}

#[test]
fn c09_a_pause_that_outlives_its_channel_has_no_effect() {
    let (mut channel, pauses) = channel(ChannelOptions::default());
    channel.write_inbound(bytes(5));
    channel.close();
    assert!(!channel.channel().is_open());
    pauses.end_one(&mut channel);
    channel.run();
}

#[test]
fn c09_a_pause_may_end_before_its_channel_is_registered() {
    struct Brief;
    impl Handler for Brief {
        fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            drop(ctx.pause_reads());
            Ok(())
        }
    }
    let mut channel = Embedded::new(|edit| Ok(edit.add_last("brief", Brief).map(drop)?)).unwrap();
    channel.write_inbound(7_u32);
    assert_eq!(channel.read_inbound::<u32>(), Some(7));
}
