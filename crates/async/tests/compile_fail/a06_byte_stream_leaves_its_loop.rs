//! A `ByteStream` stays on its loop: a task of a runtime with threads cannot have it.

use waterwheel_async::ByteStream;

fn serve_on_tokio(runtime: &tokio::runtime::Runtime, mut stream: ByteStream) {
    runtime.spawn(async move { stream.next_bytes().await });
}

fn main() {}
