//! Paths in a real folder: links, FIFOs, hidden files, redirects.

use std::time::Duration;

use http::StatusCode;
use waterwheel_http::Files;

use crate::folder::{Request, TEXT, ask, ask_by, body_of, header, site};

#[test]
fn h08_paths_lead_to_files() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let rows = [
        ("/", 200, "<home>"),
        ("/index.html", 200, "<home>"),
        ("/digits.txt", 200, TEXT),
        ("/%64igits.txt", 200, TEXT),
        ("/empty", 200, ""),
        ("/docs/", 200, "<docs>"),
        ("/docs/a%20b.txt", 200, "spaced"),
        ("/digits.txt/", 404, "404 Not Found\n"),
        ("/digits.txt/x", 404, "404 Not Found\n"),
        ("/bare/", 404, "404 Not Found\n"),
        ("/nothing", 404, "404 Not Found\n"),
        ("/docs/../digits.txt", 404, "404 Not Found\n"),
        ("/docs//a%20b.txt", 404, "404 Not Found\n"),
        ("/%2564igits.txt", 404, "404 Not Found\n"),
        ("/digits.txt%00.html", 404, "404 Not Found\n"),
        ("/.env", 404, "404 Not Found\n"),
        ("/.well-known/acme", 404, "404 Not Found\n"),
    ];
    for (path, status, content) in rows {
        let answer = ask(&files, &Request::get(path));
        assert_eq!(
            (answer.status().as_u16(), body_of(&answer)),
            (status, content.into()),
            "{path}"
        );
        assert_eq!(header(&answer, "x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header(&answer, "content-length"), content.len().to_string(), "{path}");
    }
    let very_long = format!("/{}", "docs/".repeat(3000));
    assert_eq!(ask(&files, &Request::get(&very_long)).status(), 404);
    let long_name = format!("/{}", "n".repeat(255));
    assert_eq!(ask(&files, &Request::get(&long_name)).status(), 404);
}

#[test]
fn h08_the_path_may_be_the_rest_behind_a_prefix() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let answer = |uri: &str, path: &str| {
        let (parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        ask_by(&files, &parts, path).0
    };
    assert_eq!(body_of(&answer("/static/digits.txt", "digits.txt")), TEXT);
    assert_eq!(body_of(&answer("/static/", "")), "<home>");
    let redirect = answer("/a/static?x", "");
    assert_eq!((redirect.status().as_u16(), header(&redirect, "location")), (301, "./static/?x"));
    assert_eq!(header(&answer("/static/docs", "/docs"), "location"), "./docs/");
    assert_eq!(answer("/a%2fb", "").status(), 404, "the prefix is no name");
}

#[test]
fn h08_a_folder_without_its_slash_is_redirected_on_the_same_host() {
    let folder = site();
    folder.write("evil.com/x", "");
    folder.write("javascript:alert(1)/x", "");
    let files = Files::new(folder.root()).unwrap();
    let rows = [
        ("/docs", 301, "./docs/"),
        ("/docs?a=b", 301, "./docs/?a=b"),
        ("/%64ocs", 301, "./docs/"),
        ("/evil.com", 301, "./evil.com/"),
        ("/javascript:alert(1)", 301, "./javascript%3Aalert%281%29/"),
        ("//evil.com", 404, ""),
        ("//evil.com/..", 404, ""),
        ("/%2fevil.com", 404, ""),
        ("/\\evil.com", 404, ""),
    ];
    for (uri, status, location) in rows {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        // Sent behind a prefix, because a URI of two slashes is read as an authority by some.
        let uri = format!("/p{}{query}", if path.contains('\\') { "/x" } else { path });
        let (parts, ()) = http::Request::get(uri).body(()).unwrap().into_parts();
        let answer = ask_by(&files, &parts, path).0;
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(header(&answer, "location"), location, "{path}");
    }
    let hidden = Files::new(folder.root()).unwrap();
    assert_eq!(ask(&hidden, &Request::get("/.well-known")).status(), 404);
}

#[test]
fn h08_options_of_index_and_hidden_files() {
    let folder = site();
    let none: [&str; 0] = [];
    let files = Files::builder(folder.root()).index_names(none).build().unwrap();
    assert_eq!(ask(&files, &Request::get("/docs/")).status(), 404);
    let files = Files::builder(folder.root())
        .index_names(["missing", "x", "index.html"])
        .hidden_files(true)
        .build()
        .unwrap();
    assert_eq!(body_of(&ask(&files, &Request::get("/bare/"))), "x");
    assert_eq!(body_of(&ask(&files, &Request::get("/docs/"))), "<docs>");
    assert_eq!(body_of(&ask(&files, &Request::get("/.well-known/acme"))), "challenge");
    assert_eq!(ask(&files, &Request::get("/../outside")).status(), 404);
    folder.write("docs/nested/index.html/x", "an index file that is a folder");
    assert_eq!(ask(&files, &Request::get("/docs/nested/")).status(), 404);
}

#[test]
fn h08_links_lead_nowhere_or_within_the_folder() {
    let folder = site();
    folder.write_outside("secret", "SECRET");
    folder.link("../outside/secret", "out");
    folder.link("../outside", "out-folder");
    folder.link("digits.txt", "in");
    folder.link("docs", "in-folder");
    folder.link("in", "in-twice");
    folder.link("missing", "dangling");
    folder.link("self", "self");
    folder.link(".env", "to-hidden");
    folder.link(folder.root().join("digits.txt").to_str().unwrap(), "absolute");
    folder.link("../outside/../root/digits.txt", "out-and-in");
    let strict = Files::new(folder.root()).unwrap();
    let follow = Files::builder(folder.root()).follow_links(true).build().unwrap();
    let rows = [
        ("/out", 404),
        ("/out-folder", 404),
        ("/out-folder/", 404),
        ("/out-folder/secret", 404),
        ("/out-folder/missing", 404),
        ("/dangling", 404),
        ("/in", 200),
        ("/in-twice", 200),
        ("/in-folder", 301),
        ("/in-folder/", 200),
        ("/in-folder/a%20b.txt", 200),
        ("/to-hidden", 200),
        ("/absolute", 200),
        ("/out-and-in", 200),
    ];
    for (path, followed) in rows {
        assert_eq!(ask(&strict, &Request::get(path)).status(), 404, "{path}, not followed");
        assert_eq!(ask(&follow, &Request::get(path)).status(), followed, "{path}, followed");
    }
    for path in ["/self", "/self/", "/self/x"] {
        for files in [&strict, &follow] {
            let request = http::Request::get(path).body(()).unwrap().into_parts().0;
            let (answer, error) = ask_by(files, &request, path);
            // A client can ask for a circle of links (ELOOP) as often as it likes.
            assert_eq!((answer.status().as_u16(), error.is_none()), (404, true), "{path}");
        }
    }
}

#[test]
fn h08_the_root_itself_may_be_a_link() {
    let folder = site();
    folder.write_outside("digits.txt", "SECRET");
    std::os::unix::fs::symlink("root", folder.path().join("current")).unwrap();
    let files = Files::new(folder.path().join("current")).unwrap();
    std::fs::remove_file(folder.path().join("current")).unwrap();
    std::os::unix::fs::symlink("outside", folder.path().join("current")).unwrap();
    assert_eq!(body_of(&ask(&files, &Request::get("/digits.txt"))), TEXT, "resolved once");
}

#[test]
fn h08_fifos_sockets_and_devices_are_404_at_once() {
    let folder = site();
    let fifo = folder.root().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(folder.root().join("socket")).unwrap();
    folder.link("fifo", "link-to-fifo");
    folder.link("/dev/zero", "zero");
    folder.write("fifo-index/x", "");
    std::fs::rename(&fifo, folder.root().join("fifo-index/index.html")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let follow = Files::builder(folder.root()).follow_links(true).build().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    // On another thread: an open that waits for the writer of a FIFO would not return.
    std::thread::spawn(move || {
        for path in ["/fifo", "/link-to-fifo", "/fifo-index/", "/socket", "/zero", "/fifo/"] {
            let _ = sender.send((path, ask(&follow, &Request::get(path)).status()));
        }
    });
    for _ in 0..6 {
        let (path, status) = receiver.recv_timeout(Duration::from_secs(20)).expect("an answer");
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn h08_a_root_that_was_removed_is_404() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    std::fs::remove_dir_all(folder.root()).unwrap();
    for path in ["/", "/digits.txt", "/docs"] {
        assert_eq!(ask(&files, &Request::get(path)).status(), 404);
    }
    folder.write("digits.txt", TEXT);
    let answer = ask(&files, &Request::get("/digits.txt"));
    assert_eq!(answer.status(), 404, "another folder, though of the same name");
    let anew = Files::new(folder.root()).unwrap();
    assert_eq!(ask(&anew, &Request::get("/digits.txt")).status(), 200);
}

#[test]
fn h08_a_folder_that_may_be_entered_and_not_listed_is_served() {
    use std::os::unix::fs::PermissionsExt;

    let folder = site();
    let docs = folder.root().join("docs");
    let allow = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(&docs, 0o111);
    allow(&folder.root().join("digits.txt"), 0o000);
    let may_read_all = std::fs::read_dir(&docs).is_ok();
    let files = Files::new(folder.root()).unwrap();
    let status = |path| ask(&files, &Request::get(path)).status().as_u16();
    let found = [status("/docs"), status("/docs/"), status("/digits.txt")];
    allow(&docs, 0o755);
    // Root may read everything.
    assert_eq!(found, [301, 200, if may_read_all { 200 } else { 404 }]);
}
