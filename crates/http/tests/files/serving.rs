//! Files as a service: alone, behind a prefix of a router, and when the system fails.

use std::fs::File;
use std::process::Command;

use waterwheel_http::{Files, HttpServer, Router};

use crate::folder::{Answer, TEXT, ask_by, body_of, connect, exchange, header, parse, site};

fn get(server: &HttpServer, path: &str) -> Answer {
    request(server, "GET", path)
}

fn request(server: &HttpServer, method: &str, path: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    parse(&exchange(&mut connect(server), &request), method)
}

#[test]
fn h08_files_are_a_service() {
    let folder = site();
    let server = HttpServer::new(Files::new(folder.root()).unwrap());
    for (path, status, content) in [
        ("/", 200, "<home>"),
        ("/digits.txt?x=y", 200, TEXT),
        ("http://a/digits.txt", 200, TEXT),
        ("/docs/a%20b.txt", 200, "spaced"),
        ("/docs", 301, "301 Moved Permanently\n"),
        ("//digits.txt", 404, "404 Not Found\n"),
        ("/../outside/x", 404, "404 Not Found\n"),
    ] {
        let answer = get(&server, path);
        assert_eq!((answer.status().as_u16(), answer.body().as_str()), (status, content), "{path}");
    }
    let post = "POST /digits.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let mut connection = connect(&server);
    for _ in 0..2 {
        // The body that nobody reads does not end the connection.
        assert_eq!(parse(&exchange(&mut connection, post), "POST").status(), 405);
    }
}

#[test]
fn h08_files_are_a_route_behind_a_prefix() {
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let router = move || {
        Router::builder()
            .get("/static/{*path}", files.clone())
            .get("/of/{user}/{*rest}", files.clone())
            .get("/whole/{name}", files.clone())
            .fallback(files.clone())
            .build()
            .unwrap()
    };
    let server = HttpServer::per_loop(router).build().unwrap();
    for (path, status, content) in [
        ("/static/digits.txt", 200, TEXT),
        ("/static/", 200, "<home>"),
        ("/static/docs/", 200, "<docs>"),
        ("/static/docs/a%20b.txt", 200, "spaced"),
        ("/static//digits.txt", 404, "404 Not Found\n"),
        ("/static/%2e%2e/outside", 404, "404 Not Found\n"),
        ("/static/%2564igits.txt", 404, "404 Not Found\n"),
        ("/of/me/digits.txt", 200, TEXT),
        ("/of/me/", 200, "<home>"),
        // Not a tail: the whole path counts.
        ("/whole/digits.txt", 404, "404 Not Found\n"),
        ("/digits.txt", 200, TEXT),
    ] {
        let answer = get(&server, path);
        assert_eq!((answer.status().as_u16(), answer.body().as_str()), (status, content), "{path}");
    }
    assert_eq!(header(&get(&server, "/static/docs?a=b"), "location"), "./docs/?a=b");
    let head = request(&server, "HEAD", "/static/digits.txt");
    assert_eq!((head.status().as_u16(), header(&head, "content-length")), (200, "10"));
}

/// Tells the process that it is the one below with few descriptors.
const FEW: &str = "WATERWHEEL_FEW_DESCRIPTORS";

#[test]
fn h08_an_error_of_the_system_is_500_and_reported() {
    if std::env::var_os(FEW).is_none() {
        // In a process of its own: other tests need descriptors.
        let name = "serving::h08_an_error_of_the_system_is_500_and_reported";
        let mut child = Command::new("sh");
        child.args(["-c", "ulimit -n 64 && exec \"$0\" --exact \"$1\""]);
        child.arg(std::env::current_exe().unwrap()).arg(name).env(FEW, "");
        let output = child.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let folder = site();
    let files = Files::new(folder.root()).unwrap();
    let request = http::Request::get("/").body(()).unwrap().into_parts().0;
    // What needs a descriptor of its own has it by now.
    assert_eq!(ask_by(&files, &request, "/").0.status(), 200);
    let mut all = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        all.push(file);
    }
    for (path, file) in [("/", "index.html"), ("/digits.txt", "digits.txt")] {
        let (answer, error) = ask_by(&files, &request, path);
        assert_eq!(
            (answer.status().as_u16(), body_of(&answer).as_str()),
            (500, "500 Internal Server Error\n")
        );
        let error = error.expect("a report").to_string();
        let emfile =
            error.contains("Too many open files (os error 24); the client is answered 500");
        assert!(emfile && error.contains(&format!("{path:?}")), "{file}: {error}");
    }
    drop(all);
    assert_eq!(ask_by(&files, &request, "/digits.txt").0.body(), TEXT);
}
