//! A future that goes to another loop cannot take handles of this loop with it.

use waterwheel_channel::{EventLoop, LocalLoop};

fn hand_over(other: &EventLoop, here: LocalLoop) {
    let join = here.spawn_local(async { 7 });
    let _ = other.spawn(async move { join.await });
}

fn main() {}
