//! Messages whose `size_hint` uses their channel.

use std::sync::mpsc;

use waterwheel_channel::{Channel, Message};

use super::support::{LoopFixture, ScriptedTransport, on_event_in_the_path_of_writes};

/// A message that writes to its channel in `size_hint`.
struct WritesInSizeHint {
    channel: Channel,
    asked: mpsc::Sender<()>,
}

impl Message for WritesInSizeHint {
    fn size_hint(&self) -> usize {
        self.channel.fire_user_event(());
        self.channel.flush();
        drop(self.channel.write(String::from("meddled")));
        let _ = self.asked.send(());
        1
    }
}

#[test]
fn c05_rule_1_nothing_is_borrowed_while_size_hint_runs() {
    let mut fixture = LoopFixture::new();
    let (asked, count) = mpsc::channel();
    let mut first = true;
    let channel = fixture.register(ScriptedTransport::default(), |edit| {
        edit.add_last(
            "app",
            on_event_in_the_path_of_writes(move |ctx| {
                if std::mem::take(&mut first) {
                    let channel = ctx.channel();
                    // One write starts at the tail and is deferred by this busy handler; one starts at this handler.
                    drop(channel.write(WritesInSizeHint {
                        channel: channel.clone(),
                        asked: asked.clone(),
                    }));
                    ctx.write(WritesInSizeHint { channel, asked: asked.clone() });
                }
            }),
        )?;
        Ok(())
    });
    fixture.on(|_| {
        channel.fire_user_event(());
        channel.flush();
    });
    fixture.run();
    assert!(count.try_iter().count() >= 2);
    assert_eq!(fixture.reports.take(), Vec::<String>::new());
    assert!(channel.is_open());
    fixture.on(|_| channel.flush());
    assert_eq!(channel.pending_bytes(), 0);
}
