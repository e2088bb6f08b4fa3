//! The program around the gateway: arguments, signals, the service manager, the process that takes over.
//!
//! ```text
//!   main thread ◄── OperatorRequest ◄── signals: SIGTERM, SIGINT, SIGHUP, SIGUSR2; the end of a take-over
//!      │
//!      └──► Gateway: start, reload, drain
//! ```
//!
//! | signal | |
//! |---|---|
//! | SIGTERM, SIGINT | drains and ends with status 0; a second one ends the program at once |
//! | SIGHUP | reads the configuration, keys and certificates again; ends the program if its terminal was closed |
//! | SIGUSR2 | starts a new process that takes over; this one drains when that is ready |

pub mod console;
pub mod descriptors;
pub mod program;
pub mod service_manager;
pub mod signals;
pub mod take_over;
