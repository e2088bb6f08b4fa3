//! Streams of bytes by the traits of tokio, futures and hyper.

use std::io::IoSlice;
use std::pin::Pin;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use waterwheel_async::{AsyncChannel, ByteStream};

use crate::support::{installed, serving, spawn};

async fn echo(connection: AsyncChannel<Bytes>) -> std::io::Result<()> {
    let mut stream = ByteStream::new(connection);
    let mut buffer = [0; 16];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

#[test]
fn a03_tokio_code_echoes_over_a_byte_stream() {
    let mut channel = serving(echo);
    channel.write_inbound(Bytes::from_static(b"a message that is longer than the buffer"));
    channel.run();
    let mut answer = Vec::new();
    while let Some(part) = channel.read_outbound::<Bytes>() {
        answer.extend_from_slice(&part);
    }
    assert_eq!(answer, b"a message that is longer than the buffer");
    channel.finish_inbound();
    channel.run();
    assert!(!channel.channel().is_open());
}

#[test]
fn a03_lines_are_read_without_a_buffer_of_their_own() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let read = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let rest = stream.next_bytes().await.unwrap();
        (line, rest)
    });
    channel.write_inbound(Bytes::from_static(b"one line, in "));
    channel.write_inbound(Bytes::from_static(b"two parts\nand more"));
    channel.run();
    let (line, rest) = read.take().unwrap();
    assert_eq!(line, "one line, in two parts\n");
    assert_eq!(rest.unwrap(), "and more");
}

#[test]
fn a03_a_vectored_write_is_one_message() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let written = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        let parts = [IoSlice::new(b"head "), IoSlice::new(b""), IoSlice::new(b"body")];
        let count = std::future::poll_fn(|context| {
            Pin::new(&mut stream).poll_write_vectored(context, &parts)
        })
        .await;
        (count.unwrap(), stream)
    });
    assert_eq!(written.take().unwrap().0, 9);
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "head body");
}

#[test]
fn a03_a_flush_waits_for_the_transport_and_a_shutdown_ends_the_output() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let done = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        stream.shutdown().await.unwrap();
        let late = stream.write_all(b"late").await.unwrap_err().kind();
        (late, stream)
    });
    assert!(done.borrow().is_none());
    channel.set_room(usize::MAX);
    channel.run();
    let (late, _stream) = done.take().unwrap();
    assert_eq!(late, std::io::ErrorKind::BrokenPipe);
    assert!(channel.channel().is_open());
}

#[test]
fn a03_a_write_takes_what_fits_and_waits_while_the_channel_is_not_writable() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let done = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        stream.write_all(&vec![7; 1_000_000]).await.unwrap();
        stream
    });
    assert!(done.borrow().is_none());
    assert!(
        channel.channel().pending_bytes() <= 2 * 64 * 1024 + 1,
        "{}",
        channel.channel().pending_bytes()
    );
    channel.set_room(usize::MAX);
    channel.run();
    let mut total = 0;
    while let Some(part) = channel.read_outbound::<Bytes>() {
        total += part.len();
    }
    assert_eq!(total, 1_000_000);
    assert!(done.borrow().is_some());
}

#[test]
fn a03_a_reset_is_an_error_of_the_kernels_kind() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let read = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        stream.read_u8().await.unwrap_err().kind()
    });
    channel.fail(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
    channel.run();
    assert_eq!(read.take(), Some(std::io::ErrorKind::ConnectionReset));
}
