//! A scope of futures stays on its loop.

use waterwheel_channel::TaskScope;

fn end_elsewhere(scope: TaskScope) {
    std::thread::spawn(move || scope.end());
}

fn main() {}
