//! Unix sockets over every driver, with real sockets at the other end.

#[path = "../support/ancillary_messages.rs"]
mod ancillary_messages;
#[path = "../support/loop_rig.rs"]
mod loop_rig;
#[path = "../support/probe.rs"]
#[allow(dead_code, reason = "the functions for TCP are not used here")]
mod probe;

mod connecting;
mod credentials;
mod datagrams;
mod descriptor_passing;
mod held_descriptors;
mod long_paths;
mod mixed_writes;
mod same_as_tcp;
mod socket_files;
mod streams;
mod support;
