//! Asking many channels for something.

use std::fmt;

use waterwheel_executor::Error;

use super::group::ChannelGroup;
use super::group_command::{GroupCommand, GroupCommandItem, GroupOperation, ReservedMessage};
use super::outcome::{ChannelGroupFuture, OutcomeCollector};
use crate::channel::error::ChannelError;
use crate::channel::handle::Channel;
use crate::pipeline::{Message, Msg};

/// Some channels of a group, to be asked for something: made by [`ChannelGroup::matching`].
///
/// The futures complete, with a [`GroupOutcome`](crate::GroupOutcome), when all who were asked are done,
/// and cannot be cancelled. Their listeners run on the calling loop; elsewhere on the global executor.
#[must_use = "it does nothing but what it is asked for"]
pub struct Selected<'a, F> {
    group: &'a ChannelGroup,
    matches: F,
}

impl<'a, F: Fn(&Channel) -> bool> Selected<'a, F> {
    pub(super) fn new(group: &'a ChannelGroup, matches: F) -> Self {
        Self { group, matches }
    }

    /// Those who are in now, loop by loop.
    fn by_loop(&self, servers_too: bool) -> Vec<Vec<Channel>> {
        let mut by_loop = self.group.by_loop();
        for channels in &mut by_loop {
            channels
                .retain(|channel| (servers_too || !channel.is_server()) && (self.matches)(channel));
        }
        by_loop
    }

    /// Writes a message to each: it waits until it is flushed, and no other loop is woken for it.
    #[track_caller]
    pub fn write(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.write_each(|_| msg.clone())
    }

    /// Writes to each the message that is made for it, on the calling thread. If that panics nothing is
    /// written to anybody.
    #[track_caller]
    pub fn write_each<M: Into<Msg>>(&self, make: impl FnMut(&Channel) -> M) -> ChannelGroupFuture {
        let (channels, msgs) = self.messages(make);
        self.ask(GroupOperation::Write, channels, msgs)
    }

    /// Writes a message to each, and flushes.
    #[track_caller]
    pub fn write_and_flush(&self, msg: impl Message + Clone) -> ChannelGroupFuture {
        self.write_and_flush_each(|_| msg.clone())
    }

    /// Writes to each the message that is made for it, as [`write_each`](Self::write_each), and flushes.
    #[track_caller]
    pub fn write_and_flush_each<M: Into<Msg>>(
        &self,
        make: impl FnMut(&Channel) -> M,
    ) -> ChannelGroupFuture {
        let (channels, msgs) = self.messages(make);
        self.ask(GroupOperation::WriteAndFlush, channels, msgs)
    }

    /// Writes a message to each and flushes, without a future: nothing is allocated per channel but what
    /// the message needs. As for [`Channel::send`]: that a channel is closed nobody is told, that it
    /// refused for another reason is reported.
    pub fn send(&self, msg: impl Message + Clone) {
        let (by_loop, msgs) = self.messages(|_| msg.clone());
        let mut msgs = msgs.into_iter();
        let errands = by_loop.into_iter().map(|channels| {
            let loaded = channels.into_iter().zip(&mut msgs).filter_map(|(channel, msg)| {
                let load = load(&channel, msg).map_err(|error| channel.report_refused(&error));
                Some(GroupCommandItem { channel, load: Some(load.ok()?), ticket: None })
            });
            GroupCommand::new(GroupOperation::WriteAndFlush, loaded.collect())
        });
        go(errands.collect());
    }

    /// Sends what was written.
    pub fn flush(&self) {
        let item = |channel| GroupCommandItem { channel, load: None, ticket: None };
        let errands = self.by_loop(false).into_iter().map(|channels| {
            GroupCommand::new(GroupOperation::Flush, channels.into_iter().map(item).collect())
        });
        go(errands.collect());
    }

    /// Closes them, servers too, after what was flushed before.
    #[track_caller]
    pub fn close(&self) -> ChannelGroupFuture {
        self.ask(GroupOperation::Close, self.by_loop(true), Vec::new())
    }

    /// Disconnects them.
    #[track_caller]
    pub fn disconnect(&self) -> ChannelGroupFuture {
        self.ask(GroupOperation::Disconnect, self.by_loop(true), Vec::new())
    }

    /// Lets them leave their loops, without closing them.
    #[track_caller]
    pub fn deregister(&self) -> ChannelGroupFuture {
        self.ask(GroupOperation::Deregister, self.by_loop(true), Vec::new())
    }

    /// Completes when all of those that are in now have been closed. They are asked for nothing.
    #[track_caller]
    pub fn closed(&self) -> ChannelGroupFuture {
        let channels = self.by_loop(true).concat();
        let (gathering, future) =
            OutcomeCollector::begin(self.group.name_to_share(), channels.clone(), true);
        for (at, channel) in channels.into_iter().enumerate() {
            let ticket = gathering.ticket(at);
            channel.closed().add_listener(move |closed| ticket.tell(closed.clone()));
        }
        future
    }

    /// Who gets which message. All that is the user's runs in here.
    fn messages<M: Into<Msg>>(
        &self,
        mut make: impl FnMut(&Channel) -> M,
    ) -> (Vec<Vec<Channel>>, Vec<Msg>) {
        let by_loop = self.by_loop(false);
        let msgs = by_loop.iter().flatten().map(|channel| make(channel).into()).collect();
        (by_loop, msgs)
    }

    #[track_caller]
    fn ask(
        &self,
        what: GroupOperation,
        by_loop: Vec<Vec<Channel>>,
        msgs: Vec<Msg>,
    ) -> ChannelGroupFuture {
        let closing = matches!(what, GroupOperation::Close | GroupOperation::Disconnect);
        let (gathering, future) =
            OutcomeCollector::begin(self.group.name_to_share(), by_loop.concat(), closing);
        let (mut tickets, mut msgs) = (0.., msgs.into_iter());
        let errands = by_loop.into_iter().map(|channels| {
            let asked = channels.into_iter().zip(&mut tickets).filter_map(|(channel, at)| {
                let ticket = gathering.ticket(at);
                let load = match msgs.next().map(|msg| load(&channel, msg)).transpose() {
                    Ok(load) => load,
                    Err(error) => {
                        ticket.tell(Err(Error::new(error)));
                        return None;
                    }
                };
                Some(GroupCommandItem { channel, load, ticket: Some(ticket) })
            });
            GroupCommand::new(what, asked.collect())
        });
        go(errands.collect());
        future
    }
}

/// Other loops first: what happens on this one may take its time.
fn go(errands: Vec<GroupCommand>) {
    let (here, elsewhere): (Vec<_>, Vec<_>) = errands.into_iter().partition(GroupCommand::is_here);
    for errand in elsewhere.into_iter().chain(here) {
        errand.go();
    }
}

/// A message on its way to a channel: of another loop, it counts as pending from now on.
fn load(channel: &Channel, msg: Msg) -> Result<ReservedMessage, ChannelError> {
    let submitted = match channel.in_event_loop() {
        true => None,
        false => Some(channel.weigh(msg.size_hint())?),
    };
    Ok(ReservedMessage { msg, submitted })
}

impl<F> fmt::Debug for Selected<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Selected({:?})", self.group)
    }
}
