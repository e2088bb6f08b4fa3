//! Unix datagrams, at paths and abstract names in turn.

use waterwheel::channel::{Address, Bootstrap, EventLoopGroup};
use waterwheel::net::UnixDatagrams;

use super::cell::{Ability, TransportKind};
use crate::transports::free_unix_address;

pub(super) struct UnixTransport;

impl TransportKind for UnixTransport {
    fn bootstrap(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, UnixDatagrams)
    }

    fn name(&self) -> &'static str {
        "Unix"
    }

    fn unused_address(&self) -> Address {
        free_unix_address().into()
    }

    fn unbound_address(&self) -> Address {
        free_unix_address().into()
    }

    fn long_len(&self) -> usize {
        200_000
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::BackPressure => None,
            Ability::LateErrors => Some(
                "sending to a missing Unix socket fails at once (ECONNREFUSED or ENOENT), not later",
            ),
        }
    }
}
