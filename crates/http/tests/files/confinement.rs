//! No path, and no change of the folder meanwhile, leads to a file outside of the folder that is served.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use waterwheel_http::Files;

use crate::folder::{Folder, Request, ask, body_of};

/// Begins the content of every file outside of the root.
const SECRET: &str = "SECRET";

fn folder() -> Folder {
    let folder = Folder::new();
    for path in ["a", "b/a", "b/c/a", "b/c/index.html", "outside-not/a", "..a", "..."] {
        folder.write(path, "inside");
    }
    for path in ["a", "index.html", "secret"] {
        folder.write_outside(path, SECRET);
    }
    fs::write(folder.path().join("secret"), SECRET).unwrap();
    folder.link("../secret", "link");
    folder.link("../outside", "out");
    folder.link("../../..", "b/c/up");
    folder.link("c", "b/in");
    folder
}

/// Pieces of paths, divided by `|`: names that exist inside and outside, and all that may mean a step up.
const PIECES: &str = "/|/|/|a|b|c|in|out|outside|root|secret|link|up|index.html|..|..|../|/..|.|%2e%2e|%2E.|.%2e|\
    %2f|%2F|%5c|\\|..\\|%252e|%00|\0|%c0%ae|%c0%af|%e0%80%af|%|..;|~|//|/./|file:|%ff|proc/self/root|etc/passwd|?|\
    #| |\u{ff0e}|\u{2215}";

fn pieces() -> impl Strategy<Value = String> {
    let known: Vec<_> = PIECES.split('|').map(String::from).collect();
    prop_oneof![9 => select(known), 1 => any::<String>()]
}

/// A path of names, or of random pieces, often with a path from the root of the file system to a secret at its end.
fn paths(folder: &str) -> impl Strategy<Value = String> + use<> {
    let names = ["a", "a", "b", "b", "c", "in", "out", "up", "outside", "secret", "..", ".", ""];
    let names = vec(select(names.to_vec()), 1..4).prop_map(|names| format!("/{}", names.join("/")));
    let ends = ["", "", "/secret", "/outside/a", "secret", "out/", "out/secret"].map(String::from);
    let absolute = [format!("{folder}/secret"), format!("/{folder}/outside/a")];
    let ends: Vec<_> = ends.into_iter().chain(absolute).collect();
    let random = (vec(pieces(), 0..8), select(ends));
    prop_oneof![names, random.prop_map(|(pieces, end)| pieces.concat() + &end)]
}

#[test]
fn h08_no_path_leads_out_of_the_folder() {
    let folder = folder();
    let strict = Files::new(folder.root()).unwrap();
    let loose = Files::builder(folder.root()).follow_links(true).hidden_files(true);
    let loose = loose.precompressed(true).build().unwrap();
    let inside = std::cell::Cell::new(0);
    let cases = ProptestConfig { cases: 4096, ..ProptestConfig::default() };
    proptest!(cases, |(path in paths(folder.path().to_str().unwrap()))| {
        for files in [&strict, &loose] {
            let answer = ask(files, &Request::get(&path));
            let content = body_of(&answer);
            match answer.status().as_u16() {
                200 => {
                    prop_assert_eq!(content, "inside", "{:?}", path);
                    inside.set(inside.get() + 1);
                }
                status => prop_assert!([301, 404].contains(&status), "{} for {:?}", status, path),
            }
        }
    });
    assert!(inside.get() > 50, "only {} paths named a file", inside.get());
}

/// How often a race is tried.
const ROUNDS: usize = 2_000;

/// Asks for a path while another thread changes the folder, and returns each status and content.
fn ask_during(files: &Files, path: &str, change: impl Fn() + Sync) -> Vec<(u16, String)> {
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| (0..ROUNDS).for_each(|_| change()));
        let mut answers = Vec::new();
        while !changes.is_finished() {
            let answer = ask(files, &Request::get(path));
            answers.push((answer.status().as_u16(), body_of(&answer)));
        }
        answers
    })
}

#[test]
fn h08_a_folder_that_turns_into_a_link_never_leads_out() {
    let folder = folder();
    let (place, away) = (folder.root().join("b"), folder.path().join("away"));
    for follow_links in [false, true] {
        let files = Files::builder(folder.root()).follow_links(follow_links).build().unwrap();
        let answers = ask_during(&files, "/b/a", || {
            fs::rename(&place, &away).unwrap();
            symlink("../outside", &place).unwrap();
            fs::remove_file(&place).unwrap();
            fs::rename(&away, &place).unwrap();
        });
        for (status, content) in answers {
            assert!(!content.contains(SECRET), "followed: {follow_links}");
            assert!([200, 404].contains(&status), "{status}: {content}");
        }
    }
}

#[test]
fn h08_a_file_that_turns_into_a_folder_is_no_error() {
    let folder = folder();
    let (place, away) = (folder.root().join("a"), folder.path().join("away"));
    let files = Files::new(folder.root()).unwrap();
    let answers = ask_during(&files, "/a", || {
        fs::rename(&place, &away).unwrap();
        fs::create_dir(&place).unwrap();
        fs::remove_dir(&place).unwrap();
        fs::rename(&away, &place).unwrap();
    });
    for (status, content) in answers {
        assert!([200, 301, 404].contains(&status), "{status}: {content}");
    }
}

/// A deployment that writes a new file and renames it over the old one: at no time is there none.
#[test]
fn h08_a_file_that_is_replaced_by_a_rename_is_always_there() {
    let folder = folder();
    let (place, new) = (folder.root().join("a"), folder.root().join("new"));
    for follow_links in [false, true] {
        let files = Files::builder(folder.root()).follow_links(follow_links).build().unwrap();
        let answers = ask_during(&files, "/a", || {
            fs::write(&new, "inside").unwrap();
            fs::rename(&new, &place).unwrap();
        });
        for answer in answers {
            assert_eq!(answer, (200, String::from("inside")));
        }
    }
}
