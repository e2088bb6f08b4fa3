//! Names of topics, and filters that stand for many of them.
//!
//! A topic is segments with dots between them: `chat.room-7`. A filter is a topic in which the segment `*` stands for any
//! one segment, and `>` at the end for one or more. A topic is also a filter: the one that matches itself.

pub mod filter;
pub mod limits;
pub mod name;
