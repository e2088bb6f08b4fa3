//! The page in Chromium, which playwright-core drives. `scripts/page.js` is the person in front of it.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::gateway::Gateway;
use crate::tools::{Player, build_folder, installed, node_script, package, succeed};

/// A person who looks at the page of a gateway. `what` is a mode of the script.
fn person(gateway: &Gateway, what: &str) -> Command {
    installed("chromium");
    installed("curl");
    let mut command = node_script("page.js", &["playwright-core"]);
    command.args([what, &gateway.url("/")]);
    command
}

/// Returns the number behind a word that the script has printed.
fn figure(printed: &str, word: &str) -> f64 {
    let line = printed.lines().find_map(|line| line.strip_prefix(word));
    line.and_then(|figure| figure.trim().parse().ok()).unwrap_or_else(|| panic!("{printed}"))
}

#[test]
fn g04_a_person_sees_the_loops_turn_within_ten_seconds_in_both_themes_and_sizes() {
    let gateway = Gateway::start(&["--demo"]);
    let folder = build_folder().join("page-pictures");
    fs::create_dir_all(&folder).unwrap();
    let printed = succeed(person(&gateway, "look").arg(&folder));
    let seconds = figure(&printed, "seconds");
    assert!(seconds < 10.0, "{seconds}");
    for picture in ["wide-light", "wide-dark", "phone-light", "phone-dark"] {
        let path = folder.join(picture).with_extension("png");
        let length = fs::metadata(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")).len();
        assert!(length > 20_000, "{picture}: {length} bytes");
    }
}

#[test]
fn g04_a_person_subscribes_and_publishes_in_the_page_and_sees_what_curl_publishes() {
    succeed(&mut person(&Gateway::start(&[]), "console"));
}

#[test]
fn g04_the_page_is_used_by_the_keyboard_alone() {
    succeed(&mut person(&Gateway::start(&[]), "keyboard"));
}

#[test]
fn g04_axe_finds_nothing_serious_and_the_page_is_light_and_asks_no_other_host() {
    let gateway = Gateway::start(&["--demo"]);
    let axe = package("axe-core").join("axe-core/axe.min.js");
    let printed = succeed(person(&gateway, "checks").arg(axe));
    assert!(figure(&printed, "files") >= 10.0, "{printed}");
    let bytes = figure(&printed, "bytes");
    assert!((30_000.0..150_000.0).contains(&bytes), "{bytes}");
}

#[test]
fn g03_the_page_of_a_gateway_with_an_admin_key_asks_for_it() {
    let key = "the-admin-key-of-a-test";
    let file = build_folder().join("tmp/page-admin.key");
    fs::write(&file, key).unwrap();
    let gateway = Gateway::start(&["--admin-key-file", file.to_str().unwrap()]);
    succeed(person(&gateway, "locked").arg(key));
}

#[test]
fn g08_the_page_shows_the_lag_of_the_engine_that_it_is_away_and_its_reconnects() {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.60.{high}.{low}");
    let mut redis = installed("redis-server");
    redis.args(["--bind", &address, "--port", "6379", "--protected-mode", "no", "--save", ""]);
    let mut redis = Player::start(&mut redis);
    while !redis.line().contains("eady to accept connections") {}
    let url = format!("redis://{address}:6379");
    let engine = ["--engine-kind", "redis", "--engine-url", &url, "--engine-timeout", "4s"];
    let gateway = Gateway::start(&engine);
    let mut person = Player::start(&mut person(&gateway, "engine"));
    person.expect("lag");
    redis.signal(Signal::STOP);
    person.expect("away");
    redis.signal(Signal::CONT);
    person.expect("back");
    assert!(person.finish().is_empty());
}

#[test]
fn g02_the_page_says_that_the_gateway_is_gone_and_goes_on_with_the_next_one() {
    let mut gateway = Gateway::start(&[]);
    let mut person = Player::start(&mut person(&gateway, "lost"));
    person.expect("subscribed");
    gateway.publish("news", "1");
    gateway.kill();
    person.expect("lost");
    let gateway = Gateway::start_at(gateway.address.port(), &[]);
    gateway.publish("news", "\"of the next gateway\"");
    person.expect("live again");
    assert!(person.finish().is_empty());
}
