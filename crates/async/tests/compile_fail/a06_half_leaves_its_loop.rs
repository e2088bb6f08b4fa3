//! The halves of an `AsyncChannel` stay on its loop.

use waterwheel_async::AsyncChannel;

fn read_elsewhere(connection: AsyncChannel<String>) {
    let (reader, _writer) = connection.split();
    std::thread::spawn(move || drop(reader));
}

fn main() {}
