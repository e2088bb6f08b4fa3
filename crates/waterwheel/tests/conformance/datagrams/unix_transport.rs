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

    fn free_address(&self) -> Address {
        free_unix_address().into()
    }

    fn empty_address(&self) -> Address {
        free_unix_address().into()
    }

    fn long(&self) -> usize {
        200_000
    }

    fn lacks(&self, ability: Ability) -> Option<&'static str> {
        match ability {
            Ability::Pressure => None,
            Ability::LateErrors => {
                Some("whether a Unix socket is there is known when it is sent to, not later")
            }
        }
    }
}
