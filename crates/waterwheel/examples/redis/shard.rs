//! The data of one loop, and which loop owns which key.

use std::cell::RefCell;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{EventLoop, EventLoopGroup};
use waterwheel::codec::{RespCommand, RespValue};
use waterwheel::executor::LoopLocal;

use crate::commands::Reply;
use crate::pubsub::{PublishedMessage, Topics};
use crate::store::Store;

/// Interval at which each loop removes expired keys.
const EXPIRY_PERIOD: Duration = Duration::from_millis(100);
/// Maximum number of keys removed before the loop serves its connections again.
const EXPIRED_AT_ONCE: usize = 200;

/// A loop creates its shard at the first use, and only its own thread uses it.
static SHARD: LoopLocal<Rc<RefCell<Shard>>> = LoopLocal::new(Rc::default);

/// A function that executes a command on the data of one loop.
pub(crate) type Run = fn(&mut Shard, &RespCommand) -> Reply;

/// The data of one loop.
#[derive(Default)]
pub(crate) struct Shard {
    pub(crate) store: Store,
    pub(crate) topics: Topics,
    pub(crate) owners: Owners,
}

impl Shard {
    /// Returns the shard of the calling loop.
    pub(crate) fn here() -> Rc<RefCell<Shard>> {
        SHARD.with(Rc::clone).expect("called on an event loop")
    }

    /// Executes a command of a connection of another loop.
    pub(crate) fn run_and_publish(run: Run, command: &RespCommand) -> RespValue {
        let shard = Self::here();
        let reply = run(&mut shard.borrow_mut(), command).unwrap_or_else(|error| error);
        // Taken out: writing to a channel runs its handlers, and these use the shard.
        let published = mem::take(&mut shard.borrow_mut().topics.published);
        published.into_iter().for_each(PublishedMessage::send);
        reply
    }
}

/// The loops, and a rule that maps a key to one of them.
#[derive(Clone, Default)]
pub(crate) struct Owners {
    pub(crate) loops: Arc<[EventLoop]>,
    pub(crate) here: usize,
    hasher: RandomState,
}

impl Owners {
    pub(crate) fn owner_of(&self, key: &[u8]) -> usize {
        match self.loops.len() {
            0 | 1 => 0,
            loops => (self.hasher.hash_one(key) % loops as u64) as usize,
        }
    }

    pub(crate) fn owns(&self, key: &[u8]) -> bool {
        self.owner_of(key) == self.here
    }
}

/// Makes each loop the owner of a share of the keys, and starts its removal of expired ones.
pub(crate) fn divide_keys(group: &EventLoopGroup) -> Result<(), Box<dyn Error>> {
    let owners = Owners { loops: group.children().collect(), ..Owners::default() };
    for (here, event_loop) in group.children().enumerate() {
        let owners = Owners { here, ..owners.clone() };
        event_loop.submit(move || Shard::here().borrow_mut().owners = owners)?.join()?;
        let expiring = event_loop.clone();
        let expire = move || remove_expired(&expiring);
        // Detached: runs until the loop ends.
        drop(event_loop.schedule_at_fixed_rate(EXPIRY_PERIOD, EXPIRY_PERIOD, expire)?);
    }
    Ok(())
}

fn remove_expired(event_loop: &EventLoop) {
    let removed = Shard::here().borrow_mut().store.remove_expired(EXPIRED_AT_ONCE);
    if removed == EXPIRED_AT_ONCE {
        let again = event_loop.clone();
        let _ = event_loop.execute(move || remove_expired(&again)); // Fails only at the end of the loop.
    }
}

/// Joins the replies of two loops to the same command.
pub(crate) fn join_replies(one: RespValue, other: RespValue) -> RespValue {
    match (one, other) {
        (error @ RespValue::Error(_), _) => error,
        (RespValue::Integer(one), RespValue::Integer(other)) => RespValue::Integer(one + other),
        // Each loop has put its own values, and nulls for the other keys.
        (RespValue::Array(mut all), RespValue::Array(other)) => {
            for (place, value) in all.iter_mut().zip(other) {
                if value != RespValue::Null {
                    *place = value;
                }
            }
            RespValue::Array(all)
        }
        (_, other) => other,
    }
}
