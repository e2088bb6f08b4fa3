//! Channels that write to each other inside nested calls.

use super::support::{LoopFixture, ScriptedTransport, on_event};

/// Each channel, except the last, fires an event at the next channel and then writes to it while it is
/// writable.
#[test]
fn c07_rule_6_writes_that_wait_to_enter_a_busy_channel_are_pending() {
    const CHANNELS: usize = 20;
    const MAX_WRITES: usize = 1000;
    let mut fixture = LoopFixture::new();
    let mut next = fixture.register(ScriptedTransport::default(), |_| Ok(()));
    for _ in 0..CHANNELS {
        let target = next.clone();
        next = fixture.register(ScriptedTransport::default(), |edit| {
            edit.add_last(
                "app",
                on_event(move |_| {
                    target.fire_user_event(());
                    let mut written = 0;
                    while target.is_writable() {
                        drop(target.write(vec![0; 1024]));
                        written += 1;
                        assert!(written < MAX_WRITES, "the channel never becomes unwritable");
                    }
                }),
            )?;
            Ok(())
        });
    }
    fixture.on(|_| next.fire_user_event(()));
    fixture.run();
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
}
