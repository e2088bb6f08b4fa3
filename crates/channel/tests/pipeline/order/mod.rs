//! The order of calls: lifecycle, deferred events, nested calls.

mod deferred_events;
mod events_from_the_loop;
mod events_on_return;
mod lifecycle;
mod nested_channels;
mod stack_depth;
