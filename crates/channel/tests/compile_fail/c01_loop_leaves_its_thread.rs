//! The loop as seen from its own thread stays there; its handle goes anywhere.

use waterwheel_channel::LocalLoop;

fn main() {
    let here = LocalLoop::current().expect("the loop can be built");
    let handle = here.handle();
    std::thread::spawn(move || handle.in_event_loop());
    std::thread::spawn(move || here.registered_channels());
}
