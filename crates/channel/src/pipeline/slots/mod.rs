//! The slots of a pipeline: one for each handler, linked in order, and how they are found and changed.
//!
//! | to understand | read |
//! |---|---|
//! | one slot: its handler, its state, its backlog | `slot` |
//! | the slots in order, from head to tail | `slot_list` |
//! | names of handlers, and finding a handler | `name`, `lookup` |
//! | adding, removing and replacing handlers | `edit` |

pub(crate) mod edit;
pub(crate) mod lookup;
pub(crate) mod name;
pub(crate) mod slot;
pub(crate) mod slot_list;
