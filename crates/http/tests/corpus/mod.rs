//! Conformance cases for an HTTP/1.1 server, as data, with a reader of answers and a runner.
//!
//! Every case is what a client sends and what a server has to answer by RFC 9110 and RFC 9112, and by the project's
//! decisions where the standard leaves a choice. The cases know nothing of a server's inside: bytes in, bytes out.
//!
//! The server under test serves `GET /plaintext` (200, `Hello, World!`), `POST /echo` (200, the request's body), 404
//! for other paths, 405 with `Allow` for other methods on these two, and `HEAD` wherever it serves `GET`. Its limits are
//! those of `connections::limits`. Its answers have `Date` and `Content-Length`.
//!
//! # Parts
//!
//! | file | what it holds |
//! |---|---|
//! | `case.rs` | a case: its pieces of bytes and what they have to cause |
//! | `group.rs` | the builder of a group's cases, one method per kind of outcome |
//! | `messages.rs` | pieces of requests from which cases are put together |
//! | `answers.rs` | the reader, which splits a server's bytes into answers and is strict |
//! | `runner.rs` | the trait `Player`, which drives a server, and the check of a case |
//! | `requests/` | cases about the head: request line, targets, Host, fields, methods, versions |
//! | `framing/` | cases about the body: lengths, codings, chunks, trailers, smuggling |
//! | `connections/` | cases about what follows a message: keep-alive, pipelining, Expect, limits |
//!
//! Each case is played three times: cut as written, in one piece, and byte by byte (in pieces of a prime size if it is
//! long). The answers have to be the same.
//!
//! # How to add a case
//!
//! 1. Find the group whose file speaks of the rule. A new group is a file, a `use` and a line of
//!    `http_server_suite!` below.
//! 2. Call the method of `CaseGroup` that names the outcome, with the section of the RFC and a name that is free in
//!    that group:
//!    - `malformed`: answered with 400, then closed. `refuse` is the same with other status codes.
//!    - `accept`: answered as `GET /plaintext` is, and the connection stays.
//!    - `echo`: answered with this body by `/echo`, and the connection stays.
//!    - `answer`: answered by an `AnswerRule` of yours, and the connection stays; `last`: and it is closed.
//!    - `wait`: not answered yet; the message has not ended.
//!    - `custom`: anything else, with pieces, answers and ending of your own. Several expectations only where the RFC
//!      and the decisions leave a choice.
//! 3. All but `wait` and `custom` send one more request, the probe, behind the bytes. It has to be answered when the
//!    connection stays, which proves where the message ended, and it must not be answered when the connection closes.
//! 4. Write families as loops, such as one case for each control byte, and put the byte into the name by `byte_name`.

pub(crate) mod answers;
pub(crate) mod case;
pub(crate) mod connections;
pub(crate) mod framing;
pub(crate) mod group;
pub(crate) mod messages;
pub(crate) mod requests;
pub(crate) mod runner;

pub(crate) use connections::expect::h04_expect;
pub(crate) use connections::keep_alive::h04_keep_alive;
pub(crate) use connections::limits::h02_limits;
pub(crate) use connections::pipelining::h04_pipelining;
pub(crate) use framing::bodies::h04_bodies;
pub(crate) use framing::chunks::h03_chunks;
pub(crate) use framing::content_length::h03_content_length;
pub(crate) use framing::smuggling::h03_smuggling;
pub(crate) use framing::trailers::h03_trailers;
pub(crate) use framing::transfer_encoding::h03_transfer_encoding;
pub(crate) use requests::fields::h03_fields;
pub(crate) use requests::host::h03_host;
pub(crate) use requests::methods::h04_methods;
pub(crate) use requests::request_line::h03_request_line;
pub(crate) use requests::targets::h03_targets;
pub(crate) use requests::versions::h02_versions;

/// Calls a macro with the names of all groups, each of which is a function of this module. The first argument names
/// the module of the tests, as in the suites of the testkit; a third one is handed on.
macro_rules! http_server_suite {
    ($module:ident, $callback:ident $(, $argument:expr)?) => {
        $callback! {
            $module $(, $argument)?;
            h02_limits
            h02_versions
            h03_request_line
            h03_targets
            h03_host
            h03_fields
            h03_content_length
            h03_transfer_encoding
            h03_chunks
            h03_trailers
            h03_smuggling
            h04_bodies
            h04_methods
            h04_keep_alive
            h04_pipelining
            h04_expect
        }
    };
}
pub(crate) use http_server_suite;
