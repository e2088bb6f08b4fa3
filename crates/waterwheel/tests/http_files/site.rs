//! A folder that the example `files` serves, and programs that ask for its files.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, UNIX_EPOCH};

use crate::program::Program;

/// The date at which every file was modified.
pub(crate) const MODIFIED: &str = "Sun, 13 Sep 2020 12:26:40 GMT";

/// An image of one pixel. A PNG is compressed already.
const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDAT\x08\xd7c\xf8\
    \xcf\xc0\0\0\x03\x01\x01\0\x18\xdd\x8d\xb0\0\0\0\0IEND\xaeB`\x82";

/// A page that tells what its parts have become.
const PAGE: &str = r#"<!doctype html>
<html><head><meta charset="utf-8"><title>page</title><link rel="stylesheet" href="style.css"></head>
<body><h1>Ä</h1><img src="pixel.png" alt=""><img src="shape.svg" alt=""><a href="docs">docs</a>
<pre id="outcome">nothing</pre><script type="module" src="app.js"></script></body></html>
"#;

const SCRIPT: &str = r#"
const status = async (path, headers) => (await fetch(path, { headers })).status;
addEventListener("load", async () => {
    const images = [...document.images].map((image) => image.naturalWidth);
    const data = await (await fetch("data.json")).json();
    const part = await fetch("large.txt", { headers: { Range: "bytes=10-19" } });
    const whole = await (await fetch("large.txt")).text();
    const loadsOf = (path) => performance.getEntriesByName(new URL(path, location).href);
    const loads = loadsOf("large.txt");
    await (await fetch("medium.txt")).text();
    await (await fetch("medium.txt")).text();
    const [first, again] = loadsOf("medium.txt");
    const docs = await fetch("docs");
    outcome.textContent = [
        "color " + getComputedStyle(document.querySelector("h1")).color,
        "images " + images,
        "heading " + document.querySelector("h1").textContent,
        "data " + data.answer,
        "part " + part.status + " " + (await part.text()).length,
        "whole " + whole.length,
        "compressed " + (loads.some((load) => load.transferSize > 300 && load.encodedBodySize < load.decodedBodySize)),
        "again " + (again.transferSize < 1000 && first.transferSize > 10000) + " " + again.decodedBodySize,
        "missing " + await status("missing"),
        "docs " + docs.status + " " + new URL(docs.url).pathname,
    ].join("; ");
});
"#;

/// A folder; dropping the value removes it.
pub(crate) struct Site {
    folder: PathBuf,
}

impl Site {
    /// Writes the files to a folder for the test of this name.
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("waterwheel-http-files-{test}-{}", std::process::id());
        let site = Self { folder: std::env::temp_dir().join(name) };
        fs::create_dir_all(site.served().join("docs")).unwrap();
        let large = large_text();
        for (path, content) in [
            ("index.html", PAGE.as_bytes()),
            ("style.css", b"h1 { color: rgb(1, 2, 3) }"),
            ("app.js", SCRIPT.as_bytes()),
            ("data.json", br#"{"answer": 42}"#),
            ("shape.svg", br#"<svg xmlns="http://www.w3.org/2000/svg" width="7" height="7"/>"#),
            ("pixel.png", PIXEL),
            ("docs/index.html", b"<p>docs</p>"),
            ("large.txt", large.as_bytes()),
            ("large.bin", large.as_bytes()),
            ("medium.txt", &large.as_bytes()[..100_000]),
        ] {
            fs::write(site.served().join(path), content).unwrap();
            let file = File::options().write(true).open(site.served().join(path)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_600_000_000)).unwrap();
        }
        fs::write(site.folder.join("secret"), "SECRET").unwrap();
        site
    }

    /// Returns the folder that is served.
    pub(crate) fn served(&self) -> PathBuf {
        self.folder.join("served")
    }

    /// Returns the path of a file outside of it, for programs to write.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts the example.
    pub(crate) fn serve(&self) -> Program {
        Program::start("files", &[&0, &self.served().display()])
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Returns 5 MiB in lines that differ: more than the buffers of both sockets.
pub(crate) fn large_text() -> String {
    let mut text = String::new();
    for number in 0_u32.. {
        text.push_str(&format!("line {} of a text\n", number.wrapping_mul(2_654_435_761)));
        if text.len() >= 5 * 1024 * 1024 {
            break;
        }
    }
    text
}

/// Runs a program to its end; `None` if it is missing.
pub(crate) fn run(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("not tested: {}: {error}", command.get_program().display());
            None
        }
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// Runs a program that succeeds, and returns what it prints.
pub(crate) fn succeed(command: &mut Command) -> Option<Vec<u8>> {
    let Output { status, stdout, stderr } = run(command)?;
    let errors = String::from_utf8_lossy(&stderr);
    assert!(
        status.success(),
        "{command:?}: {status}, {errors}{}",
        String::from_utf8_lossy(&stdout)
    );
    Some(stdout)
}

/// Returns a curl. A number of seconds ends one that hangs.
pub(crate) fn curl() -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", "60"]);
    curl
}

/// Runs a curl, and returns the body of the answer, and what it writes of this form.
pub(crate) fn fetch(mut curl: Command, form: &str, site: &Site) -> Option<(Vec<u8>, String)> {
    let body = site.file("body");
    let _ = fs::remove_file(&body);
    let written = succeed(curl.arg("--output").arg(&body).args(["--write-out", form]))?;
    Some((content(&body), String::from_utf8(written).unwrap()))
}

/// Returns the content of a file, nothing if there is none.
pub(crate) fn content(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}
