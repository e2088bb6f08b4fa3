//! Tests of frames, messages and compression with bytes alone: no channel, no clock.

mod broadcasts;
mod closes;
mod deflate;
mod encoding;
mod fragments;
mod limits;
mod naive_decoder;
mod naive_inflate;
mod parts;
mod properties;
mod support;
mod texts;
mod verified;
mod violations;
