//! nginx, with a configuration in a folder of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, getuid, kill_process_group};

use crate::certificates::Identity;

/// A running nginx; dropping the value kills it.
pub(crate) struct Nginx {
    child: Child,
    pub(crate) address: SocketAddr,
    folder: PathBuf,
}

impl Nginx {
    /// Starts nginx with these directives of its server, and others outside of it; `None` if it is not installed.
    pub(crate) fn start(server: &str) -> Option<Self> {
        Self::start_with(server, "", None)
    }

    /// Starts nginx with TLS.
    pub(crate) fn start_tls(server: &str, identity: &Identity) -> Option<Self> {
        Self::start_with(server, "", Some(identity))
    }

    pub(crate) fn start_with(
        server: &str,
        around: &str,
        identity: Option<&Identity>,
    ) -> Option<Self> {
        // nginx inherits its socket, as from an nginx that it replaces, so that no other process can take the port.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let folder = std::env::temp_dir().join(format!(
            "waterwheel-nginx-{}-{}",
            std::process::id(),
            address.port()
        ));
        fs::create_dir_all(folder.join("www")).unwrap();
        fs::write(folder.join("nginx.conf"), configuration(address, server, around, identity))
            .unwrap();
        let mut command = Command::new(program()?);
        command.arg("-p").arg(&folder).args(["-c", "nginx.conf"]).env("NGINX", "0;");
        // Its worker is in the same group, and is killed with it.
        command.stdin(OwnedFd::from(listener)).stderr(Stdio::null()).process_group(0);
        Some(Self { child: command.spawn().unwrap(), address, folder })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Writes a file that the server sends.
    pub(crate) fn write(&self, name: &str, contents: &[u8]) {
        fs::write(self.file(name), contents).unwrap();
    }

    /// Reads a file that the server has received.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).unwrap()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join("www").join(name)
    }

    /// Kills nginx at once.
    pub(crate) fn kill(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns the program, which Debian keeps out of the PATH of users.
fn program() -> Option<&'static Path> {
    let places = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/bin/nginx"];
    let found = places.into_iter().map(Path::new).find(|path| path.exists());
    if found.is_none() {
        println!("not tested: nginx is not installed");
    }
    found
}

fn configuration(
    address: SocketAddr,
    server: &str,
    around: &str,
    identity: Option<&Identity>,
) -> String {
    let user = if getuid().is_root() { "user root;" } else { "" };
    let (listen, keys) = match identity {
        None => ("", String::new()),
        Some(Identity { chain, key }) => {
            let [chain, key] = [chain.display(), key.display()];
            (
                "ssl",
                format!(
                    "ssl_certificate {chain}; ssl_certificate_key {key}; ssl_protocols TLSv1.3;"
                ),
            )
        }
    };
    format!(
        "{user} daemon off; worker_processes 1; pid nginx.pid; error_log nginx.log warn;
         events {{ worker_connections 512; }}
         http {{
             access_log off; default_type application/octet-stream; gzip off;
             client_body_temp_path bodies; proxy_temp_path proxied; fastcgi_temp_path fastcgi;
             uwsgi_temp_path uwsgi; scgi_temp_path scgi; client_max_body_size 0; keepalive_requests 1000000;
             {around}
             server {{ listen {address} {listen}; {keys} root www; {server} }}
         }}"
    )
}
