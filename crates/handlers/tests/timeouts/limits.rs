//! Limits that are zero or huge.

use std::time::Duration;

use bytes::Bytes;
use waterwheel_handlers::{FirstMessageDeadline, ReadTimeout, WriteTimeout};

use crate::support::{receive, stream_with};

#[test]
fn k07_a_limit_of_zero_is_an_error_that_names_the_handler() {
    let errors = [
        ReadTimeout::new(Duration::ZERO).unwrap_err(),
        WriteTimeout::new(Duration::ZERO).unwrap_err(),
        FirstMessageDeadline::new(Duration::ZERO).unwrap_err(),
    ];
    for (error, name) in errors.iter().zip(["ReadTimeout", "WriteTimeout", "FirstMessageDeadline"])
    {
        let text = format!("the limit of a {name} is zero; leave the handler out for no limit");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn k07_a_huge_limit_saturates() {
    let century = Duration::from_secs(100 * 365 * 24 * 3600);
    let mut reads = stream_with(ReadTimeout::new(Duration::MAX).unwrap());
    let mut writes = stream_with(WriteTimeout::new(Duration::MAX).unwrap());
    let mut first = stream_with(FirstMessageDeadline::new(Duration::MAX).unwrap());
    writes.set_room(0);
    let write = writes.write_outbound(Bytes::from_static(b"out"));
    for channel in [&mut reads, &mut writes, &mut first] {
        channel.advance(century);
        assert!(channel.channel().is_open());
        receive(channel);
        channel.advance(century);
        assert!(channel.channel().is_open());
    }
    assert!(!write.is_done());
}

#[test]
fn k07_debug_shows_the_limit() {
    let limit = Duration::from_secs(1);
    let write = WriteTimeout::new(limit).unwrap();
    assert_eq!(format!("{:?}", write.clone()), "WriteTimeout { limit: 1s, .. }");
    let first = FirstMessageDeadline::new(limit).unwrap();
    assert_eq!(format!("{:?}", first.clone()), "FirstMessageDeadline { limit: 1s, .. }");
}
