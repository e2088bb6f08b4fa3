//! Drains (L11): the phase before a shutdown in which work in progress finishes.

mod support;

mod completion;
mod groups;
mod guards;
mod offloaded;
mod phases;
mod traffic;
