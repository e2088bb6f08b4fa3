//! The settings for the channels of a bootstrap.

use std::sync::Arc;

use waterwheel_executor::Error;

use crate::channel::handle::attributes::Attributes;
use crate::channel::handle::new_channel::{NewChannel, SharedInitialiser};
use crate::channel::options::ChannelOptions;
use crate::driver::SocketOption;
use crate::pipeline::Edit;

/// Settings for the channels of a client, for a server, or for a server's connections. Clones share their
/// values.
#[derive(Clone, Default)]
pub(super) struct ChannelTemplate {
    pub(super) options: Arc<ChannelOptions>,
    pub(super) socket_options: Vec<SocketOption>,
    pub(super) attributes: Attributes,
    initialiser: Option<SharedInitialiser>,
}

impl ChannelTemplate {
    pub(super) fn initialise_by(
        &mut self,
        initialiser: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) {
        self.initialiser = Some(Arc::new(initialiser));
    }

    /// Adds an initialiser, which runs after the present one.
    pub(super) fn then_initialise_by(
        &mut self,
        next: impl Fn(&mut Edit<'_>) -> Result<(), Error> + Send + Sync + 'static,
    ) {
        let first = self.initialiser.take();
        self.initialise_by(move |edit| {
            first.as_ref().map_or(Ok(()), |first| first(edit))?;
            next(edit)
        });
    }

    /// Runs the initialiser, if there is one.
    pub(super) fn initialise(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        self.initialiser.as_ref().map_or(Ok(()), |initialiser| initialiser(edit))
    }

    /// Applies the settings to a channel.
    pub(super) fn apply(&self, new: NewChannel) -> NewChannel {
        let new = new.options(self.options.clone()).attributes(&self.attributes);
        match &self.initialiser {
            Some(initialiser) => new.shared_initialiser(initialiser.clone()),
            None => new,
        }
    }
}
