//! Python's http.client, and the library requests.

use crate::peer_program::python;
use crate::program::Program;
use crate::test_server::{LARGE, TestServer};

#[test]
fn h15_http_client_uses_one_connection_for_everything() {
    let program = Program::start("json_api", &[&0]);
    let script = r#"
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
sockets = set()
def ask(method, path, body=None, headers={}, **more):
    connection.request(method, path, body, headers, **more)
    sockets.add(connection.sock.getsockname())
    response = connection.getresponse()
    return response.status, response.read(), response
for _ in range(100):
    status, body, response = ask("GET", "/plaintext")
    assert (status, body) == (200, b"Hello, World!"), (status, body)
    assert response.version == 11 and response.getheader("Date").endswith(" GMT")
status, body, response = ask("HEAD", "/plaintext")
assert (status, body, response.getheader("Content-Length")) == (200, b"", "13")
assert ask("POST", "/echo", b"sized")[:2] == (200, b"sized")
chunks = lambda: (b"chunk %d," % number for number in range(1000))
assert ask("POST", "/echo", chunks(), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})[:2] == (200, b"".join(chunks()))
status, body, response = ask("POST", "/notes", json.dumps({"text": "Grüße"}), {"Content-Type": "application/json"})
assert status == 201, (status, body)
place = response.getheader("Location")
assert json.loads(ask("GET", place)[1])["text"] == "Grüße"
assert ask("DELETE", place)[:2] == (204, b"")
assert ask("GET", place)[0] == 404
status, body, response = ask("DELETE", "/plaintext")
assert (status, response.getheader("Allow")) == (405, "GET, HEAD, OPTIONS")
assert ask("OPTIONS", "/notes")[0] == 204
print(len(sockets))
"#;
    let port = program.address().port().to_string();
    let Some(connections) = python("http.client", script, &[&port]) else { return };
    assert_eq!(connections, "1\n");
}

#[test]
fn h15_requests_uploads_and_downloads_as_streams() {
    let server = TestServer::start();
    let script = r#"
import requests, sys
base, large = sys.argv[1], int(sys.argv[2])
session = requests.Session()
session.trust_env = False
for _ in range(100):
    response = session.get(base + "/plaintext", timeout=60)
    assert (response.status_code, response.text) == (200, "Hello, World!"), response.text
part = bytes(range(250)) * 100
def parts():
    for _ in range(1200):
        yield part
expected = f"{1200 * len(part)} {1200 * sum(part)}"
assert session.post(base + "/count", data=parts(), timeout=60).text == expected, "in chunks"
assert session.post(base + "/count", data=part * 1200, timeout=60).text == expected, "with a length"
with session.get(base + "/large", stream=True, timeout=60) as response:
    assert response.headers["Transfer-Encoding"] == "chunked"
    length = 0
    for piece in response.iter_content(10_000):
        assert not piece.strip(b"x")
        length += len(piece)
assert length == large, length
assert session.get(base + "/nowhere", timeout=60).status_code == 404
"#;
    let Some(printed) = python("requests", script, &[&server.url(""), &LARGE.to_string()]) else {
        return;
    };
    assert_eq!(printed, "");
    let connections = server.http.metrics().connections;
    assert!(connections <= 2, "{connections} connections");
}
