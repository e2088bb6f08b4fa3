//! The cases of stream transports: functions over any cell of the matrix, listed in `case_list.rs`.

pub(crate) mod back_pressure;
pub(crate) mod closing;
pub(crate) mod connecting;
pub(crate) mod echoing;
pub(crate) mod editing;
pub(crate) mod half_closure;
pub(crate) mod leaks;
pub(crate) mod reading;
pub(crate) mod reregistering;
pub(crate) mod resets;
pub(crate) mod shutdown;
pub(crate) mod writing;
