//! The scenarios: each opens clients, does something to a gateway, and reports what came of it.

mod audience;
pub(crate) mod churn;
pub(crate) mod connections;
pub(crate) mod delivery_check;
pub(crate) mod fanout;
pub(crate) mod load_run;
pub(crate) mod publishing;
pub(crate) mod storm;
