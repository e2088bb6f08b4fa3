//! The files of Unix sockets (C13).

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use waterwheel_channel::{Channel, UnixAddress};

use crate::loop_rig::{LONG, Rig, get, on_every_loop};
use crate::support::{Directory, House, client, dial, echo};

fn bind(rig: &Rig, path: &Path) -> Channel {
    get(echo(rig).bind(UnixAddress::path(path)))
}

#[track_caller]
fn refused(rig: &Rig, path: &Path) -> String {
    let error = echo(rig).bind(UnixAddress::path(path)).join().unwrap_err().to_string();
    let start = format!("cannot listen at unix:{}: ", path.display());
    assert!(error.starts_with(&start), "{error}");
    error
}

#[test]
fn c13_the_file_of_a_unix_server_goes_with_its_close() {
    on_every_loop(|rig| {
        let house = House::open(rig, |server| server);
        let (child, peer, _) = house.connect();
        // What is commonly done with it.
        fs::set_permissions(&house.path, Permissions::from_mode(0o600)).unwrap();
        drop(peer);
        child.closed().wait_timeout(LONG).unwrap();
        assert!(house.path.exists(), "it is the server's, not a connection's");
        get(house.server.close());
        assert!(!house.path.exists());
    });
}

#[test]
fn c13_the_file_of_a_unix_server_goes_with_its_loop() {
    let directory = Directory::new();
    let path = directory.path("door");
    on_every_loop(|rig| {
        bind(rig, &path);
    });
    assert!(!path.exists());
}

#[test]
fn c13_a_file_that_somebody_has_put_there_since_is_left_alone() {
    on_every_loop(|rig| {
        let directory = Directory::new();
        let path = directory.path("door");
        let first = bind(rig, &path);
        fs::remove_file(&path).unwrap();
        let second = bind(rig, &path);
        get(first.close());
        assert!(path.exists(), "it is the second's");
        drop(dial(&path));
        fs::rename(&path, directory.path("moved")).unwrap();
        File::create(&path).unwrap();
        get(second.close());
        assert!(path.exists(), "it is no socket");
    });
}

#[test]
fn c13_a_file_that_nobody_is_behind_is_replaced() {
    on_every_loop(|rig| {
        let directory = Directory::new();
        let path = directory.path("door");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind");
        let server = bind(rig, &path);
        drop(dial(&path));
        get(server.close());
        drop(UnixDatagram::bind(&path).unwrap());
        bind(rig, &path);
        drop(dial(&path));
    });
}

#[test]
fn c13_a_path_in_use_is_named_and_whoever_has_it_is_not_disturbed() {
    on_every_loop(|rig| {
        let directory = Directory::new();
        let path = directory.path("door");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(refused(rig, &path).contains("in use"));
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "nobody has connected to find that out");
        drop(dial(&path));

        let datagrams = directory.path("datagrams");
        let _socket = UnixDatagram::bind(&datagrams).unwrap();
        assert!(refused(rig, &datagrams).contains("in use"));

        // It is bound, and does not listen yet.
        let early = directory.path("early");
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&socket2::SockAddr::unix(&early).unwrap()).unwrap();
        assert!(refused(rig, &early).contains("in use"));
        assert!(path.exists() && datagrams.exists() && early.exists());

        let ours = directory.path("ours");
        let server = bind(rig, &ours);
        assert!(refused(rig, &ours).contains("in use"));
        get(server.close());
        bind(rig, &ours);
    });
}

#[test]
fn c13_a_file_that_is_no_socket_is_never_removed() {
    on_every_loop(|rig| {
        let directory = Directory::new();
        let (file, link) = (directory.path("file"), directory.path("link"));
        fs::write(&file, "precious").unwrap();
        assert!(refused(rig, &file).contains("a file that is not a socket"));
        assert_eq!(fs::read(&file).unwrap(), b"precious");
        let old = directory.path("old");
        drop(UnixListener::bind(&old).unwrap());
        symlink(&old, &link).unwrap();
        assert!(refused(rig, &link).contains("a file that is not a socket"));
        assert!(old.exists());
        assert!(refused(rig, &directory.path("no/such/directory")).contains("No such file"));
    });
}

#[test]
fn c13_a_path_that_is_too_long_is_refused_in_words() {
    on_every_loop(|rig| {
        let long = Path::new("/tmp").join("x".repeat(108));
        assert!(
            refused(rig, &long)
                .contains("is too long: a path of a Unix socket has at most 108 bytes")
        );
        let address = UnixAddress::path(&long);
        let error = client(rig).connect(address).join().unwrap_err().to_string();
        assert!(error.contains("is too long"), "{error}");
        let name = UnixAddress::abstract_name("x".repeat(108));
        let error = echo(rig).bind(name).join().unwrap_err().to_string();
        assert!(error.contains("is too long"), "{error}");
    });
}
