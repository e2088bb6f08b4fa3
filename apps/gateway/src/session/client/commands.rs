//! How commands are carried out and answered.

use std::rc::Rc;
use std::sync::Arc;

use super::SessionState;
use crate::engine::position::Position;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::command::{GatewayCommand, PublishItem};
use crate::session::connection::CommandId;
use crate::session::delivery::Delivery;
use crate::session::reply::{GatewayReply, Push};
use crate::session::requester::Requester;
use crate::topic::filter::TopicFilter;

/// The outcome of a command that was carried out: its answer, and the publications that follow it.
pub(super) struct CommandOutcome {
    reply: GatewayReply,
    recovered: Vec<Arc<Delivery>>,
}

impl CommandOutcome {
    /// Returns the outcome of a subscription.
    pub(super) fn subscribed(position: Position, recovered: Vec<Arc<Delivery>>, gap: bool) -> Self {
        let reply = GatewayReply::Subscribed { position, recovered: recovered.len(), gap };
        Self { reply, recovered }
    }
}

impl From<GatewayReply> for CommandOutcome {
    fn from(reply: GatewayReply) -> Self {
        Self { reply, recovered: Vec::new() }
    }
}

/// True if a command needs nothing of the engine.
pub(super) fn is_immediate(command: &Result<GatewayCommand, GatewayError>) -> bool {
    matches!(
        command,
        Err(_)
            | Ok(GatewayCommand::Connect { .. }
                | GatewayCommand::Unsubscribe { .. }
                | GatewayCommand::PushToUser { .. }
                | GatewayCommand::Ping)
    )
}

impl SessionState {
    /// Carries out a command that needs nothing of the engine.
    pub(super) fn carry_out_now(
        self: &Rc<Self>,
        command: Result<GatewayCommand, GatewayError>,
    ) -> Result<CommandOutcome, GatewayError> {
        let command = command?;
        if let GatewayCommand::Connect { token, name } = command {
            return self.connect(token, name).map(CommandOutcome::from);
        }
        let requester = self.requester()?;
        self.has_begun.set(true);
        match command {
            GatewayCommand::Unsubscribe { filter } => self.unsubscribe(&filter)?,
            GatewayCommand::PushToUser { user, text } => self.push(&requester, &user, &text)?,
            _ => {}
        }
        Ok(GatewayReply::Done.into())
    }

    /// Carries out a command.
    pub(super) async fn carry_out(
        self: &Rc<Self>,
        command: Result<GatewayCommand, GatewayError>,
    ) -> Result<CommandOutcome, GatewayError> {
        if is_immediate(&command) {
            return self.carry_out_now(command);
        }
        let command = command?;
        let requester = self.requester()?;
        self.has_begun.set(true);
        match command {
            GatewayCommand::Subscribe { filter, since, presence } => {
                self.subscribe(&requester, filter, since, presence).await
            }
            GatewayCommand::Publish(item) => {
                self.take_publication(&requester)?;
                self.core.publish(&requester, item).await.map(CommandOutcome::from)
            }
            GatewayCommand::PublishBatch(items) => {
                let take = |item: Result<PublishItem, GatewayError>| {
                    item.and_then(|item| self.take_publication(&requester).map(|()| item))
                };
                let items = items.into_iter().map(take).collect();
                self.core.publish_batch(&requester, items).await.map(CommandOutcome::from)
            }
            GatewayCommand::History { filter, since, limit } => {
                let page = self.core.history(&requester, filter, since, limit).await?;
                Ok(GatewayReply::History(page).into())
            }
            GatewayCommand::Presence { topic } => {
                let page = self.core.presence(&requester, &topic).await?;
                Ok(GatewayReply::Presence(page).into())
            }
            GatewayCommand::Connect { .. }
            | GatewayCommand::Unsubscribe { .. }
            | GatewayCommand::PushToUser { .. }
            | GatewayCommand::Ping => unreachable!("these are immediate"),
        }
    }

    /// Writes the answer to a command, and what follows it.
    pub(super) fn answer(
        &self,
        id: Option<CommandId>,
        outcome: Result<CommandOutcome, GatewayError>,
    ) {
        if self.has_ended.get() {
            return;
        }
        let CommandOutcome { reply, recovered } = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                self.counters.count_refusal(error.code);
                self.connection.answer(id, Err(&error));
                return;
            }
        };
        self.connection.answer(id, Ok(&reply));
        if matches!(reply, GatewayReply::Subscribed { gap: true, .. }) {
            self.counters.count_gap();
        }
        if !recovered.is_empty() {
            let count = recovered.len() as u64;
            self.counters.count_recovered(count);
            self.counters.count_deliveries(self.subscriber.protocol, count);
            for delivery in recovered {
                self.connection.push(&Push::Publication(delivery));
            }
        }
    }

    /// Returns the identity of the client.
    fn requester(&self) -> Result<Requester, GatewayError> {
        self.requester.borrow().clone().ok_or_else(|| {
            let message = "this gateway requires a token: send `connect`, or AUTH in lines, first";
            GatewayError::new(ErrorCode::TokenRequired, message)
        })
    }

    /// Takes a publication from the rate of this connection.
    fn take_publication(&self, requester: &Requester) -> Result<(), GatewayError> {
        if requester.identity.permissions.is_admin {
            return Ok(());
        }
        let mut rate = self.publish_rate.borrow_mut();
        rate.try_take(1, self.now()).map_err(|wait| {
            let message = format!("the rate of publications is exceeded; wait {wait:?}");
            GatewayError::new(ErrorCode::RateExceeded, message)
        })
    }

    fn unsubscribe(&self, filter: &TopicFilter) -> Result<(), GatewayError> {
        let ended = {
            let mut subscriptions = self.subscriptions.borrow_mut();
            let at = subscriptions.iter().position(|each| each.filter() == filter);
            at.map(|at| subscriptions.swap_remove(at))
        };
        ended.map(drop).ok_or_else(|| {
            let message = format!("there is no subscription to {filter}");
            GatewayError::new(ErrorCode::NotSubscribed, message)
        })
    }

    /// Sends a text to a user.
    fn push(&self, requester: &Requester, user: &str, text: &str) -> Result<(), GatewayError> {
        // A drain closes the receivers when this has ended.
        let _operation = self.core.begin_operation()?;
        if requester.identity.permissions.publish.is_empty() {
            let message = "no permission to send texts";
            return Err(GatewayError::new(ErrorCode::NotPermitted, message));
        }
        self.take_publication(requester)?;
        self.core.take_from_address(requester)?;
        let from = requester.user().unwrap_or(&self.place.id);
        match self.core.hub().names().send(user, from, &text.into()) {
            0 => Err(GatewayError::new(ErrorCode::NoSuchUser, "no client has this name")),
            _ => Ok(()),
        }
    }
}
