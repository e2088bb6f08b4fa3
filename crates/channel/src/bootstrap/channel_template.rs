//! What the channels of a bootstrap are made with.

use std::sync::Arc;

use waterwheel_executor::Error;

use crate::channel::handle::attributes::Attributes;
use crate::channel::handle::new_channel::{NewChannel, SharedInitialiser};
use crate::channel::options::ChannelOptions;
use crate::driver::SocketOption;
use crate::pipeline::Edit;

/// What a client, a server, or a server's connections are made with. Whatever is cloned is shared.
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

    /// Makes the pipeline, as far as it is said how.
    pub(super) fn initialise(&self, edit: &mut Edit<'_>) -> Result<(), Error> {
        self.initialiser.as_ref().map_or(Ok(()), |initialiser| initialiser(edit))
    }

    /// A channel made like this.
    pub(super) fn apply(&self, new: NewChannel) -> NewChannel {
        let new = new.options(self.options.clone()).attributes(&self.attributes);
        match &self.initialiser {
            Some(initialiser) => new.shared_initialiser(initialiser.clone()),
            None => new,
        }
    }
}
