//! Builds ALPN handlers: which protocols there are, and their pipelines.

use std::fmt;
use std::sync::Arc;

use waterwheel_channel::{Edit, Quoted};
use waterwheel_executor::Error;

use super::alpn_handler::AlpnHandler;

/// The name of the fallback in errors.
const FALLBACK: &str = "otherwise";

/// Builds an [`AlpnHandler`]. At least one protocol is required.
#[must_use]
#[derive(Debug, Default)]
pub struct AlpnHandlerBuilder(AlpnPlan);

/// The pipelines that the handlers of all connections share.
#[derive(Default)]
pub(super) struct AlpnPlan {
    pipelines: Vec<AlpnPipeline>,
    pub(super) fallback: Option<AlpnPipeline>,
}

/// A protocol, and how its pipeline is made.
pub(super) struct AlpnPipeline {
    pub(super) protocol: Vec<u8>,
    initialiser: AlpnInitialiser,
}

type AlpnInitialiser = Box<dyn Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync>;

impl AlpnPipeline {
    fn new(
        protocol: Vec<u8>,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self { protocol, initialiser: Box::new(initialiser) }
    }

    pub(super) fn initialise(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        (self.initialiser)(edit)
    }
}

impl AlpnPlan {
    pub(super) fn find(&self, protocol: &[u8]) -> Option<&AlpnPipeline> {
        self.pipelines.iter().find(|pipeline| pipeline.protocol == protocol)
    }

    pub(super) fn protocols(&self) -> impl Iterator<Item = &[u8]> {
        self.pipelines.iter().map(|pipeline| &pipeline.protocol[..])
    }

    /// Returns the names of the protocols, for errors.
    pub(super) fn accepted(&self) -> String {
        let names: Vec<_> = self.protocols().map(|name| Quoted::new(name).to_string()).collect();
        names.join(", ")
    }
}

impl AlpnHandlerBuilder {
    /// Sets the pipeline of connections that have negotiated `protocol`: `initialiser` makes it, the ALPN handler removes
    /// itself afterwards. Handlers that are added at the back or after the ALPN handler get the connection's
    /// plaintext.
    pub fn on(
        mut self,
        protocol: impl Into<Vec<u8>>,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.0.pipelines.push(AlpnPipeline::new(protocol.into(), initialiser));
        self
    }

    /// Sets the fallback: the pipeline of connections that have negotiated no protocol, because one side does not speak
    /// ALPN. Without one such a connection is closed with an error.
    ///
    /// A connection that has negotiated a protocol never gets the fallback: both sides have to mean the same protocol.
    pub fn otherwise(
        mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        self.0.fallback = Some(AlpnPipeline::new(FALLBACK.into(), initialiser));
        self
    }

    /// Builds the handler.
    ///
    /// # Errors
    /// [`InvalidAlpnHandler`] names the protocol that is wrong.
    pub fn build(self) -> Result<AlpnHandler, InvalidAlpnHandler> {
        let plan = self.0;
        if plan.pipelines.is_empty() {
            return Err(InvalidAlpnHandler::NoProtocol);
        }
        for (at, name) in plan.protocols().enumerate() {
            if !(1..=255).contains(&name.len()) {
                let (name, length) = (Quoted::new(name), name.len());
                return Err(InvalidAlpnHandler::InvalidName { name, length });
            }
            if plan.protocols().take(at).any(|earlier| earlier == name) {
                return Err(InvalidAlpnHandler::DuplicateName { name: Quoted::new(name) });
            }
        }
        Ok(AlpnHandler::new(Arc::new(plan)))
    }
}

impl fmt::Debug for AlpnPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlpnPlan")
            .field("protocols", &self.accepted())
            .field("has_fallback", &self.fallback.is_some())
            .finish()
    }
}

/// Why an [`AlpnHandler`] cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAlpnHandler {
    /// There is no protocol to choose.
    #[error("an ALPN handler needs a protocol: call `on`")]
    NoProtocol,
    /// Two pipelines are for the same protocol.
    #[error("two pipelines of an ALPN handler are for {name}")]
    DuplicateName {
        /// The protocol.
        name: Quoted,
    },
    /// No peer can negotiate this protocol.
    #[error("the ALPN protocol {name} has {length} bytes: 1 to 255 are possible")]
    InvalidName {
        /// The protocol.
        name: Quoted,
        /// The number of bytes.
        length: usize,
    },
}

impl From<InvalidAlpnHandler> for Error {
    fn from(error: InvalidAlpnHandler) -> Self {
        Error::new(error)
    }
}
