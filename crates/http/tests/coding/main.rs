//! Content codings without a connection: encoders and decoders, their memory, and the rules of compression (H09).

mod budgets;
mod coding_support;
mod decompression;
mod properties;
mod refusals;
mod rules;
