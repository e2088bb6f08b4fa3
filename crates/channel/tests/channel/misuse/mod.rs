//! Users and transports that do what nobody should: the channel survives it, or at least its loop does.

mod support;

mod closing;
mod destructors;
mod endless;
mod floods;
mod kept_contexts;
mod meddling;
mod offloaded;
mod owners;
mod refused;
mod restless;
mod transports;
mod weights;
