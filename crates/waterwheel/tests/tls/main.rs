//! TLS over TCP with another implementation at the other end (T09): openssl, curl, Python's ssl, GnuTLS, Netty, and
//! testssl.sh; and with a client of our own, on several loops. `scripts/test` installs the programs; a test whose program is
//! missing fails.

mod curl;
mod gnutls;
mod netty;
mod openssl;
mod python;
mod resumption_over_loops;
mod support;
mod testssl;
mod tls_echo;

#[path = "../support/program.rs"]
mod program;
