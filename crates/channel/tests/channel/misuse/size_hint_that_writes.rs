//! Messages that use their channel when they are weighed.

use std::sync::mpsc;

use waterwheel_channel::{Channel, Message};

use super::support::{Puppet, Stage, in_the_way};

/// A message that writes when it is weighed.
struct Meddler {
    channel: Channel,
    asked: mpsc::Sender<()>,
}

impl Message for Meddler {
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
    let mut stage = Stage::new();
    let (asked, count) = mpsc::channel();
    let mut first = true;
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last(
            "app",
            in_the_way(move |ctx| {
                if std::mem::take(&mut first) {
                    let channel = ctx.channel();
                    // At a busy handler, and past it.
                    drop(channel.write(Meddler { channel: channel.clone(), asked: asked.clone() }));
                    ctx.write(Meddler { channel, asked: asked.clone() });
                }
            }),
        )?;
        Ok(())
    });
    stage.on(|_| {
        channel.fire_user_event(());
        channel.flush();
    });
    stage.run();
    assert!(count.try_iter().count() >= 2);
    assert_eq!(stage.reports.take(), Vec::<String>::new());
    assert!(channel.is_open());
    stage.on(|_| channel.flush());
    assert_eq!(channel.pending_bytes(), 0);
}
