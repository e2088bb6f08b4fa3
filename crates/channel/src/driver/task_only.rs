//! The driver of loops without descriptors: for in-memory channels and tasks (L14).

use std::io::{Error, ErrorKind, Result};
use std::net::Shutdown;
use std::sync::Arc;

use waterwheel_executor::{Clock, Nanos, Park, TokenPark, Unpark};

use super::{
    Detach, Driver, Interest, Io, IoEvent, OpenDriver, OutQueue, ReadPlan, Role, SocketOption,
    Submit, WaitSummary,
};
use crate::address::Address;
use crate::base::token::Token;

/// Opens drivers that accept no descriptors: attaching or registering one fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskOnly;

impl OpenDriver for TaskOnly {
    fn open(&self) -> Result<Box<dyn Driver>> {
        Ok(Box::new(TaskOnlyDriver { park: TokenPark::new(Clock::Monotonic) }))
    }
}

struct TaskOnlyDriver {
    park: TokenPark,
}

fn refuse_io<T>(io: Io) -> Result<T> {
    let message = format!("a task-only loop cannot watch {}: it has no selector", io.kind());
    Err(io.refused(ErrorKind::Unsupported, message))
}

fn not_attached<T>(token: Token) -> Result<T> {
    Err(Error::new(ErrorKind::NotFound, format!("{token:?} is not attached")))
}

impl Driver for TaskOnlyDriver {
    fn name(&self) -> &'static str {
        "task-only"
    }

    fn clock(&self) -> Clock {
        Clock::Monotonic
    }

    fn waker(&self) -> Arc<dyn Unpark> {
        self.park.unparker()
    }

    fn attach(&mut self, _: Token, io: Io, _: Role) -> Result<()> {
        refuse_io(io)
    }

    fn detach(&mut self, _: Token) -> Detach {
        Detach::Done
    }

    fn release(&mut self, token: Token) -> Result<Io> {
        not_attached(token)
    }

    fn local_address(&self, _: Token) -> Option<Address> {
        None
    }

    fn set_option(&mut self, token: Token, _: SocketOption) -> Result<()> {
        not_attached(token)
    }

    fn set_read(&mut self, _: Token, _: Option<ReadPlan>) {}

    fn write(&mut self, token: Token, _: &OutQueue) -> Result<Submit> {
        not_attached(token)
    }

    fn shutdown(&mut self, token: Token, _: Shutdown) -> Result<()> {
        not_attached(token)
    }

    fn register_foreign(&mut self, _: Token, io: Io, _: Interest) -> Result<()> {
        refuse_io(io)
    }

    fn set_interest(&mut self, token: Token, _: Interest) -> Result<()> {
        not_attached(token)
    }

    fn rebuild(&mut self) -> Result<usize> {
        Ok(0)
    }

    fn wait(&mut self, until: Option<Nanos>) -> Result<WaitSummary> {
        self.park.park(until);
        let timed_out = until.is_some_and(|until| Clock::Monotonic.now() >= until);
        Ok(WaitSummary { ready: 0, woken: !timed_out })
    }

    fn next_event(&mut self) -> Option<IoEvent> {
        None
    }
}
