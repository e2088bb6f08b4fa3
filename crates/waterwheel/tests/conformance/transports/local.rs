//! The local transport: channels within the process.

use std::sync::atomic::{AtomicU64, Ordering};

use waterwheel::channel::local::Local;
use waterwheel::channel::{
    Address, AddressSpec, Bootstrap, Channel, EventLoopGroup, ServerBootstrap,
};

use crate::cell::{Ability, ForeignPeer, TransportKind};

pub(crate) struct LocalTransport;

impl TransportKind for LocalTransport {
    fn name(&self) -> &'static str {
        "local"
    }

    fn server(&self, group: &EventLoopGroup) -> ServerBootstrap {
        ServerBootstrap::new(group, Local)
    }

    fn client(&self, group: &EventLoopGroup) -> Bootstrap {
        Bootstrap::new(group, Local)
    }

    fn unused_address(&self) -> AddressSpec {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Address::local(format!("conformance-{}", NEXT.fetch_add(1, Ordering::Relaxed))).into()
    }

    fn refusing_address(&self) -> AddressSpec {
        Address::local("nobody listens here").into()
    }

    fn reason_to_skip(&self, ability: Ability) -> Option<&'static str> {
        Some(match ability {
            Ability::IndependentDirections | Ability::SharedLoop => return None,
            Ability::SystemWrites => "messages move from queue to queue, without a system call",
            Ability::SmallBuffers | Ability::Lingering => "there is no socket to set an option on",
            Ability::ForeignPeer => {
                "both ends are channels of this process, a foreign peer cannot exist"
            }
            Ability::SlowConnect => "a connect within the process succeeds or fails at once",
        })
    }

    fn connect_foreign(&self, _: &Channel) -> Box<dyn ForeignPeer> {
        unreachable!("a cell that lacks foreign peers is not asked for one")
    }
}
