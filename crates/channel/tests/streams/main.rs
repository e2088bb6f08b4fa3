//! Stream channels over drivers by hand, both kinds of them, whole and faulty.

mod support;

mod breaking;
mod closing;
mod endings;
mod faults;
mod files;
mod half_closure;
mod leaving;
mod panics;
mod reads;
mod writes;
