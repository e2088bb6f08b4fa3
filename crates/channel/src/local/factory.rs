//! The transport factory of local channels, for bootstraps.

use super::connection::Connection;
use super::listener::LocalListener;
use crate::channel::transport::{ServerTransportFactory, Transport, TransportFactory};

/// Channels within the process, for bootstraps: see the [module](super).
#[derive(Clone, Copy, Debug, Default)]
pub struct Local;

impl ServerTransportFactory for Local {
    fn server(&self) -> Box<dyn Transport> {
        Box::new(LocalListener::new())
    }
}

impl TransportFactory for Local {
    fn client(&self) -> Box<dyn Transport> {
        Box::new(Connection::new())
    }
}
