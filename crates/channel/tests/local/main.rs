//! Local channels: two ends within the process, without a driver.

mod support;

mod event_order;
mod flow_control;
mod half_closure;
mod names_and_backlog;
mod registration;
mod shutdown;
mod threads;
