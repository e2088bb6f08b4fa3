//! Drains (L11): a phase before the shutdown in which what was begun is ended.

mod support;

mod endings;
mod groups;
mod holds;
mod offloaded;
mod phases;
mod traffic;
