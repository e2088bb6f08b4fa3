//! Facts of the machine: limits of this process, memory and CPU time of the gateways, CPU time of everything.

pub(crate) mod descriptors;
pub(crate) mod machine_load;
pub(crate) mod process_usage;
