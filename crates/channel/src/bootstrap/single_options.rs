//! Setters for single channel options on a bootstrap.

use std::sync::Arc;
use std::time::Duration;

use super::channel_template::ChannelTemplate;
use super::client_bootstrap::Bootstrap;
use super::server_bootstrap::ServerBootstrap;
use crate::channel::options::{ChannelOptions, PauseReads, WaterMarks};
use crate::channel::reading::read_size::ReceiveSizes;

impl ChannelTemplate {
    /// Changes single options and keeps the others.
    fn with_options(&mut self, change: impl FnOnce(&mut ChannelOptions)) {
        change(Arc::make_mut(&mut self.options));
    }
}

/// Defines one setter per option, for a bootstrap's own channels or, with another name, for accepted channels.
macro_rules! single_options {
    ($bootstrap:ident, $template:ident, $whose:literal: $($name:ident = $option:ident: $type:ty;)*) => {
        #[doc = concat!("Single options of ", $whose, ", beside those set before: see [`ChannelOptions`].")]
        impl $bootstrap {
            $(
                #[doc = concat!(
                    "Sets [`", stringify!($option), "`](ChannelOptions::", stringify!($option), ") of ", $whose, "."
                )]
                pub fn $name(mut self, $option: $type) -> Self {
                    self.$template.with_options(|options| options.$option = $option);
                    self
                }
            )*
        }
    };
}

single_options! { Bootstrap, template, "each channel":
    auto_read = auto_read: bool;
    pause_reads_while_unwritable = pause_reads_while_unwritable: PauseReads;
    water_marks = water_marks: WaterMarks;
    receive_sizes = receive_sizes: ReceiveSizes;
    reads_per_round = reads_per_round: u32;
    allow_half_closure = allow_half_closure: bool;
}

single_options! { ServerBootstrap, own, "the server":
    auto_read = auto_read: bool;
    reads_per_round = reads_per_round: u32;
}

single_options! { ServerBootstrap, child, "each connection":
    child_auto_read = auto_read: bool;
    child_pause_reads_while_unwritable = pause_reads_while_unwritable: PauseReads;
    child_water_marks = water_marks: WaterMarks;
    child_receive_sizes = receive_sizes: ReceiveSizes;
    child_reads_per_round = reads_per_round: u32;
    child_allow_half_closure = allow_half_closure: bool;
}

impl Bootstrap {
    /// Sets the [`connect_timeout`](ChannelOptions::connect_timeout) of each channel: a duration, or `None`.
    pub fn connect_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        let timeout = timeout.into();
        self.template.with_options(|options| options.connect_timeout = timeout);
        self
    }
}
