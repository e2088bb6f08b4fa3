//! Messages whose destructors panic (rule 11).

use waterwheel_channel::Message;

use crate::support::{Puppet, Stage, in_the_way};

/// A message whose destructor panics.
struct Bomb;

impl Message for Bomb {
    fn size_hint(&self) -> usize {
        10
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a bomb");
    }
}

#[test]
fn c05_rule_11_a_message_that_panics_when_it_is_dropped_does_not_keep_a_channel_open() {
    let mut stage = Stage::new();
    let channel = stage.register(Puppet::default(), |edit| {
        edit.add_last(
            "app",
            in_the_way(|ctx| {
                let writes = [(); 3].map(|()| ctx.channel().write(Bomb));
                drop(writes);
                panic!("oh");
            }),
        )?;
        Ok(())
    });
    let other = stage.register(Puppet::default(), |_| Ok(()));
    stage.on(|_| channel.fire_user_event(()));
    stage.run();
    assert!(!channel.is_open());
    assert!(channel.closed().is_done());
    assert_eq!(channel.pending_bytes(), 0, "nothing waits any more");
    assert!(other.is_open());
    assert_eq!(stage.on(|here| here.registered_channels()), [other]);
}
