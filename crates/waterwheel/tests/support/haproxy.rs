//! Runs HAProxy in front of a server.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

/// A running HAProxy in front of a server; dropping the value kills it.
pub(crate) struct HaProxy {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl HaProxy {
    /// Starts HAProxy with these options for sending headers. It inherits its listening socket, so that no other process
    /// can take the port.
    pub(crate) fn start(server: SocketAddr, send: &str) -> Option<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let config = format!(
            "defaults\n mode tcp\n timeout connect 60s\n timeout client 60s\n timeout server 60s\n\
             frontend front\n bind fd@0\n default_backend back\n\
             backend back\n server one {server} {send}\n"
        );
        let name = format!("waterwheel-haproxy-{}-{}", std::process::id(), address.port());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, config).unwrap();
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&path).stdin(OwnedFd::from(listener));
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        match started {
            Ok(child) => Some(Self { child, address }),
            Err(error) => {
                println!("not tested: haproxy: {error}");
                None
            }
        }
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let name = format!("waterwheel-haproxy-{}-{}", std::process::id(), self.address.port());
        let _ = std::fs::remove_file(std::env::temp_dir().join(name));
    }
}
