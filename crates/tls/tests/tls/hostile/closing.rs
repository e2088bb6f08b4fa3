//! Peers that do not take part in a close (T02, T08).

use std::time::Duration;

use bytes::Bytes;
use waterwheel_channel::{Channel, ChannelOptions};
use waterwheel_tls::rustls::{Error, InvalidMessage, ProtocolVersion};
use waterwheel_tls::{OnCloseNotify, StopTls, TlsError, TlsOptions, TlsOptionsBuilder};

use super::attacker::{ALERT, ALL, Attack, DATA, TLS_1_3, Victim, take_failure};
use crate::support::deliver;

const LIMIT: Duration = Duration::from_secs(2);

fn established(victim: Victim, version: ProtocolVersion, options: TlsOptionsBuilder) -> Attack {
    with_channel(victim, version, options, ChannelOptions::default())
}

fn with_channel(
    victim: Victim,
    version: ProtocolVersion,
    options: TlsOptionsBuilder,
    channel: ChannelOptions,
) -> Attack {
    let options = options.close_timeout(LIMIT).build().unwrap();
    let mut attack = Attack::with(victim, version, options, channel);
    attack.exchange().unwrap();
    attack.assert_established(version);
    attack
}

/// The ways to send close_notify and to go on reading.
const ENDS: [fn(&mut Attack); 3] = [
    |attack| attack.victim.channel.close(),
    |attack| {
        drop(attack.victim.channel.on_loop(Channel::shutdown_output));
        attack.victim.settle();
    },
    |attack| attack.victim.channel.fire_user_event(StopTls),
];

#[test]
fn t08_garbage_after_our_close_notify_ends_the_channel_with_its_error() {
    for (victim, version) in ALL {
        for end in ENDS {
            let options = TlsOptions::builder().await_close_notify(true);
            let mut attack = established(victim, version, options);
            end(&mut attack);
            assert!(attack.victim.channel.channel().is_open(), "reads until close_notify");
            deliver(&mut attack.victim.channel, b"GET / HTTP/1.1", usize::MAX);
            let invalid = Error::InvalidMessage(InvalidMessage::InvalidContentType);
            assert_eq!(take_failure(&mut attack.victim), TlsError::Protocol(invalid));
        }
    }
}

#[test]
fn t02_a_peer_that_sends_data_instead_of_close_notify_is_given_up_at_the_limit() {
    for (victim, version) in ALL {
        let options = TlsOptions::builder().await_close_notify(true);
        let (mut end, mut forger) = established(victim, version, options).forge();
        end.channel.close();
        for _ in 0..19 {
            let wire = forger.record(DATA, &[0; 10_000]);
            deliver(&mut end.channel, &wire, usize::MAX);
            end.channel.advance(LIMIT / 20);
        }
        assert!(end.channel.channel().is_open());
        end.channel.advance(LIMIT / 20);
        assert_eq!(take_failure(&mut end), TlsError::CloseTimeout { limit: LIMIT });
    }
}

#[test]
fn t02_a_peer_that_closes_and_does_not_read_what_waits_is_given_up_at_the_limit() {
    for (victim, version) in ALL {
        let (mut end, mut forger) = established(victim, version, TlsOptions::builder()).forge();
        end.channel.set_room(100);
        let held = end.channel.write_outbound(Bytes::from(vec![1; 1 << 20]));
        let farewell = forger.record(ALERT, &[1, 0]);
        deliver(&mut end.channel, &farewell, usize::MAX);
        assert!(end.channel.channel().is_open(), "flushed messages are sent first");
        end.channel.advance(LIMIT);
        assert_eq!(take_failure(&mut end), TlsError::CloseTimeout { limit: LIMIT });
        held.join().unwrap_err();
    }
}

#[test]
fn t02_a_peer_that_sends_behind_its_close_notify_is_not_read_after_half_closure() {
    for (victim, version) in ALL {
        let options = TlsOptions::builder().on_close_notify(OnCloseNotify::HalfClose);
        let (mut end, mut forger) = established(victim, version, options).forge();
        let farewell = forger.record(ALERT, &[1, 0]);
        deliver(&mut end.channel, &farewell, usize::MAX);
        for _ in 0..1_000 {
            let behind = forger.record(DATA, &[0; 1_000]);
            deliver(&mut end.channel, &behind, usize::MAX);
        }
        assert_eq!(end.received(), b"");
        assert!(end.channel.unread() > 900, "{} messages unread", end.channel.unread());
        assert!(end.channel.channel().is_open() && end.channel.read_error().is_none());
        drop(end.channel.write_outbound(Bytes::from_static(b"answer")));
        let answer = end.sent();
        assert_eq!(forger.open(&answer), [(DATA, b"answer".to_vec())]);
    }
}

#[test]
fn t02_the_end_of_the_stream_instead_of_a_close_notify_that_is_awaited_closes_without_an_error() {
    for allow_half_closure in [false, true] {
        let channel = ChannelOptions { allow_half_closure, ..ChannelOptions::default() };
        let options = TlsOptions::builder().await_close_notify(true);
        let mut attack = with_channel(Victim::Client, TLS_1_3, options, channel);
        attack.victim.channel.close();
        assert!(attack.victim.channel.channel().is_open());
        attack.victim.channel.finish_inbound();
        attack.victim.settle();
        assert!(!attack.victim.channel.channel().is_open());
        assert_eq!(attack.victim.channel.read_error().map(|error| error.to_string()), None);
    }
}

#[test]
fn t02_the_end_of_the_stream_does_not_cut_a_close_short() {
    for awaits in [false, true] {
        let channel = ChannelOptions { allow_half_closure: true, ..ChannelOptions::default() };
        let options = TlsOptions::builder().await_close_notify(awaits);
        let mut attack = with_channel(Victim::Client, TLS_1_3, options, channel);
        attack.victim.channel.set_room(0);
        let write = attack.victim.channel.write_outbound(Bytes::from_static(b"last words"));
        attack.victim.channel.close();
        attack.victim.channel.finish_inbound();
        attack.victim.settle();
        assert!(attack.victim.channel.channel().is_open(), "closed before its data is written");
        attack.victim.channel.clear_faults();
        attack.victim.settle();
        write.join().unwrap();
        assert!(!attack.victim.channel.channel().is_open());
        assert!(attack.victim.channel.read_error().is_none());
    }
}
