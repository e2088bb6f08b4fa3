//! Messages that must not be missing: a refused one closes the channel, and none that follows it is sent.

use bytes::{BufMut, Bytes, BytesMut};
use waterwheel_channel::{
    ChannelError, ChannelOptions, Completion, Ctx, Encode, Encoder, Events, Handler, HandlerResult,
    Msg, WatchedCompletion, WaterMarks,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::{Embedded, EmbeddedBuilder};

/// Writes every message that is read, as one that must not be missing.
struct Answer;

impl Handler for Answer {
    fn interest(&self) -> Events {
        Events::READ | Events::READ_COMPLETE
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        // The bytes of a stream name the number to answer.
        let msg = msg.into_bytes().map_or_else(|msg| msg, |bytes| u32::from(bytes[0]).into());
        ctx.write_or_close(msg);
        Ok(())
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.flush();
        Ok(())
    }
}

/// Encodes numbers below ten as a digit each.
struct Digits;

impl Encoder for Digits {
    type In = u32;

    fn encode(&mut self, number: u32, dst: &mut BytesMut) -> HandlerResult {
        if number > 9 {
            return Err(Error::new("not a digit"));
        }
        dst.put_u8(b'0' + number as u8);
        Ok(())
    }
}

fn digits(builder: EmbeddedBuilder) -> Embedded {
    let channel = builder.build(|edit| {
        edit.add_last("digits", Encode::new(Digits))?;
        edit.add_last("answer", Answer)?;
        Ok(())
    });
    channel.unwrap()
}

fn numbers(numbers: &[u32]) -> Vec<Msg> {
    numbers.iter().map(|number| Msg::from(*number)).collect()
}

fn sent(channel: &mut Embedded) -> Vec<Bytes> {
    std::iter::from_fn(|| channel.read_outbound::<Bytes>()).collect()
}

fn close_cause(channel: &Embedded) -> String {
    channel.channel().close_cause().unwrap().to_string()
}

#[test]
fn c07_a_required_message_that_cannot_be_encoded_closes_the_channel_after_the_earlier_ones() {
    let mut channel = digits(Embedded::builder());
    channel.write_inbound_all(numbers(&[1, 2, 12, 3]));
    assert_eq!(sent(&mut channel), ["1", "2"], "nothing takes the place of the third message");
    assert_eq!(close_cause(&channel), "not a digit");
    assert_eq!(channel.read_error().unwrap().to_string(), "not a digit", "fired inward");
    assert!(channel.read_error().is_none(), "once");
}

#[test]
fn c07_a_required_message_beyond_the_hard_cap_closes_the_channel() {
    let marks = WaterMarks::new(1, 2).unwrap().with_hard_cap(2).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let mut channel = digits(Embedded::builder().options(options));
    channel.set_room(0);
    channel.write_inbound_all(numbers(&[1, 2, 3, 4]));
    let cause = channel.channel().close_cause().unwrap();
    assert!(matches!(cause.find(), Some(ChannelError::BufferFull { .. })), "{cause}");
    channel.clear_faults();
    assert!(sent(&mut channel).len() <= 2);
}

#[test]
fn c07_a_required_message_that_the_transport_does_not_accept_closes_the_channel() {
    let built = Embedded::builder().stream().build(|edit| {
        edit.add_last("answer", Answer)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.write_inbound(Bytes::from_static(&[7]));
    let cause = channel.channel().close_cause().unwrap();
    assert!(matches!(cause.find(), Some(ChannelError::UnsupportedMessage { .. })), "{cause}");
}

#[test]
fn k05_small_required_messages_are_joined_as_others_are() {
    let mut channel = digits(Embedded::builder().stream());
    channel.write_inbound_all([1, 2, 3].map(|number| Msg::from(Bytes::from(vec![number]))));
    assert_eq!(sent(&mut channel), ["123"]);
    assert!(channel.channel().is_open());
    channel.write_inbound_all([4, 12, 5].map(|number| Msg::from(Bytes::from(vec![number]))));
    assert_eq!(sent(&mut channel), ["4"]);
    assert_eq!(close_cause(&channel), "not a digit");
}

#[test]
fn c07_a_required_message_after_a_shutdown_of_the_output_is_dropped_and_does_not_close() {
    let mut channel = digits(Embedded::builder());
    drop(channel.on_loop(|channel| channel.shutdown_output()));
    channel.run();
    channel.write_inbound_all(numbers(&[1]));
    assert!(sent(&mut channel).is_empty());
    assert!(channel.channel().is_open() && channel.read_error().is_none());
}

#[test]
fn c07_a_required_message_that_is_refused_later_closes_the_channel_too() {
    /// Occupies one slot, so that answers wait until its own call has returned (rule 2).
    struct OneSlot;
    impl Handler for OneSlot {
        fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
            ctx.fire_read(msg);
            Ok(())
        }
        fn write(&mut self, _: &Ctx<'_>, _: Msg, _: &mut Completion) -> HandlerResult {
            Err(Error::new("refused later"))
        }
    }
    let built = Embedded::new(|edit| {
        edit.add_last("one slot", OneSlot)?;
        edit.add_last("answer", Answer)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.write_inbound_all(numbers(&[1]));
    assert_eq!(close_cause(&channel), "refused later");
}

#[test]
fn c07_nothing_follows_a_required_message_that_is_refused_later() {
    /// Decodes and encodes in one slot, as a codec does: answers wait until its own call has returned.
    struct Codec;
    impl Handler for Codec {
        fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
            let bytes = msg.into_bytes().unwrap();
            bytes.iter().for_each(|number| ctx.fire_read(u32::from(*number)));
            Ok(())
        }
        fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
            let number = *msg.get::<u32>().unwrap();
            if number > 9 {
                return Err(Error::new("not a digit"));
            }
            ctx.write_with(Bytes::from(number.to_string()), done.take());
            Ok(())
        }
    }
    let built = Embedded::new(|edit| {
        edit.add_last("codec", Codec)?;
        edit.add_last("answer", Answer)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.write_inbound(Bytes::from_static(&[1, 2, 12, 3]));
    assert_eq!(sent(&mut channel), ["1", "2"], "nothing takes the place of the third message");
    assert_eq!(close_cause(&channel), "not a digit");
    assert_eq!(channel.read_error().unwrap().to_string(), "not a digit", "fired inward");
    assert!(channel.read_error().is_none(), "once");
}

#[test]
fn c07_nothing_follows_a_required_message_that_is_refused_while_a_handler_watches_it() {
    struct Watches;
    impl Handler for Watches {
        fn interest(&self) -> Events {
            Events::WRITE
        }
        fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
            ctx.write_with(msg, WatchedCompletion::new().wrap(done.take()));
            Ok(())
        }
    }
    struct WritesLines;
    impl Handler for WritesLines {
        fn on_read(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
            ["12", "a line that is too long", "3"].into_iter().for_each(|line| {
                ctx.write_or_close(Bytes::from_static(line.as_bytes()));
            });
            ctx.flush();
            Ok(())
        }
    }
    let marks = WaterMarks::new(1, 2).unwrap().with_hard_cap(4).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let built = Embedded::builder().options(options).build(|edit| {
        edit.add_last("watches", Watches)?;
        edit.add_last("writes", WritesLines)?;
        Ok(())
    });
    let mut channel = built.unwrap();
    channel.write_inbound(Bytes::from_static(b"go"));
    assert_eq!(sent(&mut channel), ["12"]);
    let cause = channel.channel().close_cause().unwrap();
    assert!(matches!(cause.find(), Some(ChannelError::BufferFull { .. })), "{cause}");
}
