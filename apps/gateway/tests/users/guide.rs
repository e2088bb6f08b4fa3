//! The commands of `docs/GATEWAY.md`, as a new user types them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::gateway::Gateway;
use crate::tools::{Player, build_folder, installed, python_with, succeed};

const GUIDE: &str = include_str!("../../../../docs/GATEWAY.md");

/// Returns the blocks of a language in a section of the guide.
fn blocks(section: &str, language: &str) -> Vec<String> {
    let begin = format!("\n## {section}\n");
    let text = GUIDE.split_once(&begin).unwrap_or_else(|| panic!("no section {section}")).1;
    let text = text.split("\n## ").next().unwrap();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(str::to_owned).collect()
}

fn folder(test: &str) -> PathBuf {
    let folder = build_folder().join("tmp/gateway-users").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Lines of a shell in a folder, which use this gateway instead of the one on port 7000.
fn shell(folder: &Path, gateway: Option<&Gateway>, lines: &str) -> Command {
    let mut command = installed("bash");
    command.args(["-euo", "pipefail", "-c"]).current_dir(folder);
    let lines = match gateway {
        Some(gateway) => {
            let (ip, port) = (gateway.address.ip(), gateway.address.port());
            assert!(lines.contains("localhost"), "{lines}");
            lines
                .replace("localhost:7000", &format!("{ip}:{port}"))
                .replace("localhost 7000", &format!("{ip} {port}"))
        }
        None => lines.to_owned(),
    };
    // A user's curl has no other proxy for loopback.
    command.arg(lines).env("no_proxy", "*");
    command
}

#[test]
fn g01_the_first_commands_of_the_guide_work() {
    installed("curl");
    installed("nc");
    let folder = folder("guide_first");
    let [start, terminal, events, lines] = blocks("Try it", "sh").try_into().unwrap();
    assert_eq!(start, "cargo run --release -- --demo\n");
    let gateway = Gateway::start(&["--demo"]);
    let printed = succeed(&mut shell(&folder, Some(&gateway), &terminal));
    let expected = [
        "{\"position\":\"",
        "\"publications\":[{",
        "HELLO HELP lists the commands\nOK ",
        "MSG news.de - hello again\n",
        "BYE goodbye\n",
    ];
    for text in expected {
        assert!(printed.contains(text), "{text:?} in {printed}");
    }
    let mut events = Player::start(&mut shell(&folder, Some(&gateway), &events));
    while events.line() != "event: open" {}
    let mut lines = Player::start(&mut shell(&folder, Some(&gateway), &lines));
    lines.say("HELP");
    lines.expect("HELLO HELP lists the commands");
}

#[test]
fn g03_the_token_of_the_guide_permits_what_the_guide_says() {
    installed("curl");
    installed("openssl");
    let folder = folder("guide_tokens");
    let [start, usage] = blocks("Tokens", "sh").try_into().unwrap();
    let (secret, gateway) = start.split_once('\n').unwrap();
    succeed(&mut shell(&folder, None, secret));
    let args = gateway.trim_end().strip_prefix("gateway --tokens-secret-file ").unwrap();
    let gateway = Gateway::start(&["--tokens-secret-file", folder.join(args).to_str().unwrap()]);
    let [program] = blocks("Tokens", "python").try_into().unwrap();
    assert!(program.starts_with("# make_token.py\n"));
    fs::write(folder.join("make_token.py"), program).unwrap();
    let python = python_with("pyjwt").get_program().to_str().unwrap().to_owned();
    let usage = usage.replace("python3", &python);
    let printed = succeed(&mut shell(&folder, Some(&gateway), &usage));
    assert!(printed.starts_with("{\"position\":\""), "{printed}");
    assert!(printed.contains("\"publications\":[{"), "{printed}");
    assert!(printed.contains("\"from\":\"ann\""), "{printed}");
}

#[test]
fn g04_the_first_page_of_the_project_shows_the_page_of_the_gateway() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let pictures: Vec<&str> =
        readme.split('"').filter(|text| text.starts_with("docs/images/")).collect();
    assert_eq!(pictures.len(), 2, "one for each theme: {pictures:?}");
    for picture in pictures {
        let file =
            fs::read(root.join(picture)).unwrap_or_else(|error| panic!("{picture}: {error}"));
        assert!(file.starts_with(b"\x89PNG"), "{picture}");
        assert!((20_000..250_000).contains(&file.len()), "{picture}: {} bytes", file.len());
    }
}
