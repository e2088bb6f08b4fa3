//! TLS over TCP with another implementation at the other end (T09): openssl, curl, Python's ssl, GnuTLS, Netty, and
//! testssl.sh. `scripts/test` installs them; a test whose program is missing fails.

mod curl;
mod gnutls;
mod netty;
mod openssl;
mod python;
mod support;
mod testssl;
mod tls_echo;

#[path = "../support/program.rs"]
mod program;
