//! Chromium: a page with its style, script and images; ranges, caching and compression as a browser sees them.

use std::process::Command;

use crate::site::{Site, large_text, succeed};

#[test]
fn h15_chromium_shows_a_page_with_all_of_its_parts() {
    let site = Site::new("chromium");
    let server = site.serve();
    // The limit ends a browser that hangs. Root may not use the sandbox, and this page is ours.
    let mut browser = Command::new("timeout");
    browser.args([
        "100",
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-proxy-server",
    ]);
    browser.arg(format!("--user-data-dir={}", site.file("profile").display()));
    browser.args(["--virtual-time-budget=30000", "--dump-dom"]);
    browser.arg(format!("http://{}/", server.address()));
    if let Err(error) = Command::new("chromium").arg("--version").output() {
        return println!("not tested: chromium: {error}");
    }
    let Some(page) = succeed(&mut browser) else { return };
    let page = String::from_utf8(page).unwrap();
    let len = large_text().len();
    let expected = format!(
        "color rgb(1, 2, 3); images 1,7; heading Ä; data 42; part 206 10; whole {len}; compressed true; \
         again true 100000; missing 404; docs 200 /docs/<"
    );
    assert!(page.contains(&expected), "{expected}\n{page}");
}
