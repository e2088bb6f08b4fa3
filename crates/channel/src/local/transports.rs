//! What bootstraps make local channels of.

use super::connection::Connection;
use super::listener::Listener;
use crate::channel::transport::{Transport, Transports};

/// Channels within the process, for bootstraps: see the [module](super).
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl Transports for Local {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(Listener::new())
    }

    fn client(&self) -> Box<dyn Transport> {
        Box::new(Connection::new())
    }
}
