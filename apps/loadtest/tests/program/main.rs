//! The program as users run it: its exit status, its table, its files; against gateways, and against one that cheats.

mod scenarios;
mod support;
mod verdicts;
