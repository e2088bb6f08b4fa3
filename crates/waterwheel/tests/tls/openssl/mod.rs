//! openssl s_client and s_server.

mod client_certificates;
mod closing;
mod handshakes;
mod key_update;
mod refusals;
mod resumption;

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::process::Command;

use waterwheel::tls::rustls::ProtocolVersion;

use crate::support::NAME;
use crate::support::certificates::{Authority, Identity};
use crate::support::endpoints::Server;
use crate::support::peer_program::PeerProgram;

/// Returns the option that allows no other version.
fn only(version: ProtocolVersion) -> &'static str {
    match version {
        ProtocolVersion::TLSv1_2 => "-tls1_2",
        _ => "-tls1_3",
    }
}

/// Returns an `openssl s_client` that verifies the server's chain and name.
fn s_client(server: &Server, authority: &Authority, version: ProtocolVersion) -> Command {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-verify_return_error", only(version), "-servername", NAME]);
    command.args(["-verify_hostname", NAME, "-CAfile"]).arg(&authority.root);
    command.args(["-connect", &server.address.to_string()]);
    command
}

/// A running `openssl s_server`.
struct SServer {
    program: PeerProgram,
    address: SocketAddr,
}

impl SServer {
    /// Starts a server with these options. Some options of openssl make it silent about its port: not those.
    fn start(identity: &Identity, options: &[&(impl AsRef<OsStr> + ?Sized)]) -> Self {
        let mut command = Command::new("openssl");
        command.args(["s_server", "-accept", "127.0.0.1:0"]);
        command.args(identity.options("-cert", "-key")).args(options);
        let mut program = PeerProgram::start(&mut command);
        let address = program.wait_for_line("ACCEPT ").parse().unwrap();
        Self { program, address }
    }
}
