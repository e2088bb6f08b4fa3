//! The timeout handlers on a virtual clock (K07).

mod support;

mod first_message;
mod limits;
mod pauses;
mod read_properties;
mod reads;
mod write_properties;
mod writes;
