//! Captures of embedded channels: the packets, the file, and what tcpdump and tshark make of them.

mod support;

mod datagrams;
mod files;
mod limits;
mod streams;
mod tools;
