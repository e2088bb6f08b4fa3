//! Reads and writes of a channel: rounds, pauses, flushes, water marks.

mod flushes;
mod handler_pauses;
mod held_writes;
mod joined_writes;
mod last_write_time;
mod misbehaving_messages;
mod read_pauses;
mod reading_since;
mod reads;
mod required_writes;
mod water_marks;
mod writes;
