//! The handle of a local future stays on the loop of that future.

use waterwheel_channel::LocalLoop;

fn main() {
    let here = LocalLoop::current().expect("the task runs on a loop");
    let join = here.spawn_local(async { 7 });
    std::thread::spawn(move || join.abort());
}
