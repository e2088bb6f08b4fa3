//! Streams that leave their loop, or cannot (C04).

use super::line::{Line, both};

#[test]
fn c04_a_channel_that_cannot_leave_goes_on_reading() {
    both(|manual| {
        let mut line = Line::new(&manual);
        line.run();
        line.taken_log();
        manual.hold_completions();
        line.write(0, "under way, or written", true);
        let mut left = line.here(|channel| channel.deregister());
        manual.release();
        line.run();
        let left = left.try_take().expect("it is told");
        assert_eq!(line.told(), [(0, true)]);
        if left.is_ok() {
            let _registered = line.here(|channel| channel.register());
            line.run();
        }
        line.taken_log();
        line.peer.send("heard");
        line.run();
        assert_eq!(line.taken_log(), ["read 5", "read complete"], "left: {left:?}");
    });
}
