//! Lists every public type with its auto traits.

use waterwheel_pool::{
    Acquire, ChannelPool, ChannelPoolBuilder, InvalidPool, Lease, LoopAffinity, PoolCloseReason,
    PoolCounts, PoolError, PoolMetrics, ReuseOrder,
};

#[path = "../../../support/auto_traits.rs"]
mod auto_traits;

use auto_traits::{AutoTraits, is};

#[test]
fn public_types_cross_threads_as_listed() {
    let listed = [
        is!(Acquire: true true true),
        is!(ChannelPool: true true true),
        is!(ChannelPoolBuilder: true true true),
        is!(PoolCloseReason: true true true),
        is!(InvalidPool: true true true),
        is!(Lease: true true true),
        is!(LoopAffinity: true true true),
        is!(PoolCounts: true true true),
        is!(PoolError: true true true),
        is!(PoolMetrics: true true true),
        is!(ReuseOrder: true true true),
    ];
    auto_traits::check(&listed, &[include_str!("../src/lib.rs")], &[]);
}
