//! Drains (L11): a phase before the shutdown in which what was begun is ended.

mod support;

mod completion;
mod groups;
mod guards;
mod offloaded;
mod phases;
mod traffic;
