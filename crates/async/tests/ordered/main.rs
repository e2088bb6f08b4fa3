//! Ordered answers on embedded channels: order, back-pressure, errors, the ways in which calls end.

mod back_pressure;
mod ending;
mod failures;
mod half_closure;
mod hostile;
mod order;
mod properties;
mod support;
mod wakes;
