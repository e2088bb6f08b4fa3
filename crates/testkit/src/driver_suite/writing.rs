//! Writing (L05).

use std::io::ErrorKind;
use std::net::Shutdown;

use bytes::Bytes;
use waterwheel_channel::driver::{OutQueue, ReadPlan, Submit};

use super::Fixture;
use super::bench::{DriverBench, SHORT_WAIT, TIMEOUT, bytes_of, is_failed, wrote};
use crate::temp_file::TempFile;

/// Checks that written bytes arrive in order, in any number of chunks.
pub fn l05_what_is_written_arrives_in_order(fixture: &dyn Fixture) {
    // More chunks than one writev takes (IOV_MAX is 1024), so that the rest has to follow.
    const CHUNKS: usize = 3000;
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut queue = OutQueue::new();
    let mut expected = Vec::new();
    for n in 0..CHUNKS {
        let chunk = n.to_string();
        expected.extend(chunk.bytes());
        queue.push(Bytes::from(chunk));
    }
    bench.write_queue(token, &mut queue);
    assert_eq!(remote.receive(expected.len()), expected);
    bench.assert_quiet();
    assert!(remote.drain().is_empty(), "more has arrived than was written");
}

/// Checks that a write without room is pending, that room gives one `Wrote`, and that no byte is lost or repeated.
pub fn l05_a_write_without_room_is_pending_until_there_is_room(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut queue = OutQueue::new();
    let mut written = bench.write_until_full(token, &mut queue);
    bench.assert_quiet();

    let mut arrived = remote.drain().len();
    assert!(arrived > 0, "something has arrived");
    let deadline = bench.now().plus(TIMEOUT);
    let freed = loop {
        let seen = bench.turn(TIMEOUT);
        arrived += remote.drain().len();
        match wrote(&seen, token) {
            Some(n) => break n,
            None => assert!(bench.now() < deadline, "no Wrote after {arrived} bytes arrived"),
        }
    };
    written += freed;
    queue.advance(freed);
    arrived += remote.receive(written - arrived).len();
    assert_eq!(arrived, written);

    let rest = queue.len();
    bench.write_queue(token, &mut queue);
    assert_eq!(remote.receive(rest).len(), rest);
    assert!(remote.drain().is_empty(), "more has arrived than was written");
    bench.assert_quiet();
}

/// Checks that `Wrote` is delivered before the reads of the same round.
pub fn l05_wrote_is_delivered_before_read(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut queue = OutQueue::new();
    bench.write_until_full(token, &mut queue);
    remote.send(b"x");
    bench.set_read(token, Some(ReadPlan::default()));
    remote.drain();
    let (mut told, mut read) = (false, Vec::new());
    let deadline = bench.now().plus(TIMEOUT);
    while !told || read.is_empty() {
        assert!(bench.now() < deadline, "Wrote: {told}, read: {read:?}");
        let seen = bench.turn(TIMEOUT);
        told |= wrote(&seen, token).is_some();
        read.extend(bytes_of(&seen, token));
        remote.drain();
    }
    assert_eq!(read, b"x");
}

/// Checks that a sent file arrives between the bytes written before and after it, also to a slow reader.
pub fn l05_a_file_arrives_between_the_bytes_around_it(fixture: &dyn Fixture) {
    let temp_file = TempFile::new(3_000_000);
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    bench.write(token, b"before ");
    let mut file = temp_file.region(3..);
    let mut arrived = Vec::new();
    while !file.is_empty() {
        let submit = bench.driver.send_file(token, &file).expect("send_file");
        match submit {
            Submit::Done(n) => {
                assert!(n > 0, "one that sent nothing is Full");
                file.advance(n);
            }
            Submit::Full | Submit::Pending => {
                let most = usize::try_from(file.len()).expect("it is in memory");
                bench.checker.entry(token).writing = Some(most);
                let deadline = bench.now().plus(TIMEOUT);
                file.advance(loop {
                    arrived.extend(remote.drain());
                    match wrote(&bench.turn(SHORT_WAIT), token) {
                        Some(n) => break n,
                        None => assert!(bench.now() < deadline, "{} arrived", arrived.len()),
                    }
                });
            }
        }
    }
    let sent = [b"before ", &temp_file.contents()[3..]].concat();
    arrived.extend(remote.receive(sent.len() - arrived.len()));
    assert!(arrived == sent, "{} bytes are not those that were sent", arrived.len());
    bench.write(token, b" after");
    assert_eq!(remote.receive(6), b" after");
    bench.assert_quiet();
}

/// Checks that sending a truncated file fails when the end of the file is reached.
pub fn l05_a_truncated_file_is_an_error(fixture: &dyn Fixture) {
    let temp_file = TempFile::new(1000);
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.stream();
    let mut file = temp_file.region(..);
    temp_file.set_len(10);
    let error = loop {
        match bench.driver.send_file(token, &file) {
            Ok(Submit::Done(n)) => file.advance(n),
            Ok(Submit::Full | Submit::Pending) => {
                bench.checker.entry(token).writing = Some(10);
                let seen = bench.until("Wrote", |seen| wrote(seen, token).is_some());
                file.advance(wrote(&seen, token).unwrap_or(0));
            }
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), file.offset()), (ErrorKind::UnexpectedEof, 10));
    assert!(error.to_string().contains("was truncated"), "{error}");
    assert_eq!(remote.receive(10), &temp_file.contents()[..10]);
}

/// Checks that shutting down the output is end of file for the peer, after the written bytes, and that the other
/// direction stays open.
pub fn l05_shutting_down_the_output_is_end_of_file_for_the_peer(fixture: &dyn Fixture) {
    let mut bench = DriverBench::open(fixture);
    let (token, mut remote) = bench.reading_stream();
    bench.write(token, b"last words");
    bench.driver.shutdown(token, Shutdown::Write).expect("shutdown");
    assert_eq!(remote.receive(10), b"last words");
    remote.wait_ended();
    remote.send(b"answer");
    assert_eq!(bench.read(token, 6), b"answer");
    let mut queue = OutQueue::new();
    queue.push("too late".into());
    if let Ok(submit) = bench.driver.write(token, &queue) {
        assert_eq!(submit, Submit::Pending, "its output is shut down");
        bench.until("Failed", |seen| seen.iter().any(|event| is_failed(event, token)));
    }
}
