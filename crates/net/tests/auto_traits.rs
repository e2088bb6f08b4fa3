//! Lists which public types are `Send`, `Sync` and `Unpin`.

use waterwheel_net::{
    Auto, Blocking, CoarseEpoll, DatagramSocket, Epoll, ForeignSource, InheritError, Inherited,
    Poll, ReloadSignal, Socket, SystemResolver, TakeOverSignal, Tcp, Terminate, TerminationSignal,
    Udp, Unix, UnixDatagrams,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, NotImplemented, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(Auto: true true true),
        is!(Blocking: true true true),
        is!(CoarseEpoll: true true true),
        is!(Epoll: true true true),
        is!(Poll: true true true),
        is!(ReloadSignal: true true true),
        is!(TakeOverSignal: true true true),
        is!(Socket: true true true),
        is!(SystemResolver: true true true),
        is!(Tcp: true true true),
        is!(Inherited: true true true),
        is!(InheritError: true true true),
        is!(Udp: true true true),
        is!(Unix: true true true),
        is!(UnixDatagrams: true true true),
        is!(DatagramSocket: true true true),
        is!(Terminate: true true true),
        is!(TerminationSignal: true true true),
        is!(dyn ForeignSource: true true false),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
