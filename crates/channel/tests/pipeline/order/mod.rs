//! The order of calls: lifecycle, deferred events, nested calls.

mod deferred_events;
mod events_from_the_loop;
mod lifecycle;
mod nested_channels;
mod stack_depth;
