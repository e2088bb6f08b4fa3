//! Answers that are compressed: texts, files, events.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use waterwheel_channel::sleep;
use waterwheel_http::{
    Compression, ContentCoding, EventStream, Files, IntoResponse, Request, Response, ServerEvent,
    compressed,
};

use crate::client::{Client, SENT, chunks_of, decode, decode_next, decoder, field, split_head};

/// Text that compresses to about a fifth.
fn text(lines: u32) -> String {
    (0..lines).fold(String::new(), |mut text, number| {
        writeln!(text, "line {} of a text", number.wrapping_mul(2_654_435_761) >> 8).unwrap();
        text
    })
}

/// A folder with a large text, removed at the end.
struct Site(PathBuf);

impl Site {
    fn new(test: &str) -> Self {
        let name = format!("waterwheel-compression-{test}-{}", std::process::id());
        let site = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&site.0).unwrap();
        for (path, content) in [
            ("large.txt", text(10_000)),
            ("small.txt", text(2)),
            ("photo.jpg", text(1_000)),
            ("ready.js", text(1_000)),
            ("ready.js.br", String::from("as it lies there")),
        ] {
            fs::write(site.0.join(path), content).unwrap();
            // A file that has just been written has a weak tag.
            let file = fs::File::options().write(true).open(site.0.join(path)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
        }
        site
    }

    fn client(&self) -> Client {
        let files = Files::builder(&self.0).precompressed(true).build().unwrap();
        Client::new(compressed(files, Compression::default()))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn accept(coding: ContentCoding) -> String {
    format!("Accept-Encoding: {coding}\r\n")
}

#[test]
fn h09_answers_of_a_service_are_compressed_as_the_client_accepts() {
    let service = async |_: Request| text(100);
    let mut client = Client::new(compressed(service, Compression::default()));
    for coding in SENT {
        let answer = client.ask("GET /", &accept(coding));
        assert_eq!(field(&answer, "content-encoding"), coding.name());
        assert_eq!(field(&answer, "content-type"), "text/plain; charset=utf-8");
        assert_eq!(field(&answer, "vary"), "accept-encoding");
        assert_eq!(decode(coding, answer.body()), text(100));
        let length: usize = field(&answer, "content-length").parse().unwrap();
        assert!(length < text(100).len() / 2, "{length}");
    }
    let plain = client.ask("GET /", "");
    assert_eq!(plain.body(), text(100).as_bytes());
    assert_eq!((field(&plain, "vary"), field(&plain, "content-encoding")), ("accept-encoding", ""));
}

#[test]
fn h09_a_file_is_compressed_and_its_entity_tag_is_weak_then() {
    let site = Site::new("file");
    let mut client = site.client();
    let plain = client.ask("GET /large.txt", "");
    let strong = field(&plain, "etag").to_owned();
    assert!(strong.starts_with('"'), "{strong}");
    assert_eq!(plain.body(), text(10_000).as_bytes());
    for coding in SENT {
        let answer = client.ask("GET /large.txt", &accept(coding));
        assert_eq!(field(&answer, "content-encoding"), coding.name());
        assert_eq!(field(&answer, "etag"), format!("W/{strong}"));
        assert_eq!(field(&answer, "accept-ranges"), "");
        assert_eq!(field(&answer, "vary"), "Accept-Encoding");
        assert_eq!(decode(coding, answer.body()), text(10_000));
    }
    let again = format!("Accept-Encoding: gzip\r\nIf-None-Match: W/{strong}\r\n");
    assert_eq!(client.ask("GET /large.txt", &again).status(), 304);
    let head = client.ask("HEAD /large.txt", "Accept-Encoding: gzip\r\n");
    let fields = ["content-encoding", "content-length", "etag"].map(|name| field(&head, name));
    assert_eq!(fields, ["gzip", "", &format!("W/{strong}")]);
    let head = client.ask("HEAD /large.txt", "");
    assert_eq!(field(&head, "content-length"), text(10_000).len().to_string());
}

#[test]
fn h09_a_part_of_a_file_is_sent_as_it_is() {
    let site = Site::new("part");
    let mut client = site.client();
    let all = text(10_000);
    let part = client.ask("GET /large.txt", "Accept-Encoding: gzip\r\nRange: bytes=5-5004\r\n");
    assert_eq!((part.status().as_u16(), field(&part, "content-encoding")), (206, ""));
    assert_eq!(part.body(), &all.as_bytes()[5..=5004]);
    assert!(field(&part, "etag").starts_with('"'));
    let parts = client.ask("GET /large.txt", "Accept-Encoding: gzip\r\nRange: bytes=0-0,9-9\r\n");
    assert_eq!((parts.status().as_u16(), field(&parts, "content-encoding")), (206, ""));
    // A download of compressed bytes does not go on: its tag is weak.
    let tag = client.ask("HEAD /large.txt", "Accept-Encoding: gzip\r\n");
    let resumed = format!(
        "Accept-Encoding: gzip\r\nRange: bytes=100-\r\nIf-Range: {}\r\n",
        field(&tag, "etag")
    );
    let resumed = client.ask("GET /large.txt", &resumed);
    assert_eq!((resumed.status().as_u16(), field(&resumed, "content-encoding")), (200, "gzip"));
}

#[test]
fn h09_small_files_images_and_files_that_are_compressed_already_are_sent_as_they_are() {
    let site = Site::new("asis");
    let mut client = site.client();
    for (path, content) in [("small.txt", text(2)), ("photo.jpg", text(1_000))] {
        let answer = client.ask(&format!("GET /{path}"), "Accept-Encoding: gzip, br, zstd\r\n");
        assert_eq!(field(&answer, "content-encoding"), "", "{path}");
        assert_eq!(answer.body(), content.as_bytes(), "{path}");
    }
    let ready = client.ask("GET /ready.js", "Accept-Encoding: gzip, br\r\n");
    assert_eq!(field(&ready, "content-encoding"), "br");
    assert_eq!(ready.body(), b"as it lies there");
    assert!(field(&ready, "etag").starts_with('"'));
    let encoded = client.ask("GET /ready.js", "Accept-Encoding: gzip\r\n");
    assert_eq!(field(&encoded, "content-encoding"), "gzip");
    assert_eq!(decode(ContentCoding::Gzip, encoded.body()), text(1_000));
}

/// Sends an event at once, and another each second, three in all.
async fn ticks(_: Request) -> Response {
    let events = EventStream::from_async(|events| async move {
        for number in 0..3 {
            events.send(ServerEvent::new(format!("tick {number}"))).await?;
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    });
    events.into_response()
}

#[test]
fn h09_a_compressed_stream_of_events_is_flushed_with_each_event() {
    for coding in SENT {
        let mut client = Client::new(compressed(ticks, Compression::default()));
        let first = client.send("GET /", &accept(coding), b"");
        let (head, rest) = split_head(&first);
        assert_eq!(field(&head, "content-encoding"), coding.name());
        assert_eq!(field(&head, "content-type"), "text/event-stream");
        let mut decoder = decoder(coding);
        let (chunks, _) = chunks_of(rest);
        assert_eq!(decode_next(&mut decoder, &chunks), "data: tick 0\n\n", "{coding}");
        for expected in ["data: tick 1\n\n", "data: tick 2\n\n"] {
            client.channel.advance(Duration::from_secs(1));
            let (chunks, has_ended) = chunks_of(&client.received());
            assert_eq!((decode_next(&mut decoder, &chunks).as_str(), has_ended), (expected, false));
        }
        client.channel.advance(Duration::from_secs(1));
        let (chunks, has_ended) = chunks_of(&client.received());
        assert_eq!((decode_next(&mut decoder, &chunks).as_str(), has_ended), ("", true));
        decoder.finish().unwrap();
        // The connection goes on.
        assert_eq!(client.ask("HEAD /", &accept(coding)).status(), 200);
    }
}
