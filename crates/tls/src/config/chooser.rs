//! Configurations that are chosen for each connection, when its ClientHello is known (T03).

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use waterwheel_executor::engine::{run_as, run_user_code};
use waterwheel_executor::{Error, Origin, UserCode};

use super::server::ServerTls;
use crate::client_hello::ClientHello;

/// The answer of a chooser; `None` if it has no configuration for the client.
pub(crate) type ChooserOutcome = Result<Option<ServerTls>, Error>;

pub(crate) type ChooserFuture = Pin<Box<dyn Future<Output = ChooserOutcome>>>;

/// The user's function that chooses a configuration.
pub(crate) struct ConfigChooser {
    function: ChooserFunction,
    origin: Origin,
}

enum ChooserFunction {
    Lookup(Box<dyn Fn(&ClientHello) -> ChooserOutcome + Send + Sync>),
    Future(Box<dyn Fn(ClientHello) -> ChooserFuture + Send + Sync>),
}

/// A choice that was made, or that has begun.
pub(crate) enum ChooserAnswer {
    Now(ChooserOutcome),
    Later(ChooserFuture),
}

impl ConfigChooser {
    /// Calls the user's function. A panic is reported, and becomes the error of the choice.
    pub(crate) fn ask(&self, hello: &ClientHello) -> ChooserAnswer {
        let called = run_as(UserCode::Callback, self.origin, || match &self.function {
            ChooserFunction::Lookup(choose) => ChooserAnswer::Now(choose(hello)),
            ChooserFunction::Future(choose) => ChooserAnswer::Later(choose(hello.clone())),
        });
        called.unwrap_or_else(|panicked| ChooserAnswer::Now(Err(panicked)))
    }

    /// Runs a future of the user's. A panic is reported with the line that created the chooser.
    pub(crate) async fn run(&self, mut future: ChooserFuture) -> ChooserOutcome {
        poll_fn(|context| {
            let poll = || future.as_mut().poll(context);
            run_user_code(UserCode::Future, self.origin, poll)
                .unwrap_or_else(|panicked| Poll::Ready(Err(panicked)))
        })
        .await
    }
}

impl ServerTls {
    /// Returns a configuration that is chosen for each connection, by a future that gets its
    /// [`ClientHello`]: the name that the client asks for, and what it offers. `None` refuses the client, with the
    /// alert unrecognized_name.
    ///
    /// The future runs on the loop of the connection. Work that blocks belongs on an executor of its own, whose future
    /// is awaited:
    ///
    /// ```
    /// use waterwheel_executor::{Error, EventExecutorGroup};
    /// use waterwheel_tls::{ClientHello, ServerTls, TlsConfigError};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let disk = EventExecutorGroup::builder().threads(1).build()?;
    /// let config = ServerTls::chosen_by(move |hello: ClientHello| {
    ///     let disk = disk.clone();
    ///     async move {
    ///         let Some(name) = hello.server_name().map(str::to_owned) else { return Ok(None) };
    ///         disk.submit(move || load(&name))?.await?
    ///     }
    /// });
    ///
    /// fn load(name: &str) -> Result<Option<ServerTls>, Error> {
    ///     let files = ServerTls::builder().certificate_files(
    ///         format!("/etc/tls/{name}.crt"), // A name in a ClientHello has no slash.
    ///         format!("/etc/tls/{name}.key"),
    ///     );
    ///     match files.build() {
    ///         Ok(config) => Ok(Some(config)),
    ///         Err(TlsConfigError::Unreadable { .. }) => Ok(None),
    ///         Err(error) => Err(error.into()),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// While the choice is under way, the channel does not read, and the limit of the handshake applies. The end of
    /// the connection, and the removal of the handler, drop the future. An error or a panic ends the connection with
    /// the alert internal_error ([`TlsError::ChoiceFailed`](crate::TlsError::ChoiceFailed)).
    #[track_caller]
    pub fn chosen_by<F, C>(choose: C) -> Self
    where
        C: Fn(ClientHello) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Option<ServerTls>, Error>> + 'static,
    {
        let choose = move |hello| Box::pin(choose(hello)) as ChooserFuture;
        let function = ChooserFunction::Future(Box::new(choose));
        Self::chosen(ConfigChooser { function, origin: Origin::here() })
    }

    /// Returns a configuration that is chosen for each connection, like [`chosen_by`](Self::chosen_by), by a function
    /// that has the answer at once: the handshake goes on without a pause.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use waterwheel_tls::{ClientHello, ServerTls};
    ///
    /// fn by_name(configs: HashMap<String, ServerTls>) -> ServerTls {
    ///     ServerTls::chosen_by_lookup(move |hello| {
    ///         Ok(hello.server_name().and_then(|name| configs.get(name)).cloned())
    ///     })
    /// }
    /// ```
    #[track_caller]
    pub fn chosen_by_lookup<C>(choose: C) -> Self
    where
        C: Fn(&ClientHello) -> Result<Option<ServerTls>, Error> + Send + Sync + 'static,
    {
        let function = ChooserFunction::Lookup(Box::new(choose));
        Self::chosen(ConfigChooser { function, origin: Origin::here() })
    }
}

impl fmt::Debug for ConfigChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfigChooser(from {})", self.origin)
    }
}
