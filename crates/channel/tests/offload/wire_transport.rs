//! A transport for loops on their own threads: the test sends messages to the channel and receives its writes through a
//! `std::sync::mpsc` channel.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use waterwheel_channel::driver::{Detach, ReadPlan, Submit};
use waterwheel_channel::transport::{
    Outbound, Transport, TransportContext, TransportEvent, TransportWaker,
};
use waterwheel_channel::{Msg, Types};
use waterwheel_executor::Error;

/// The test's end of the transport. The test and the loop lock it for a moment each.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<WireState>>);

#[derive(Default)]
struct WireState {
    inbox: VecDeque<Msg>,
    waker: Option<TransportWaker>,
}

impl Wire {
    fn with<R>(&self, f: impl FnOnce(&mut WireState) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn send(&self, msg: impl Into<Msg>) {
        let msg = msg.into();
        let waker = self.with(|state| {
            state.inbox.push_back(msg);
            state.waker.clone()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns how many messages the channel has not read.
    pub(crate) fn unread(&self) -> usize {
        self.with(|state| state.inbox.len())
    }

    /// Returns the transport for a channel; `out` receives what it writes.
    pub(crate) fn transport(&self, out: Sender<u32>) -> WireEnd {
        WireEnd { wire: self.clone(), out, plan: None, round: None }
    }
}

pub(crate) struct WireEnd {
    wire: Wire,
    out: Sender<u32>,
    plan: Option<ReadPlan>,
    /// Number of reads left in this round.
    round: Option<u32>,
}

impl Transport for WireEnd {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn reads(&self) -> Types {
        Types::of::<u32>()
    }

    fn accepts(&self) -> Types {
        Types::of::<u32>()
    }

    fn writes_stream(&self) -> bool {
        false
    }

    fn register(&mut self, context: &TransportContext) -> Result<bool, Error> {
        self.wire.with(|state| state.waker = context.waker());
        Ok(true)
    }

    fn deregister(&mut self, _: &TransportContext) -> Result<(), Error> {
        self.wire.with(|state| state.waker = None);
        Ok(())
    }

    fn set_read(&mut self, context: &TransportContext, plan: Option<ReadPlan>) {
        self.plan = plan;
        context.wake();
    }

    fn write(&mut self, _: &TransportContext, outbound: &mut Outbound) -> io::Result<Submit> {
        let mut written = 0;
        while let Some(msg) = outbound.take() {
            let sent = self.out.send(msg.take().unwrap());
            sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            written += 1;
        }
        Ok(Submit::Done(written))
    }

    fn next_event(&mut self, _: &TransportContext) -> Option<TransportEvent> {
        match (self.plan, self.round) {
            (_, Some(0)) | (None, Some(_)) => {
                self.round = None;
                Some(TransportEvent::ReadComplete)
            }
            (None, None) => None,
            (Some(plan), round) => {
                let next = self.wire.with(|state| state.inbox.pop_front());
                match next {
                    Some(msg) => {
                        self.round = Some(round.unwrap_or(plan.max_reads) - 1);
                        Some(TransportEvent::Read(msg))
                    }
                    None => self.round.take().map(|_| TransportEvent::ReadComplete),
                }
            }
        }
    }

    fn close(&mut self, _: &TransportContext) -> Detach {
        (self.plan, self.round) = (None, None);
        Detach::Done
    }
}
