//! Handing a connection over: the events of the chosen handlers, and their order.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use waterwheel_channel::{
    ChannelOptions, Ctx, Events, Handler, HandlerResult, In, InboundHandler, Message, Msg, Name,
    PipelineError, Signature, TypeTag,
};
use waterwheel_handlers::{Detection, ProtocolDetector};
use waterwheel_testkit::embedded::Embedded;
use waterwheel_testkit::recorder::{Log, RecordedMethod};

use crate::support::{Bench, begins, colours, inbound, record, taken_over};

#[test]
fn k13_a_first_read_that_decides_is_passed_on_without_a_copy() {
    let mut bench = Bench::new(colours);
    let read = Bytes::from(b"red and much more".to_vec());
    bench.channel.write_inbound(read.clone());
    let passed = bench.channel.read_inbound::<Bytes>().unwrap();
    assert_eq!(passed.as_ptr(), read.as_ptr());
    assert_eq!(passed, read);
}

#[test]
fn k13_bytes_in_many_pieces_arrive_in_one_piece_and_once() {
    let mut bench = Bench::new(colours);
    for piece in ["g", "re", "", "e"] {
        bench.send(piece);
        assert_eq!(bench.lines(), [""; 0]);
    }
    bench.channel.write_inbound_all([
        Bytes::from_static(b"n 1;").into(),
        Bytes::from_static(b"green 2;").into(),
        Bytes::from_static(b"green 3").into(),
    ]);
    assert_eq!(
        bench.lines(),
        [
            "green on_added",
            "green on_active",
            "green on_read green 1;",
            "green on_read green 2;",
            "green on_read green 3",
            "green on_read_complete",
        ]
    );
}

#[test]
fn k13_user_events_that_came_meanwhile_come_before_the_bytes() {
    let mut bench = Bench::new(colours);
    bench.channel.fire_user_event(String::from("first"));
    bench.send("gr");
    bench.channel.fire_user_event(String::from("second"));
    assert_eq!(bench.lines(), [""; 0]);
    bench.send("een");
    let lines = bench.lines();
    let expected = [
        "green on_added",
        "green on_active",
        "green on_user_event first",
        "green on_user_event second",
        "green on_read green",
        "green on_read_complete",
    ];
    assert_eq!(lines, expected);
    bench.channel.fire_user_event(String::from("third"));
    assert_eq!(bench.lines(), ["green on_user_event third"]);
}

#[test]
fn k13_at_most_sixteen_user_events_are_held() {
    /// Counts its instances by the references to a value.
    struct Counted {
        _count: Arc<()>,
    }
    impl Message for Counted {}

    let counted = Arc::new(());
    let mut bench = Bench::new(colours);
    for _ in 0..100 {
        bench.channel.fire_user_event(Counted { _count: counted.clone() });
    }
    assert_eq!(Arc::strong_count(&counted), 1 + 16);
    bench.channel.close();
    assert_eq!(Arc::strong_count(&counted), 1, "a refused connection keeps nothing");
}

#[test]
fn k13_handlers_that_were_there_before_see_the_connection_from_its_beginning() {
    let log = Log::new();
    let detector = colours(&log).otherwise({
        let log = log.clone();
        move |edit| {
            edit.add_after("detect", "other", log.recorder().interest(inbound()))?;
            Ok(())
        }
    });
    let detector = detector.build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        edit.add_last("app", log.recorder().interest(inbound()))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"x"));
    assert_eq!(
        log.take(),
        [
            "app on_added",
            "other on_added",
            "other on_active",
            "app on_active",
            "other on_read x",
            "app on_read x",
            "other on_read_complete",
            "app on_read_complete",
        ]
    );
}

#[test]
fn k13_an_initialiser_may_replace_the_detector_itself() {
    let log = Log::new();
    let detector = ProtocolDetector::builder().protocol("red", begins("red"), {
        let log = log.clone();
        move |edit| {
            edit.replace("detect", "detect", log.recorder().interest(inbound()))?;
            Ok(())
        }
    });
    let detector = detector.build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"re"));
    channel.write_inbound(Bytes::from_static(b"d!"));
    assert_eq!(log.take(), taken_over("detect", "red!"));
    channel.write_inbound(Bytes::from_static(b"!"));
    assert_eq!(log.take(), ["detect on_read !", "detect on_read_complete"]);
}

#[test]
fn k13_with_auto_read_off_the_detector_reads_until_it_has_decided() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut bench = Bench::with_options(options, colours);
    for piece in ["g", "r", "ee", "n", "later"] {
        bench.send(piece);
    }
    assert_eq!(bench.lines(), taken_over("green", "green"));
    assert_eq!(bench.channel.unread(), 1, "the next round is for the chosen handlers to request");
    bench.channel.read();
    assert_eq!(bench.lines(), ["green on_read later", "green on_read_complete"]);
}

#[test]
fn k13_with_auto_read_off_handlers_that_read_in_on_active_are_served() {
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut bench = Bench::with_options(options, |log| {
        let reader = log.clone();
        colours(log).otherwise(move |edit| {
            let recorder = reader.recorder().interest(inbound());
            let recorder = recorder.at(RecordedMethod::Active, |ctx| {
                ctx.read();
                Ok(())
            });
            edit.add_last("other", recorder)?;
            Ok(())
        })
    });
    bench.send("1");
    assert_eq!(bench.lines(), taken_over("other", "1"));
    bench.send("2");
    assert_eq!(bench.lines(), ["other on_read 2", "other on_read_complete"]);
    bench.send("3");
    assert_eq!(bench.lines(), [""; 0], "one round was requested");
}

#[test]
fn k13_bytes_that_are_fired_while_handlers_are_added_come_after_the_held_ones() {
    let mut bench = Bench::new(|log| {
        let log = log.clone();
        ProtocolDetector::builder().protocol("red", begins("red"), move |edit| {
            let recorder = log.recorder().interest(inbound());
            let recorder = recorder.at(RecordedMethod::Added, |ctx| {
                ctx.pipeline().fire_read(Bytes::from_static(b"added"));
                Ok(())
            });
            edit.add_last("red", recorder)?;
            Ok(())
        })
    });
    bench.send("red");
    assert_eq!(
        bench.lines(),
        [
            "red on_added",
            "red on_active",
            "red on_read red",
            "red on_read added",
            "red on_read_complete",
        ]
    );
    assert_eq!(bench.names(), ["red"]);
}

#[test]
fn k13_the_types_of_the_chosen_pipeline_are_checked_before_it_gets_a_byte() {
    struct Texts(Log);

    impl InboundHandler for Texts {
        type In = String;

        fn on_read(&mut self, _: &Ctx<'_>, text: String) -> HandlerResult {
            self.0.push(text);
            Ok(())
        }
    }

    let make = |decodes: bool| {
        let log = Log::new();
        let detector = ProtocolDetector::builder().protocol("red", begins("red"), move |edit| {
            if decodes {
                edit.add_after("detect", "decoded", Decoded)?;
            }
            Ok(())
        });
        let detector = detector.build().unwrap();
        let channel = Embedded::builder().stream().build(|edit| {
            edit.add_last("detect", detector)?;
            edit.add_last("texts", In(Texts(log.clone())))?;
            Ok(())
        });
        (channel.unwrap(), log)
    };
    let (mut channel, log) = make(true);
    channel.write_inbound(Bytes::from_static(b"red"));
    assert_eq!(log.take(), ["red"]);
    let (mut channel, log) = make(false);
    channel.write_inbound(Bytes::from_static(b"red"));
    let error = channel.read_error().unwrap();
    assert!(matches!(error.find(), Some(PipelineError::Types(_))), "{error}");
    assert!(!channel.channel().is_open());
    assert!(channel.read_inbound_any().is_none() && log.take().is_empty());
}

#[test]
fn k13_a_detector_that_is_removed_from_outside_passes_on_what_it_holds() {
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        edit.add_last("app", log.recorder().interest(inbound()))?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(Bytes::from_static(b"gr"));
    channel.fire_user_event(String::from("event"));
    channel.with_pipeline(|pipeline| pipeline.remove("detect")).unwrap().unwrap();
    assert_eq!(
        log.take(),
        [
            "app on_added",
            "app on_active",
            "app on_user_event event",
            "app on_read gr",
            "app on_read_complete",
        ]
    );
    channel.write_inbound(Bytes::from_static(b"ey"));
    assert_eq!(log.take(), ["app on_read ey", "app on_read_complete"]);
}

/// Answers the detector's first request with bytes, and removes it before it gets them.
#[derive(Default)]
struct RemovesDetector {
    has_answered: bool,
}

impl Handler for RemovesDetector {
    fn interest(&self) -> Events {
        Events::BEGIN_READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent()
    }

    fn read(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if !std::mem::replace(&mut self.has_answered, true) {
            ctx.fire_read(Bytes::from_static(b"red"));
            ctx.pipeline().remove("detect")?;
        }
        ctx.read();
        Ok(())
    }
}

#[test]
fn k13_a_detector_that_was_removed_while_it_ran_chooses_nothing_any_more() {
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let options = ChannelOptions { auto_read: false, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .stream()
        .options(options)
        .build(|edit| {
            edit.add_last("remover", RemovesDetector::default())?;
            edit.add_last("detect", detector)?;
            edit.add_last("app", log.recorder().interest(inbound()))?;
            Ok(())
        })
        .unwrap();
    assert_eq!(log.take(), ["app on_added", "app on_active", "app on_read red"]);
    let names = channel.with_pipeline(|pipeline| pipeline.names()).unwrap();
    assert_eq!(names, ["remover", "app"]);
}

#[test]
fn k13_messages_that_are_no_bytes_pass() {
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("detect", detector)?;
        Ok(())
    })
    .unwrap();
    channel.write_inbound(String::from("no bytes"));
    assert_eq!(channel.read_inbound::<String>().unwrap(), "no bytes");
    channel.write_inbound(Bytes::from_static(b"red"));
    assert_eq!(log.take(), taken_over("red", "red"));
}

#[test]
fn k13_a_detector_in_an_active_pipeline_announces_nothing_twice() {
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let mut channel = Embedded::new(|edit| {
        edit.add_last("app", log.recorder().interest(inbound()))?;
        Ok(())
    })
    .unwrap();
    channel.with_pipeline(|pipeline| pipeline.add_first("detect", detector)).unwrap().unwrap();
    channel.write_inbound(Bytes::from_static(b"red"));
    let expected =
        ["app on_added", "app on_active", "red on_added", "app on_read red", "red on_read red"];
    assert_eq!(log.take()[..5], expected);
}

#[test]
fn k13_every_clone_detects_on_its_own() {
    let log = Log::new();
    let detector = colours(&log).build().unwrap();
    let clones = Arc::new(Mutex::new(detector.clone()));
    for first in ["red", "green"] {
        let mut channel = Embedded::new(|edit| {
            edit.add_last(Name::auto(), clones.lock().unwrap().clone())?;
            Ok(())
        })
        .unwrap();
        channel.write_inbound(Bytes::from_static(first.as_bytes()));
        assert_eq!(log.take(), taken_over(first, first));
        drop(channel);
        drop(log.take());
    }
    drop(detector);
}

#[test]
fn k13_a_detector_after_a_decoder_is_refused_when_it_is_added() {
    let log = Log::new();
    let never = ProtocolDetector::builder().protocol(
        "never",
        |_: &[u8]| Detection::NoMatch,
        record(&log, "never"),
    );
    let detector = never.build().unwrap();
    let refused = Embedded::builder().stream().build(|edit| {
        edit.add_last("decoded", Decoded)?;
        edit.add_last("detect", detector)?;
        Ok(())
    });
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("`detect` accepts"), "{error}");
}

/// Stands for a decoder: turns bytes into text.
struct Decoded;

impl Handler for Decoded {
    fn interest(&self) -> Events {
        Events::READ
    }

    fn signature(&self) -> Signature {
        Signature::transparent().inbound(TypeTag::list::<Bytes>(), TypeTag::list::<String>())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let bytes = msg.into_bytes().unwrap();
        ctx.fire_read(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(())
    }
}
