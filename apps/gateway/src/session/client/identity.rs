//! The identity of a session: its token, which may expire and be renewed, and its name.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{LocalLoop, sleep};
use waterwheel::executor::Nanos;

use super::SessionState;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::core::unix_time;
use crate::session::reply::{GatewayReply, Push};
use crate::session::requester::Requester;

impl SessionState {
    /// Carries out `connect`: takes an identity, or renews it.
    pub(super) fn connect(
        self: &Rc<Self>,
        token: Option<String>,
        name: Option<String>,
    ) -> Result<GatewayReply, GatewayError> {
        let before = self.requester.borrow().clone();
        let requester = match (token, &before) {
            (None, Some(before)) => before.clone(),
            (token, _) => self.core.authenticate(token.as_deref(), self.peer)?,
        };
        if let Some(before) = before
            && self.has_begun.get()
            && before.identity.user != requester.identity.user
        {
            let message = "`connect` with another user is not possible after other commands";
            return Err(GatewayError::new(ErrorCode::WrongOrder, message));
        }
        self.introduce(requester, name)?;
        self.has_begun.set(true);
        let user = self.requester.borrow().as_ref().and_then(|now| now.user().cloned());
        Ok(GatewayReply::Connected { client: self.place.id.clone(), user })
    }

    /// Sets the identity and the name; ends subscriptions that it does not permit.
    pub(super) fn introduce(
        self: &Rc<Self>,
        mut requester: Requester,
        name: Option<String>,
    ) -> Result<(), GatewayError> {
        requester.name = self.take_name(&requester, name)?;
        let (permissions, expires_at) =
            (requester.identity.permissions.clone(), requester.identity.expires_at);
        let before = self.requester.replace(Some(requester));
        drop(before);
        self.watch_expiry(expires_at);
        let (kept, ended): (Vec<_>, Vec<_>) = self
            .subscriptions
            .take()
            .into_iter()
            .partition(|subscription| permissions.may_subscribe(subscription.filter()));
        self.subscriptions.replace(kept);
        for subscription in ended {
            let filter = subscription.filter().clone();
            drop(subscription);
            let message = "the token no longer permits this subscription";
            let error = GatewayError::new(ErrorCode::NotPermitted, message);
            self.connection.push(&Push::Unsubscribed { filter, error });
        }
        Ok(())
    }

    /// Ends the session if the token that the gateway requires does not come.
    pub(super) fn await_token(self: &Rc<Self>) {
        let limit = self.core.limits().connect_timeout;
        let message = "no token has come in time";
        self.end_after(limit, None, GatewayError::new(ErrorCode::TokenRequired, message));
    }

    /// Takes the name from the client.
    pub(super) fn release_name(&self) {
        if let Some(name) = self.registered_name.take() {
            self.core.hub().names().release(&name, self.place.number);
        }
    }

    /// Returns the time of the loop.
    pub(super) fn now(&self) -> Nanos {
        LocalLoop::current().map_or(Nanos::default(), |here| here.now())
    }

    /// Gives the client the name that it chose, or that of its user. Returns the name that it chose.
    fn take_name(
        &self,
        requester: &Requester,
        name: Option<String>,
    ) -> Result<Option<Arc<str>>, GatewayError> {
        let refuse = |code, message: &'static str| Err(GatewayError::new(code, message));
        let names = self.core.hub().names();
        let (number, inbox) = (self.place.number, self.table.inbox());
        let registered = self.registered_name.borrow().clone();
        if let Some(user) = &requester.identity.user {
            if name.is_some_and(|name| *name != **user) {
                return refuse(ErrorCode::NotPermitted, "the token says the name of this client");
            }
            if registered.as_ref() != Some(user) {
                self.release_name();
                names.share(user, number, inbox);
                self.registered_name.replace(Some(user.clone()));
            }
            return Ok(None);
        }
        let Some(name) = name else { return Ok(registered) };
        let is_stranger =
            self.core.access().has_users() && !requester.identity.permissions.is_admin;
        match registered {
            Some(registered) if *registered == *name => Ok(Some(registered)),
            Some(_) => refuse(ErrorCode::WrongOrder, "this client has a name"),
            None if is_stranger => {
                refuse(ErrorCode::NotPermitted, "names are those of users, which tokens say")
            }
            None => {
                let is_usable = !name.is_empty()
                    && name.len() <= self.core.limits().name_bytes
                    && !name.chars().any(|c| c.is_whitespace() || c.is_control());
                if !is_usable {
                    let message = "`name` is empty, too long, or has white space in it";
                    return refuse(ErrorCode::InvalidField, message);
                }
                let name: Arc<str> = name.into();
                if !names.choose(&name, number, inbox) {
                    return refuse(ErrorCode::NameTaken, "another client has this name");
                }
                self.registered_name.replace(Some(name.clone()));
                Ok(Some(name))
            }
        }
    }

    /// Ends the session when its token expires.
    fn watch_expiry(self: &Rc<Self>, expires_at: Option<u64>) {
        match expires_at {
            Some(at) => {
                let error = GatewayError::new(ErrorCode::TokenExpired, "the token has expired");
                let at = Duration::from_secs(at);
                self.end_after(at.saturating_sub(unix_time()), Some(at), error);
            }
            None => {
                let watch = self.expiry.take();
                watch.inspect(|watch| watch.abort());
            }
        }
    }

    /// Ends the session after a time, and not before `at` since 1970: the clocks of loops and of tokens may drift apart.
    fn end_after(self: &Rc<Self>, time: Duration, at: Option<Duration>, error: GatewayError) {
        let Some(here) = LocalLoop::current() else { return };
        // Weak: the task must not keep a session that has ended.
        let session = Rc::downgrade(self);
        let watch = here.spawn_local(async move {
            sleep(time).await;
            while let Some(left) = at.and_then(|at| at.checked_sub(unix_time()))
                && !left.is_zero()
            {
                sleep(left).await;
            }
            if let Some(session) = session.upgrade() {
                session.close(error, false);
            }
        });
        let before = self.expiry.replace(Some(watch));
        before.inspect(|before| before.abort());
    }
}
