//! Users and transports that do what nobody should: the channel survives it, or at least its loop does.

mod support;

mod destructors;
mod floods;
mod kept_contexts;
mod meddling;
mod offloaded;
mod restless;
mod transports;
mod weights;
