//! Tokens that PyJWT and openssl have made, and their misuse.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::tools::{Player, build_folder, installed, python_with, script, succeed};

/// Makes the keys, the tokens, and a gateway that has the keys.
fn start(test: &str) -> (Gateway, BTreeMap<String, String>) {
    let folder = build_folder().join("tmp/gateway-users").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("secret"), "a secret of thirty-two characters").unwrap();
    make_key(&folder, "rsa", &["RSA", "-pkeyopt", "rsa_keygen_bits:2048"]);
    for name in ["ec", "jwk", "stranger"] {
        make_key(&folder, name, &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]);
    }
    let printed = succeed(python_with("pyjwt").arg(script("tokens.py")).arg(&folder));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let gateway = Gateway::start(&[
        "--tokens-secret-file",
        &path("secret"),
        "--tokens-public-keys",
        &format!("{},{}", path("rsa.pub.pem"), path("ec.pub.pem")),
        "--tokens-jwks",
        &path("jwks.json"),
        "--failures-burst",
        "1000",
    ]);
    (gateway, serde_json::from_str(&printed).unwrap())
}

/// Makes a key pair by openssl.
fn make_key(folder: &Path, name: &str, algorithm: &[&str]) {
    let private: PathBuf = folder.join(name).with_extension("pem");
    let mut command = installed("openssl");
    command.args(["genpkey", "-quiet", "-algorithm"]).args(algorithm).arg("-out").arg(&private);
    succeed(&mut command);
    let mut command = installed("openssl");
    command.args(["pkey", "-pubout", "-in"]).arg(&private);
    succeed(command.arg("-out").arg(folder.join(name).with_extension("pub.pem")));
}

fn is_valid(name: &str) -> bool {
    name.starts_with("valid ")
}

#[test]
fn g03_tokens_of_pyjwt_permit_what_they_say_over_websocket_and_others_nothing() {
    let (gateway, tokens) = start("tokens_websocket");
    let mut command = python_with("websockets");
    command.arg(script("use_tokens.py")).arg(gateway.websocket_url());
    let mut user = Player::start(&mut command);
    user.say(&serde_json::to_string(&tokens).unwrap());
    let printed = user.finish().concat();
    let results: BTreeMap<String, Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(results.len(), tokens.len());
    assert_eq!(results.keys().filter(|name| is_valid(name)).count(), 4);
    let permitted = json!({
        "subscribe": "ok", "publish": "ok",
        "subscribe elsewhere": "not_permitted", "subscribe to all": "not_permitted",
        "publish elsewhere": "not_permitted",
        "read elsewhere": "not_permitted", "look elsewhere": "not_permitted",
    });
    for (name, result) in results {
        match name.as_str() {
            "expired" => assert_eq!(result, json!([4122, "token_expired"])),
            // The claim opens what is for admins; topics are those of the other claims.
            name if is_valid(name) || name == "admin" => {
                assert_eq!(result, json!([permitted, permitted]), "{name}")
            }
            name => assert_eq!(result, json!([4121, "token_invalid"]), "{name}"),
        }
    }
}

#[test]
fn g03_tokens_of_pyjwt_permit_what_they_say_over_http_and_others_nothing() {
    let (gateway, tokens) = start("tokens_http");
    let publish = |topic: &str, token: Option<&str>| {
        let field = token.map(|token| format!("authorization: Bearer {token}"));
        let mut args = vec!["-d", "1", "-w", "\n%{http_code}"];
        args.extend(field.iter().flat_map(|field| ["-H", field.as_str()]));
        let text = gateway.curl_text(&format!("/topics/{topic}"), &args);
        let (body, status) = text.rsplit_once('\n').unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        (status.parse::<u16>().unwrap(), body["error"]["name"].as_str().map(str::to_owned))
    };
    let refused = |status: u16, name: &str| (status, Some(name.to_owned()));
    assert_eq!(publish("news.de", None), refused(401, "token_required"));
    let mut published = 0;
    for (name, token) in &tokens {
        let answer = publish("news.de", Some(token));
        match name.as_str() {
            name if is_valid(name) => {
                assert_eq!(answer, (200, None), "{name}");
                assert_eq!(publish("chat.lobby", Some(token)), refused(403, "not_permitted"));
                published += 1;
            }
            "admin" => {
                assert_eq!(answer, (200, None));
                published += 1;
            }
            "expired" => assert_eq!(answer, refused(401, "token_expired")),
            name => assert_eq!(answer, refused(401, "token_invalid"), "{name}"),
        }
    }
    let field = |name: &str| format!("authorization: Bearer {}", tokens[name]);
    let topics = gateway.curl("/api/topics", &["-H", &field("valid HS256")]);
    assert_eq!(topics["error"]["name"], "not_permitted");
    let admin = field("admin");
    let topics = gateway.curl("/api/topics", &["-H", &admin]);
    assert_eq!(topics["topics"].as_array().map(Vec::len), Some(1));
    let history = gateway.curl("/api/history?topic=news.de", &["-H", &admin]);
    assert_eq!(history["publications"].as_array().map(Vec::len), Some(published));
}
