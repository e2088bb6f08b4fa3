//! Messages with a huge `size_hint`, and water marks of `usize::MAX`.

use waterwheel_channel::{ChannelOptions, Message, WaterMarks};
use waterwheel_testkit::embedded::Embedded;

use super::support::{LoopFixture, ScriptedTransport, on_event, on_event_in_the_path_of_writes};

/// A message whose `size_hint` exceeds all memory.
struct HugeSizeHint;

impl Message for HugeSizeHint {
    fn size_hint(&self) -> usize {
        usize::MAX
    }
}

#[test]
fn c07_size_hints_near_usize_max_do_not_overflow_the_pending_bytes() {
    let mut fixture = LoopFixture::new();
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last(
            "app",
            on_event_in_the_path_of_writes(|ctx| {
                for _ in 0..3 {
                    drop(ctx.channel().write(HugeSizeHint));
                }
                assert!(!ctx.is_writable());
                assert!(!ctx.channel().is_writable());
                assert!(ctx.bytes_before_writable() > 0);
            }),
        )?;
        Ok(())
    });
    fixture.on(|_| channel.fire_user_event(()));
    drop([channel.write(HugeSizeHint), channel.write(HugeSizeHint)]);
    assert!(!channel.is_writable());
    fixture.run();
    fixture.on(|_| channel.flush());
    fixture.run();
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
    assert!(channel.is_open());
    assert_eq!(channel.pending_bytes(), 0);
    assert!(channel.is_writable(), "nothing is pending");
}

#[test]
fn c07_a_high_water_mark_of_usize_max_works() {
    let water_marks = WaterMarks::new(0, usize::MAX).expect("valid water marks");
    let options = ChannelOptions { water_marks, ..ChannelOptions::default() };
    let mut channel = Embedded::builder()
        .options(options)
        .build(|edit| {
            edit.add_last(
                "app",
                on_event(|ctx| assert_eq!(ctx.bytes_before_unwritable(), usize::MAX)),
            )?;
            Ok(())
        })
        .expect("the channel can be built");
    channel.on_loop(|channel| channel.fire_user_event(()));
    assert!(channel.channel().is_open());
    assert_eq!(channel.channel().bytes_before_unwritable(), usize::MAX);
}
