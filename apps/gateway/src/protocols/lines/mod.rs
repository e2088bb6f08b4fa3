//! Lines of text over TCP. `docs/GATEWAY.md` has the commands and replies.

mod command;
mod handler;
mod text;
mod wire;

use std::fmt;
use std::sync::Arc;

use waterwheel::channel::Edit;
use waterwheel::codec::LineDecoder;
use waterwheel::executor::Error;
use waterwheel::handlers::IdleHandler;

use self::handler::LineClient;
use super::options::ProtocolOptions;
use crate::session::core::GatewayCore;

/// Adds the handlers of clients that speak lines to the pipelines of their channels.
#[derive(Clone)]
pub struct LineProtocol {
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
}

impl LineProtocol {
    /// Creates the protocol.
    #[must_use]
    pub fn new(core: &Arc<GatewayCore>, options: &ProtocolOptions) -> Self {
        Self { core: core.clone(), options: Arc::new(options.clone()) }
    }

    /// Adds the handlers of a client behind those that there are. Called on the client's loop. The channel must allow half
    /// closure, if the answers to commands before an end of the input are to be sent.
    ///
    /// # Errors
    /// The time after which a client is idle is too short.
    pub fn add_handlers(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        let lines = LineDecoder::new(self.options.line_bytes).fail_fast().fail_unfinished().text();
        edit.add_last("lines", lines)?;
        if let Some(idle) = self.options.line_idle {
            // After the decoder: a client that sends bytes but never a whole line counts as idle.
            edit.add_last("idle", IdleHandler::builder().reader(idle / 2).build()?)?;
        }
        edit.add_last("gateway", LineClient::new(&self.core, &self.options))?;
        Ok(())
    }
}

impl fmt::Debug for LineProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineProtocol").field("options", &self.options).finish_non_exhaustive()
    }
}
