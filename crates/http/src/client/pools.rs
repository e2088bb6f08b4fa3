//! The pools of a client: those of each loop.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_channel::{Bootstrap, LocalLoop};
use waterwheel_executor::{Error, ExecutorId};
use waterwheel_pool::ChannelPool;

use super::options::PoolConfiguration;

/// The number of pools above which those of tunnels that have no connection are dropped.
const MAX_UNUSED_POOLS: usize = 256;

/// The connections that a pool keeps. Within a pool, an address names them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum PoolKind {
    /// Without TLS: to servers, or to a proxy for any server.
    Plain,
    /// With TLS, to the server that the address names.
    Secure,
    /// With TLS, through a proxy, to this server.
    Tunnel(Arc<str>),
}

/// The pools of the loops on which requests are made. A body is used on the loop of its connection, so each loop has its
/// own.
///
/// The table is locked by any thread that begins a request, for a lookup; pools are built, used and dropped without the
/// lock.
pub(super) struct LoopPools {
    bootstrap: Bootstrap,
    configure: PoolConfiguration,
    pools: Mutex<HashMap<(ExecutorId, PoolKind), ChannelPool>>,
}

impl LoopPools {
    pub(super) fn new(bootstrap: Bootstrap, configure: PoolConfiguration) -> Self {
        Self { bootstrap, configure, pools: Mutex::default() }
    }

    /// Returns the pool of a loop, building it if it is the first of its kind.
    pub(super) fn pool(&self, here: &LocalLoop, kind: PoolKind) -> Result<ChannelPool, Error> {
        let handle = here.handle();
        let key = (handle.id(), kind);
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(&key) {
            return Ok(pool.clone());
        }
        drop(pools);
        let bootstrap = self.bootstrap.clone().on_loops(&handle);
        let built = (self.configure)(ChannelPool::builder(bootstrap)).build()?;
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = match pools.len() >= MAX_UNUSED_POOLS {
            true => take_unused(&mut pools),
            false => Vec::new(),
        };
        let pool = pools.entry(key).or_insert(built).clone();
        drop(pools);
        drop(unused);
        Ok(pool)
    }
}

/// Takes the pools of tunnels that have neither connections nor acquires.
fn take_unused(pools: &mut HashMap<(ExecutorId, PoolKind), ChannelPool>) -> Vec<ChannelPool> {
    let is_unused = |pool: &ChannelPool| {
        let counts = pool.metrics().now;
        counts.open == 0 && counts.waiting == 0
    };
    let unused =
        pools.extract_if(|(_, kind), pool| matches!(kind, PoolKind::Tunnel(_)) && is_unused(pool));
    unused.map(|(_, pool)| pool).collect()
}

impl fmt::Debug for LoopPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(pools.values()).finish()
    }
}
