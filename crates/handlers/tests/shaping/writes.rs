//! Writes: held, split, in order, counted as pending.

use std::fs::File;
use std::process;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use waterwheel_channel::{ChannelError, ChannelOptions, FileRegion, WaterMarks};
use waterwheel_testkit::embedded::Embedded;

use crate::support::{BURST, MS, SLOW, Shaped, numbered, shaping};

#[test]
fn k08_without_a_rate_everything_passes_and_is_counted() {
    let mut channel = Shaped::new(shaping());
    channel.write_outbound(numbered(1_000_000)).join().unwrap();
    assert_eq!((channel.sent_len(), channel.timers()), (1_000_000, 0));
    let stats = channel.write_limiter().stats_at(channel.now());
    assert_eq!((stats.bytes, stats.bytes_per_second, stats.held), (1_000_000, 1_000_000, 0));
}

#[test]
fn k08_a_burst_passes_at_once_and_the_rest_at_the_rate() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let data = numbered(23_000);
    let written = channel.write_outbound(data.clone());
    let mut sent = channel.sent();
    assert_eq!(sent.len(), BURST);
    for millis in 1..=200 {
        assert!(!written.is_done(), "after {millis} ms");
        channel.pass(1);
        sent.extend(channel.sent());
        // A turn is 1,500 bytes, or 15 ms; wake-ups are at even milliseconds.
        let expected = BURST + 100 * millis;
        assert!((expected - 1700..=expected).contains(&sent.len()), "{millis} ms: {}", sent.len());
    }
    assert!(written.is_done());
    written.join().unwrap();
    assert_eq!((sent == data, channel.timers()), (true, 0));
}

#[test]
fn k08_messages_keep_their_order_and_each_completes_when_it_is_written() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let data = numbered(20_000);
    let mut futures = Vec::new();
    for chunk in data.chunks(700) {
        futures.push(channel.write_outbound(Bytes::copy_from_slice(chunk)));
    }
    let mut sent = Vec::new();
    for _ in 0..170 {
        sent.extend(channel.sent());
        let done = futures.iter().filter(|future| future.is_done()).count();
        assert_eq!(done, sent.len() / 700);
        channel.pass(1);
    }
    sent.extend(channel.sent());
    assert!(sent == data);
    futures.into_iter().for_each(|future| future.join().unwrap());
}

#[test]
fn k08_a_message_that_cannot_be_split_goes_whole_and_later_ones_pay_for_it() {
    let mut channel =
        Shaped::with(Embedded::builder(), &shaping().channel_write(SLOW).build().unwrap());
    let text = |len: usize| "x".repeat(len);
    drop(channel.write_outbound(text(BURST)));
    drop(channel.write_outbound(text(20_000)));
    drop(channel.write_outbound(text(100)));
    let sizes = |channel: &mut Shaped| -> Vec<usize> {
        std::iter::from_fn(|| channel.read_outbound::<String>()).map(|text| text.len()).collect()
    };
    assert_eq!(sizes(&mut channel), [BURST]);
    channel.pass(16);
    assert_eq!(sizes(&mut channel), [20_000], "after one turn");
    channel.pass(184);
    assert_eq!(sizes(&mut channel), [0; 0]);
    channel.pass(4);
    assert_eq!(sizes(&mut channel), [100], "20,100 bytes after 201 ms");
}

fn file_of(len: usize) -> FileRegion {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let name = format!("waterwheel-shaping-{}-{}", process::id(), FILES.fetch_add(1, Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, numbered(len)).unwrap();
    let file = File::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    FileRegion::whole(file).unwrap()
}

#[test]
fn k08_a_file_region_is_sent_in_parts() {
    let mut channel =
        Shaped::with(Embedded::builder(), &shaping().channel_write(SLOW).build().unwrap());
    let written = channel.write_outbound(file_of(10_000));
    let mut sent = Vec::new();
    let mut take = |channel: &mut Shaped| {
        while let Some(part) = channel.read_outbound::<FileRegion>() {
            sent.extend(part.read(usize::MAX).unwrap());
        }
        sent.len()
    };
    assert_eq!(take(&mut channel), BURST);
    assert_eq!(channel.channel().pending_bytes(), FileRegion::PENDING_BYTES);
    channel.pass(40);
    assert!((5_300..=7_000).contains(&take(&mut channel)));
    assert!(!written.is_done());
    channel.pass(32);
    assert_eq!((take(&mut channel), written.is_done()), (10_000, true));
    assert_eq!((sent == numbered(10_000), channel.channel().pending_bytes()), (true, 0));
}

#[test]
fn k08_a_file_region_close_to_the_hard_cap_is_not_split() {
    let marks = WaterMarks::new(1000, 2000).unwrap().with_hard_cap(12_000).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let shaping = shaping().channel_write(SLOW).build().unwrap();
    let mut channel = Shaped::with(Embedded::builder().options(options), &shaping);
    drop(channel.write_outbound(Bytes::from(vec![0; BURST])));
    drop(channel.read_outbound_any());
    let written = channel.write_outbound(file_of(10_000));
    channel.pass(16);
    assert_eq!(
        (channel.read_outbound::<FileRegion>().unwrap().len(), written.is_done()),
        (10_000, true)
    );
    assert_eq!(channel.write_limiter().stats().bytes, 10_000 + BURST as u64);
    drop(channel.write_outbound(numbered(10)));
    channel.pass(84);
    assert!(channel.read_outbound_any().is_none(), "a debt of 8,500 bytes");
    channel.pass(4);
    assert!(channel.read_outbound_any().is_some());
}

#[test]
fn k08_held_bytes_are_pending_so_that_the_channel_becomes_unwritable_and_writable_again() {
    let options = ChannelOptions {
        water_marks: WaterMarks::new(4_000, 8_000).unwrap(),
        ..ChannelOptions::default()
    };
    let mut channel = Shaped::with_options(shaping().channel_write(SLOW), options);
    drop(channel.write_outbound(numbered(BURST)));
    drop(channel.write_outbound(numbered(8_000)));
    assert!(channel.channel().is_writable());
    drop(channel.write_outbound(numbered(1)));
    assert_eq!(
        (channel.channel().is_writable(), channel.channel().pending_bytes()),
        (false, 8_001)
    );
    assert_eq!(channel.write_limiter().stats().held, 8_001);
    channel.pass(38);
    assert!(!channel.channel().is_writable());
    channel.pass(10);
    assert!(channel.channel().is_writable());
    channel.pass(60);
    assert_eq!((channel.channel().pending_bytes(), channel.write_limiter().stats().held), (0, 0));
}

#[test]
fn k08_a_message_beyond_the_hard_cap_is_refused_whole() {
    let marks = WaterMarks::new(1000, 2000).unwrap().with_hard_cap(5000).unwrap();
    let options = ChannelOptions { water_marks: marks, ..ChannelOptions::default() };
    let mut channel = Shaped::with_options(shaping().channel_write(SLOW), options);
    let first = channel.write_outbound(numbered(BURST));
    let held = channel.write_outbound(numbered(5000));
    let refused = channel.write_outbound(numbered(1)).join().unwrap_err();
    assert!(matches!(
        refused.find::<ChannelError>(),
        Some(ChannelError::BufferFull { pending: 5000, limit: 5000, size: 1 })
    ));
    channel.pass(60);
    assert_eq!(
        channel.sent_len(),
        BURST + 5000,
        "the held message was not refused by its own bytes"
    );
    first.join().unwrap();
    held.join().unwrap();
}

#[test]
fn k08_messages_are_not_sent_before_they_are_flushed() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    drop(channel.write_outbound(numbered(BURST)));
    assert_eq!(channel.sent_len(), BURST);
    drop(channel.write(numbered(100)));
    drop(channel.write(numbered(200)));
    channel.pass(100);
    assert_eq!((channel.sent_len(), channel.timers()), (0, 0), "nothing waits for time");
    channel.flush();
    assert_eq!(channel.sent_len(), 300);
    drop(channel.write(numbered(BURST)));
    drop(channel.write_outbound(numbered(BURST)));
    drop(channel.write(numbered(50)));
    channel.pass(100);
    assert_eq!(channel.sent_len(), 2 * BURST, "only what was flushed");
    assert_eq!(channel.channel().pending_bytes(), 50);
}

#[test]
fn k08_a_cancelled_write_is_left_out_unless_it_has_begun() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    let begun = channel.write_outbound(numbered(BURST + 1000));
    let held = channel.write_outbound(numbered(5000));
    drop(channel.write_outbound(numbered(7)));
    assert_eq!((begun.cancel(), held.cancel()), (false, true));
    channel.pass(100);
    assert_eq!(channel.sent_len(), BURST + 1000 + 7);
    begun.join().unwrap();
}

#[test]
fn k08_a_message_waits_for_the_longest_delay_at_most() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW).longest_delay(160 * MS));
    drop(channel.write_outbound(numbered(BURST + 50_000)));
    assert_eq!(channel.sent_len(), BURST);
    channel.pass(159);
    let before = channel.sent_len();
    assert!((14_000..=16_000).contains(&before), "{before}");
    channel.pass(1);
    assert_eq!(channel.sent_len(), 50_000 - before, "all of it, in addition to the rate");
    assert_eq!(channel.write_limiter().stats().overdue, 50_000 - before as u64);
    assert_eq!(channel.timers(), 0);
    drop(channel.write_outbound(numbered(1000)));
    channel.pass(12);
    assert_eq!(channel.sent_len(), 1000, "the excess is no debt");
}

#[test]
fn k08_the_longest_delay_begins_with_the_flush() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW).longest_delay(160 * MS));
    drop(channel.write_outbound(numbered(BURST)));
    drop(channel.write(numbered(50_000)));
    channel.pass(1000);
    channel.flush();
    assert_eq!(channel.sent_len(), BURST + BURST, "the rate holds for what was not flushed before");
    channel.pass(159);
    assert!(channel.channel().pending_bytes() > 25_000);
    channel.pass(1);
    assert_eq!(channel.channel().pending_bytes(), 0);
}

#[test]
fn k08_one_timer_waits_for_a_channel_however_much_it_holds() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    for _ in 0..100 {
        drop(channel.write_outbound(numbered(1000)));
    }
    assert_eq!(channel.timers(), 1);
    let turns = channel.channel().event_loop().metrics().turns;
    for _ in 0..500 {
        channel.advance(MS * 2);
    }
    assert_eq!((channel.sent_len(), channel.timers()), (100_000, 0));
    assert!(channel.channel().event_loop().metrics().turns - turns < 1600);
}

#[test]
fn k08_counters_show_what_was_sent_and_what_is_held() {
    let mut channel = Shaped::new(shaping().channel_write(SLOW));
    drop(channel.write_outbound(numbered(203_000)));
    channel.pass(1000);
    let stats = channel.write_limiter().stats_at(channel.now());
    let sent = channel.sent_len() as u64;
    assert_eq!((stats.bytes, stats.held, stats.overdue), (sent, 203_000 - sent, 0));
    channel.pass(990);
    let stats = channel.write_limiter().stats_at(channel.now());
    assert!((97_000..=103_000).contains(&stats.bytes_per_second), "{stats:?}");
}
