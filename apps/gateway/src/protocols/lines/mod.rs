//! Lines of text over TCP.

use std::sync::Arc;

use waterwheel::channel::Edit;
use waterwheel::codec::LineDecoder;
use waterwheel::executor::Error;

use super::options::ProtocolOptions;
use crate::session::core::GatewayCore;

/// Adds the handlers of clients that speak lines to the pipelines of their channels.
#[derive(Clone, Debug)]
pub struct LineProtocol {
    _core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
}

impl LineProtocol {
    /// Creates the protocol.
    #[must_use]
    pub fn new(core: &Arc<GatewayCore>, options: &ProtocolOptions) -> Self {
        Self { _core: core.clone(), options: Arc::new(options.clone()) }
    }

    /// Adds the handlers of a client behind those that there are. Called on the client's loop.
    ///
    /// # Errors
    /// The time after which a client is idle is too short.
    pub fn add_handlers(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        edit.add_last("lines", LineDecoder::new(self.options.line_bytes).fail_fast().text())?;
        Ok(())
    }
}
