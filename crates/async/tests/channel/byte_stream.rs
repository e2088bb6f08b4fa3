//! Streams of bytes by the traits of tokio, futures and hyper.

use std::future::poll_fn;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use waterwheel_async::{AsyncChannel, ByteStream};
use waterwheel_channel::{Completion, Ctx, Handler, HandlerResult, Msg, PendingWriteQueue};
use waterwheel_testkit::embedded::Embedded;

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
fn a03_a_flush_inside_of_a_call_into_the_channel_sends_at_once() {
    let mut channel = serving(|connection: AsyncChannel<Bytes>| async move {
        let mut stream = ByteStream::new(connection);
        while let Some(bytes) = stream.next_bytes().await? {
            stream.write_all(&bytes).await?;
            let mut polls = 0;
            let mut flush = std::pin::pin!(stream.flush());
            std::future::poll_fn(|context| {
                polls += 1;
                flush.as_mut().poll(context)
            })
            .await?;
            assert_eq!(polls, 1, "nothing was waited for");
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    channel.with_pipeline(|pipeline| {
        pipeline.fire_read(Bytes::from_static(b"hello"));
        pipeline.fire_read_complete();
    });
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
    assert!(channel.channel().is_open(), "the function has not failed");
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

#[test]
fn a03_a_flush_fails_if_the_close_has_lost_its_bytes() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let mut stream = ByteStream::new(connection);
    let written = spawn(&mut channel, async move { (stream.write_all(b"hello").await, stream) });
    let (_, mut stream) = written.take().unwrap();
    channel.fail(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
    channel.run();
    let flushed = spawn(&mut channel, async move { stream.flush().await });
    let error = flushed.take().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
}

/// Holds messages back until the test releases them, as a handshake does.
struct HoldsBack(PendingWriteQueue);

impl Handler for HoldsBack {
    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.0.push(ctx, msg, done.take());
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, _: Msg) -> HandlerResult {
        self.0.write_all(ctx);
        ctx.flush();
        Ok(())
    }
}

#[test]
fn a03_a_flush_waits_for_bytes_that_a_handler_holds_back() {
    let mut kept = None;
    let mut channel = Embedded::new(|edit| {
        edit.add_last("holds", HoldsBack(PendingWriteQueue::default()))?;
        kept = Some(ByteStream::install(edit)?);
        Ok(())
    })
    .unwrap();
    let mut stream = kept.unwrap();
    let flushed = spawn(&mut channel, async move {
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        stream
    });
    assert!(flushed.borrow().is_none());
    channel.fire_user_event("release");
    channel.run();
    assert!(flushed.borrow().is_some());
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}

#[test]
fn a03_an_empty_write_sends_nothing_and_an_empty_read_waits_for_nothing() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let done = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        let written = stream.write(b"").await.unwrap();
        let read = stream.read(&mut []).await.unwrap();
        let mut none: [u8; 0] = [];
        let mut buffer = hyper::rt::ReadBuf::new(&mut none);
        poll_fn(|context| {
            hyper::rt::Read::poll_read(Pin::new(&mut stream), context, buffer.unfilled())
        })
        .await
        .unwrap();
        (written + read, stream)
    });
    assert_eq!(done.take().map(|(count, _)| count), Some(0));
    assert!(channel.read_outbound_any().is_none());
}

#[test]
fn a03_a_flush_ends_though_others_go_on_writing() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let flushed = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        stream.write_all(b"hello").await.unwrap();
        stream.flush().await.unwrap();
        stream
    });
    assert!(flushed.borrow().is_none());
    // What others write behind it fills the room that each step makes.
    drop(channel.write_outbound(Bytes::from_static(b"others")));
    for _ in 0..10 {
        channel.set_room(1);
        channel.run();
        drop(channel.write_outbound(Bytes::from_static(b"others")));
    }
    assert!(flushed.borrow().is_some(), "everything of its own was handed over");
}

#[test]
fn a03_a_shutdown_that_is_dropped_or_repeated_ends_the_output_once() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.set_room(0);
    let done = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        stream.write_all(b"hello").await.unwrap();
        poll_fn(|context| {
            let polled = Pin::new(&mut stream).poll_shutdown(context);
            assert!(polled.is_pending());
            Poll::Ready(())
        })
        .await;
        stream.shutdown().await.unwrap();
        stream.shutdown().await.unwrap();
        stream.flush().await.unwrap();
        stream
    });
    assert!(done.borrow().is_none());
    channel.set_room(usize::MAX);
    channel.run();
    assert!(done.borrow().is_some());
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "hello");
}

#[test]
fn a03_a_shutdown_after_the_close_says_why() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    channel.fail(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into());
    channel.run();
    let done = spawn(&mut channel, async move { ByteStream::new(connection).shutdown().await });
    let error = done.take().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
}

#[test]
fn a03_a_vectored_write_of_a_huge_part_copies_what_it_takes() {
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let huge = vec![0; 1 << 30];
    let written = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        let parts = [IoSlice::new(b"head"), IoSlice::new(&huge)];
        poll_fn(|context| Pin::new(&mut stream).poll_write_vectored(context, &parts)).await.unwrap()
    });
    assert_eq!(written.take(), Some(64 * 1024));
    let bytes = channel.read_outbound::<Bytes>().unwrap();
    assert_eq!(bytes.len(), 64 * 1024);
    let capacity = bytes.try_into_mut().unwrap().capacity();
    assert!(capacity <= 2 * 64 * 1024, "{capacity}");
}

#[test]
fn a03_the_traits_of_the_futures_crates_read_lend_and_write() {
    use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
    let (mut channel, connection) = installed::<Bytes, Bytes>();
    let done = spawn(&mut channel, async move {
        let mut stream = ByteStream::new(connection);
        let mut buffer = [0; 3];
        let count =
            poll_fn(|context| AsyncRead::poll_read(Pin::new(&mut stream), context, &mut buffer));
        let count = count.await.unwrap();
        let lent = poll_fn(|context| {
            let lent = AsyncBufRead::poll_fill_buf(Pin::new(&mut stream), context);
            lent.map(|lent| lent.unwrap().to_vec())
        });
        let lent = lent.await;
        AsyncBufRead::consume(Pin::new(&mut stream), 2);
        let parts = [IoSlice::new(&buffer[..count]), IoSlice::new(b"!")];
        let written = poll_fn(|context| {
            AsyncWrite::poll_write_vectored(Pin::new(&mut stream), context, &parts)
        });
        let written = written.await.unwrap();
        poll_fn(|context| AsyncWrite::poll_flush(Pin::new(&mut stream), context)).await.unwrap();
        poll_fn(|context| AsyncWrite::poll_close(Pin::new(&mut stream), context)).await.unwrap();
        let rest = stream.next_bytes().await.unwrap().unwrap();
        (count, lent, written, rest, stream)
    });
    channel.write_inbound(Bytes::from_static(b"one two"));
    channel.run();
    let (count, lent, written, rest, _stream) = done.take().unwrap();
    assert_eq!((count, &lent[..], written, &rest[..]), (3, &b" two"[..], 4, &b"wo"[..]));
    assert_eq!(channel.read_outbound::<Bytes>().unwrap(), "one!");
}
