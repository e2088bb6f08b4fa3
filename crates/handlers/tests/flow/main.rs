//! Flow control and the consolidation of flushes, on embedded channels.

mod support;

mod flow_control;
mod flushes;
mod properties;
