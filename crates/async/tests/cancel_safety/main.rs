//! Cancel safety (A06): every async function of the bridge is dropped at each of its awaits, and nothing is lost, sent by
//! half, or left behind.

mod channels;
mod connects;
mod select;
mod support;
mod time;
