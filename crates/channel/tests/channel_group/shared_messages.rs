//! Messages that a handler encodes by reference for each channel of a group (C14).

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use waterwheel_channel::local as transport;
use waterwheel_channel::{
    Channel, ChannelGroup, Completion, Ctx, Events, Handler, HandlerResult, Message, Msg,
};
use waterwheel_testkit::loop_suite::panic_quietly;

use crate::support::{LocalFixture, Log, RecordingHandler};

/// A text that counts its clones.
struct Line {
    text: &'static str,
    clones: Arc<AtomicUsize>,
    /// The number of the clone that panics.
    panics_at: usize,
}

impl Line {
    fn new(text: &'static str) -> Self {
        Self { text, clones: Arc::default(), panics_at: usize::MAX }
    }
}

impl Clone for Line {
    fn clone(&self) -> Self {
        if self.clones.fetch_add(1, Ordering::Relaxed) + 1 == self.panics_at {
            panic_quietly("a clone")
        }
        Self { clones: self.clones.clone(), ..*self }
    }
}

impl Message for Line {
    fn size_hint(&self) -> usize {
        self.text.len()
    }
}

/// The answer of an encoder to a shared line.
#[derive(Clone, Copy, PartialEq)]
enum Shared {
    Encodes,
    Declines,
    Panics,
}

/// Encodes lines as bytes, with a sign that tells by which method.
struct LineEncoder(Shared);

impl Handler for LineEncoder {
    fn interest(&self) -> Events {
        Events::WRITE
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        match msg.take::<Line>() {
            Ok(line) => ctx.write_with(format!("clone {}", line.text), done.take()),
            Err(other) => ctx.write_with(other, done.take()),
        }
        Ok(())
    }

    fn encode_shared(&mut self, _: &Ctx<'_>, msg: &dyn Message) -> Option<Bytes> {
        let line: &Line = (msg as &dyn Any).downcast_ref()?;
        match self.0 {
            Shared::Encodes => Some(Bytes::from(format!("shared {}", line.text))),
            Shared::Declines => None,
            Shared::Panics => panic_quietly("encode_shared"),
        }
    }
}

/// Returns a group with a member for each encoder, on the fixture's loops in turn; their peers, `a`, `b` and `c`, log what
/// they read.
fn group_of(
    fixture: &mut LocalFixture,
    log: &Log,
    encoders: [Shared; 3],
) -> (ChannelGroup, Vec<Channel>) {
    let group = ChannelGroup::new("room");
    let names = ["a", "b", "c"];
    let members = names.into_iter().zip(encoders).enumerate().map(|(at, (name, shared))| {
        let (ours, theirs) = transport::pair();
        let added = fixture.on(at, |here| {
            here.register_with(ours, |edit| {
                edit.add_last("encoder", LineEncoder(shared))?;
                Ok(())
            })
        });
        let member = added.unwrap();
        let reads = log.clone();
        let peer = RecordingHandler::new(name, &Log::default()).on_read(move |_, msg| {
            let text = match msg.take::<Bytes>() {
                Ok(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Err(other) => other.take::<String>().unwrap_or_else(|other| panic!("{other:?}")),
            };
            reads.add(format!("{name}: {text}"));
            Ok(())
        });
        fixture.register(at, theirs, peer);
        assert!(group.add(&member));
        member
    });
    let members = members.collect();
    (group, members)
}

#[test]
fn c14_a_message_is_encoded_by_reference_for_each_channel_and_cloned_for_each_other_loop() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, _members) = group_of(fixture, &log, [Shared::Encodes; 3]);
        let (line, loops) = (Line::new("hi"), 1 + usize::from(fixture.has_two_loops()));
        fixture.on(0, |_| group.send(line.clone()));
        for name in ["a", "b", "c"] {
            assert_eq!(log.of(name), ["shared hi"]);
        }
        assert_eq!(line.clones.load(Ordering::Relaxed), loops, "the first by the test");
    });
}

#[test]
fn c14_a_channel_that_declines_a_shared_message_gets_a_clone() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let encoders = [Shared::Encodes, Shared::Declines, Shared::Encodes];
        let (group, _members) = group_of(fixture, &log, encoders);
        fixture.on(0, |_| group.send(Line::new("hi")));
        group.send(Line::new("from no loop"));
        fixture.run();
        for (name, way) in [("a", "shared"), ("b", "clone"), ("c", "shared")] {
            assert_eq!(log.of(name), [format!("{way} hi"), format!("{way} from no loop")]);
        }
    });
}

#[test]
fn c14_a_second_handler_that_is_interested_in_writes_sees_a_clone() {
    struct Watch(Events, Log);

    impl Handler for Watch {
        fn interest(&self) -> Events {
            self.0
        }

        fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
            self.1.add(format!("watch: {}", msg.is::<Line>()));
            ctx.write_with(msg, done.take());
            Ok(())
        }

        fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
            self.1.add("watch: flush");
            ctx.flush();
            Ok(())
        }
    }

    LocalFixture::on_one_and_two_loops(|fixture| {
        for (interest, seen) in [(Events::WRITE, "true"), (Events::FLUSH, "flush")] {
            let log = Log::default();
            let (group, members) = group_of(fixture, &log, [Shared::Encodes; 3]);
            let watch = log.clone();
            let added = members[1].with_pipeline(move |pipeline| {
                pipeline
                    .edit(|edit| edit.add_last("watch", Watch(interest, watch)).map(drop))
                    .unwrap();
            });
            fixture.outcome(added).unwrap();
            fixture.on(0, |_| group.send(Line::new("hi")));
            assert_eq!(log.of("watch"), [seen]);
            assert_eq!(
                ["a", "b", "c"].map(|name| log.of(name).concat()),
                ["shared hi", "clone hi", "shared hi"]
            );
        }
    });
}

#[test]
fn c14_shared_messages_keep_the_order_of_writes() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_of(fixture, &log, [Shared::Encodes; 3]);
        let last = members[0].clone();
        fixture.on(0, |_| {
            drop(last.write(String::from("not flushed")));
            group.send(Line::new("one"));
            last.send(String::from("mine"));
            group.send(Line::new("two"));
        });
        assert_eq!(log.of("a"), ["not flushed", "shared one", "mine", "shared two"]);
        assert_eq!(log.of("b"), ["shared one", "shared two"]);
    });
}

#[test]
fn c02_a_shared_message_on_which_a_handler_panics_closes_its_channel_alone() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let encoders = [Shared::Encodes, Shared::Panics, Shared::Encodes];
        let (group, members) = group_of(fixture, &log, encoders);
        fixture.on(0, |_| group.send(Line::new("hi")));
        assert_eq!([0, 1, 2].map(|at: usize| members[at].is_open()), [true, false, true]);
        fixture.on(0, |_| group.send(Line::new("again")));
        for name in ["a", "c"] {
            assert_eq!(log.of(name), ["shared hi", "shared again"]);
        }
        assert_eq!(log.of("b"), [""; 0]);
        assert!(!fixture.reports().is_empty(), "the panic is reported");
    });
}

#[test]
fn c02_a_clone_that_panics_on_the_loop_closes_the_channel_that_it_is_for() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        if fixture.has_two_loops() {
            return; // There the clone for the other loop comes first, before any channel gets the message.
        }
        let log = Log::default();
        let (group, members) = group_of(fixture, &log, [Shared::Declines; 3]);
        fixture.on(0, |_| group.send(Line { panics_at: 2, ..Line::new("hi") }));
        assert_eq!([0, 1, 2].map(|at: usize| members[at].is_open()), [true, false, true]);
        assert_eq!((log.of("a"), log.of("c")), (vec!["clone hi".into()], vec!["clone hi".into()]));
        assert!(!fixture.reports().is_empty(), "the panic is reported");
    });
}

#[test]
fn c14_bytes_reach_the_members_of_a_group_after_its_members_have_changed() {
    LocalFixture::on_one_and_two_loops(|fixture| {
        let log = Log::default();
        let (group, members) = group_of(fixture, &log, [Shared::Encodes; 3]);
        let send = |fixture: &mut LocalFixture, text: &'static str| {
            fixture.on(0, |_| group.send(Bytes::from_static(text.as_bytes())));
        };
        send(fixture, "all");
        assert!(group.remove(&members[1]));
        send(fixture, "without b");
        assert!(group.add(&members[1]));
        send(fixture, "all again");
        let closed = members[2].close();
        fixture.outcome(closed).unwrap();
        send(fixture, "without c");
        assert_eq!(log.of("a"), ["all", "without b", "all again", "without c"]);
        assert_eq!(log.of("b"), ["all", "all again", "without c"]);
        assert_eq!(log.of("c"), ["all", "without b", "all again"]);
    });
}
