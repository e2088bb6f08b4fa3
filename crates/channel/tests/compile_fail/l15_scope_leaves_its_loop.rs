//! A scope of futures stays on its loop.

use waterwheel_channel::{LocalLoop, TaskScope};

fn main() {
    let here = LocalLoop::current().expect("the task runs on a loop");
    let scope = TaskScope::new(&here);
    std::thread::spawn(move || scope.end());
}
