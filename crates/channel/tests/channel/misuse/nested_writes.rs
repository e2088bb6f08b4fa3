//! Channels that write to each other, one inside the other.

use super::support::{LoopFixture, ScriptedTransport, on_event};

/// Writes to the next one as long as that takes more; but for the last one, everybody also asks the
/// next one to do the same.
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
                        assert!(written < MAX_WRITES, "nothing holds it back");
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
