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
//! 1. Find the group whose file speaks of the rule. A new group is a file, and a line in `for_each_group!` below.
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

/// Calls a macro with every group of the corpus, as `name: path to the function that makes its cases;`.
macro_rules! for_each_group {
    ($callback:ident) => {
        $callback! {
            h02_limits: $crate::corpus::connections::limits::cases;
            h02_versions: $crate::corpus::requests::versions::cases;
            h03_request_line: $crate::corpus::requests::request_line::cases;
            h03_targets: $crate::corpus::requests::targets::cases;
            h03_host: $crate::corpus::requests::host::cases;
            h03_fields: $crate::corpus::requests::fields::cases;
            h03_content_length: $crate::corpus::framing::content_length::cases;
            h03_transfer_encoding: $crate::corpus::framing::transfer_encoding::cases;
            h03_chunks: $crate::corpus::framing::chunks::cases;
            h03_trailers: $crate::corpus::framing::trailers::cases;
            h03_smuggling: $crate::corpus::framing::smuggling::cases;
            h04_bodies: $crate::corpus::framing::bodies::cases;
            h04_methods: $crate::corpus::requests::methods::cases;
            h04_keep_alive: $crate::corpus::connections::keep_alive::cases;
            h04_pipelining: $crate::corpus::connections::pipelining::cases;
            h04_expect: $crate::corpus::connections::expect::cases;
        }
    };
}
pub(crate) use for_each_group;
