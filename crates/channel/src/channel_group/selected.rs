//! Operations on selected channels of a group.

use std::fmt;
use std::sync::Arc;

use waterwheel_executor::Error;

use super::group::ChannelGroup;
use super::group_command::{GroupCommand, GroupCommandItem, GroupOperation, ReservedMessage};
use super::outcome::{ChannelGroupFuture, OutcomeCollector};
use super::shared_send::send_to_loops;
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::pipeline::{Message, Msg};

/// Some channels of a group, for an operation: created by [`ChannelGroup::matching`].
///
/// The futures complete with a [`GroupOutcome`](crate::GroupOutcome) when all channels are done, and cannot be
/// cancelled. Their listeners run on the calling loop; on any other thread, on the global executor.
#[must_use = "a selection does nothing until an operation is called"]
pub struct Selected<'a, F> {
    group: &'a ChannelGroup,
    matches: F,
}

impl<'a, F: Fn(&Channel) -> bool> Selected<'a, F> {
    pub(super) fn new(group: &'a ChannelGroup, matches: F) -> Self {
        Self { group, matches }
    }

    /// Returns the selected members, by loop.
    fn by_loop(&self, servers_too: bool) -> Vec<Vec<Channel>> {
        let mut by_loop = self.group.by_loop();
        for channels in &mut by_loop {
            channels
                .retain(|channel| (servers_too || !channel.is_server()) && (self.matches)(channel));
        }
        by_loop
    }

    /// Writes a message to each channel. The next flush sends the message. No other loop is woken for the write.
    #[track_caller]
    pub fn write(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.write_each(|_| msg.clone())
    }

    /// Creates a message for each channel, on the calling thread, and writes it. If `make` panics, nothing is written.
    #[track_caller]
    pub fn write_each<M: Into<Msg>>(&self, make: impl FnMut(&Channel) -> M) -> ChannelGroupFuture {
        let (channels, msgs) = self.messages(make);
        self.run_operation(GroupOperation::Write, channels, msgs)
    }

    /// Writes a message to each channel, and flushes.
    #[track_caller]
    pub fn write_and_flush(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.write_and_flush_each(|_| msg.clone())
    }

    /// Creates a message for each channel, as [`write_each`](Self::write_each) does, writes it, and flushes.
    #[track_caller]
    pub fn write_and_flush_each<M: Into<Msg>>(
        &self,
        make: impl FnMut(&Channel) -> M,
    ) -> ChannelGroupFuture {
        let (channels, msgs) = self.messages(make);
        self.run_operation(GroupOperation::WriteAndFlush, channels, msgs)
    }

    /// Writes a message to each channel and flushes, without a future: nothing is allocated per channel, but for a clone of
    /// a message that a channel cannot write by reference ([`Handler::encode_shared`](crate::Handler::encode_shared)). As
    /// with [`Channel::send`], a failure because a channel is closed is silent, and any other refusal is reported.
    pub fn send(&self, msg: impl Message + Clone) {
        let selected = |channels: &Arc<[Channel]>| {
            channels.iter().filter(|channel| (self.matches)(channel)).cloned().collect()
        };
        send_to_loops(self.group.receivers_by_loop().iter().map(selected).collect(), msg);
    }

    /// Flushes the channels: sends all messages that were written before.
    pub fn flush(&self) {
        let item = |channel| GroupCommandItem { channel, message: None, reporter: None };
        let commands = self.by_loop(false).into_iter().map(|channels| {
            GroupCommand::new(GroupOperation::Flush, channels.into_iter().map(item).collect())
        });
        dispatch_all(commands.collect());
    }

    /// Closes the channels, servers too, after their flushed messages.
    #[track_caller]
    pub fn close(&self) -> ChannelGroupFuture {
        self.run_operation(GroupOperation::Close, self.by_loop(true), Vec::new())
    }

    /// Disconnects the channels.
    #[track_caller]
    pub fn disconnect(&self) -> ChannelGroupFuture {
        self.run_operation(GroupOperation::Disconnect, self.by_loop(true), Vec::new())
    }

    /// Deregisters the channels from their loops without closing them.
    #[track_caller]
    pub fn deregister(&self) -> ChannelGroupFuture {
        self.run_operation(GroupOperation::Deregister, self.by_loop(true), Vec::new())
    }

    /// Completes when all selected channels have been closed. Does not close them.
    #[track_caller]
    pub fn closed(&self) -> ChannelGroupFuture {
        let channels = self.by_loop(true).concat();
        let (collector, future) =
            OutcomeCollector::begin(self.group.shared_name(), channels.clone(), true);
        for (at, channel) in channels.into_iter().enumerate() {
            let reporter = collector.reporter(at);
            channel.closed().add_listener(move |closed| reporter.report(closed.clone()));
        }
        future
    }

    /// Creates the message for each channel. All user code runs here.
    fn messages<M: Into<Msg>>(
        &self,
        mut make: impl FnMut(&Channel) -> M,
    ) -> (Vec<Vec<Channel>>, Vec<Msg>) {
        let by_loop = self.by_loop(false);
        let msgs = by_loop.iter().flatten().map(|channel| make(channel).into()).collect();
        (by_loop, msgs)
    }

    #[track_caller]
    fn run_operation(
        &self,
        operation: GroupOperation,
        by_loop: Vec<Vec<Channel>>,
        msgs: Vec<Msg>,
    ) -> ChannelGroupFuture {
        let closed_is_success =
            matches!(operation, GroupOperation::Close | GroupOperation::Disconnect);
        let (collector, future) =
            OutcomeCollector::begin(self.group.shared_name(), by_loop.concat(), closed_is_success);
        let (mut indexes, mut msgs) = (0.., msgs.into_iter());
        let commands = by_loop.into_iter().map(|channels| {
            let asked = channels.into_iter().zip(&mut indexes).filter_map(|(channel, at)| {
                let reporter = collector.reporter(at);
                let message =
                    match msgs.next().map(|msg| reserve_message(&channel, msg)).transpose() {
                        Ok(message) => message,
                        Err(error) => {
                            reporter.report(Err(Error::new(error)));
                            return None;
                        }
                    };
                Some(GroupCommandItem { channel, message, reporter: Some(reporter) })
            });
            GroupCommand::new(operation, asked.collect())
        });
        dispatch_all(commands.collect());
        future
    }
}

/// Dispatches to other loops first: performing a command on this loop may take a while.
fn dispatch_all(commands: Vec<GroupCommand>) {
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        commands.into_iter().partition(GroupCommand::is_for_this_loop);
    for command in elsewhere.into_iter().chain(here) {
        command.dispatch();
    }
}

/// Prepares a message for a channel. For a channel of another loop its bytes count as pending from now on.
fn reserve_message(channel: &Channel, msg: Msg) -> Result<ReservedMessage, ChannelError> {
    let submitted = match channel.in_event_loop() {
        true => None,
        false => Some(channel.reserve_pending(msg.size_hint())?),
    };
    Ok(ReservedMessage { msg, submitted })
}

impl<F> fmt::Debug for Selected<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selected({:?})", self.group)
    }
}
