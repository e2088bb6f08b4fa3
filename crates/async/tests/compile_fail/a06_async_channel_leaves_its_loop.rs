//! An `AsyncChannel` stays on its loop; `into_remote` makes one that need not.

use waterwheel_async::AsyncChannel;

fn serve_elsewhere(mut connection: AsyncChannel<String>) {
    std::thread::spawn(move || drop(connection.next()));
}

fn main() {}
