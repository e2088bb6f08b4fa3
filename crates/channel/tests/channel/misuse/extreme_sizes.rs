//! Messages that lie about their weight, and water marks at the end of the scale.

use waterwheel_channel::{ChannelOptions, Message, WaterMarks};
use waterwheel_testkit::embedded::Embedded;

use super::support::{Puppet, Stage, in_the_way, on_event};

/// Weighs more than there is.
struct Heavy;

impl Message for Heavy {
    fn size_hint(&self) -> usize {
        usize::MAX
    }
}

#[test]
fn c07_size_hints_near_usize_max_do_not_overflow_the_pending_bytes() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last(
            "app",
            in_the_way(|ctx| {
                for _ in 0..3 {
                    drop(ctx.channel().write(Heavy));
                }
                assert!(!ctx.is_writable());
                assert!(!ctx.channel().is_writable());
                assert!(ctx.bytes_before_writable() > 0);
            }),
        )?;
        Ok(())
    });
    stage.on(|_| channel.fire_user_event(()));
    drop([channel.write(Heavy), channel.write(Heavy)]);
    assert!(!channel.is_writable());
    stage.run();
    stage.on(|_| channel.flush());
    stage.run();
    assert_eq!(stage.reports.take(), Vec::<String>::new());
    assert!(channel.is_open());
    assert_eq!(channel.pending_bytes(), 0);
    assert!(channel.is_writable(), "all of it is gone");
}

#[test]
fn c07_a_high_water_mark_of_usize_max_works() {
    let water_marks = WaterMarks::new(0, usize::MAX).expect("in order");
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
        .expect("it can be made");
    channel.on_loop(|channel| channel.fire_user_event(()));
    assert!(channel.channel().is_open());
    assert_eq!(channel.channel().bytes_before_unwritable(), usize::MAX);
}
