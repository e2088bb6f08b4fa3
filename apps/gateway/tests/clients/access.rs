//! Tokens, in each protocol: expired, of a wrong key, unsigned, for other topics; their end, and their renewal.

use serde_json::{Value, json};

use crate::support::bench::Bench;
use crate::support::http_client::{Answer, get, request};
use crate::support::tokens::{self, ADMIN_KEY, in_seconds, token, with_claims};
use crate::support::websocket_client::WebSocketClient;

fn protected() -> Bench {
    Bench::with(|config| {
        config.access = tokens::protected();
        config.access.claims.leeway = 0;
    })
}

/// Tokens that are refused, with the name of the error.
fn misuse() -> Vec<(&'static str, String, &'static str)> {
    let expired = with_claims(&json!({"sub": "eve", "exp": in_seconds(-5), "subscribe": [">"]}));
    let valid = token("eve", ">");
    let (head, rest) = valid.split_once('.').unwrap();
    let other = token("root", ">");
    let other_claims = other.split('.').nth(1).unwrap();
    let signature = rest.split_once('.').unwrap().1;
    vec![
        ("expired", expired, "token_expired"),
        ("wrong key", tokens::of_wrong_key(), "token_invalid"),
        ("alg none", tokens::unsigned(), "token_invalid"),
        ("other claims", format!("{head}.{other_claims}.{signature}"), "token_invalid"),
        ("no token", String::from("nonsense"), "token_invalid"),
    ]
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn g03_websocket_takes_a_token_by_field_by_address_or_by_command_and_refuses_misuse() {
    let bench = protected();
    let good = token("ann", "a.>");
    let publish = json!({"publish": {"topic": "a.b", "data": 1}});
    let by_field = WebSocketClient::connect(bench.http, "/ws", &bearer(&good));
    let by_address = WebSocketClient::connect(bench.http, &format!("/ws?token={good}"), "");
    let mut by_command = bench.websocket();
    assert_eq!(by_command.refused(publish.clone()), "token_required");
    for (what, token, name) in misuse() {
        assert_eq!(by_command.refused(json!({"connect": {"token": token}})), name, "{what}");
    }
    assert_eq!(by_command.ask(json!({"connect": {"token": good}}))["user"], "ann");
    for mut client in [by_field, by_address, by_command] {
        client.ask(publish.clone());
        assert_eq!(client.refused(json!({"publish": {"topic": "b", "data": 1}})), "not_permitted");
        for topic in ["b", ">", "*.b", "a"] {
            assert_eq!(client.refused(json!({"subscribe": {"topic": topic}})), "not_permitted");
            assert_eq!(client.refused(json!({"history": {"topic": topic}})), "not_permitted");
        }
        client.ask(json!({"subscribe": {"topic": "a.*"}}));
        assert_eq!(client.refused(json!({"presence": {"topic": "b"}})), "not_permitted");
    }
    for (what, token, name) in misuse() {
        // A page does not see the status of a refused handshake: it is told by the connection.
        let mut client = WebSocketClient::connect(bench.http, "/ws", &bearer(&token));
        let code = if name == "token_expired" { 4122 } else { 4121 };
        let (closing, found, _) = client.end();
        assert_eq!((found, closing.len()), (code, 1), "{what}");
    }
    let mut client = WebSocketClient::connect(bench.http, "/ws", "Authorization: Basic dTpw\r\n");
    assert_eq!(client.close_code(), 4121);
    bench.end();
}

#[test]
fn g03_http_takes_a_token_by_field_or_by_address_and_refuses_misuse() {
    let bench = protected();
    let post = |target: &str, fields: &str, body: &str| -> Answer {
        request(bench.http, "POST", target, fields, body)
    };
    let body = "{\"topic\":\"a.b\",\"data\":1}";
    let good = token("ann", "a.>");
    assert_eq!(post("/api/publish", &bearer(&good), body).status, 200);
    assert_eq!(post(&format!("/api/publish?token={good}"), "", body).status, 200);
    assert_eq!(post("/topics/a.b", &bearer(&good), "x").status, 200);
    for target in ["/api/publish", "/topics/a.b"] {
        let answer = post(target, "", body);
        assert_eq!((answer.status, answer.error().as_str()), (401, "token_required"));
        for (what, token, name) in misuse() {
            let answer = post(target, &bearer(&token), body);
            assert_eq!((answer.status, answer.error().as_str()), (401, name), "{what}");
        }
    }
    let other = post("/api/publish", &bearer(&good), "{\"topic\":\"b\",\"data\":1}");
    assert_eq!((other.status, other.error().as_str()), (403, "not_permitted"));
    for target in ["/api/history?topic=b", "/api/presence?topic=b", "/events?topic=b"] {
        let target = format!("{target}&token={good}");
        let answer = get(bench.http, &target);
        assert_eq!((answer.status, answer.error().as_str()), (403, "not_permitted"), "{target}");
    }
    for (what, token, name) in misuse() {
        let answer = get(bench.http, &format!("/events?topic=a.b&token={token}"));
        assert_eq!((answer.status, answer.error().as_str()), (401, name), "{what}");
    }
    assert_eq!(get(bench.http, "/events?topic=a.b").error(), "token_required");
    bench.end();
}

#[test]
fn g03_topics_are_listed_for_admins_only() {
    let bench = protected();
    let good = token("ann", ">");
    assert_eq!(get(bench.http, &format!("/api/topics?token={good}")).status, 403);
    let body = "{\"topic\":\"a\",\"data\":1}";
    assert_eq!(request(bench.http, "POST", "/api/publish", &bearer(ADMIN_KEY), body).status, 200);
    let topics = request(bench.http, "GET", "/api/topics", &bearer(ADMIN_KEY), "").json();
    assert_eq!(
        (&topics["topics"][0]["topic"], &topics["topics"][0]["published"]),
        (&json!("a"), &json!(1))
    );
    assert_eq!((&topics["topics"][0]["subscribers"], &topics["more"]), (&json!(0), &json!(false)));
    bench.end();
}

#[test]
fn g03_lines_take_a_token_by_auth_and_refuse_misuse() {
    let bench = protected();
    let mut client = bench.line_client();
    assert!(client.ask("SUB a.b").starts_with("ERR token_required "));
    for (what, token, name) in misuse() {
        let reply = client.ask(&format!("AUTH {token}"));
        assert!(reply.starts_with(&format!("ERR {name} ")), "{what}: {reply}");
    }
    assert_eq!(client.ask(&format!("AUTH {}", token("ann", "a.>"))), "OK hello ann");
    assert!(client.ask("SUB a.b").starts_with("OK "));
    for line in ["SUB b", "PUB b x", "HISTORY >", "PRESENCE b"] {
        assert!(client.ask(line).starts_with("ERR not_permitted "), "{line}");
    }
    assert!(client.ask("USER eve").starts_with("ERR not_permitted "), "the token says the name");
    bench.end();
}

#[test]
fn g03_a_client_that_sends_no_token_is_disconnected_after_a_while() {
    let bench = Bench::with(|config| {
        config.access = tokens::protected();
        config.limits.connect_timeout = std::time::Duration::from_millis(50);
    });
    let mut client = bench.websocket();
    assert_eq!(client.close_code(), 4120);
    let mut client = bench.line_client();
    client.expect_end("BYE no token has come in time");
    bench.end();
}

#[test]
fn g03_a_connection_ends_with_its_token_unless_that_is_renewed() {
    let bench = protected();
    let brief = || {
        with_claims(
            &json!({"sub": "ann", "exp": in_seconds(2), "subscribe": ["a", "b"], "publish": []}),
        )
    };
    let mut ends = WebSocketClient::connect(bench.http, "/ws", &bearer(&brief()));
    let mut renews = WebSocketClient::connect(bench.http, "/ws", &bearer(&brief()));
    for topic in ["a", "b"] {
        renews.ask(json!({"subscribe": {"topic": topic}}));
    }
    let eve = token("eve", "a");
    assert_eq!(renews.refused(json!({"connect": {"token": eve}})), "wrong_order");
    let narrow = token("ann", "a");
    renews.send(&json!({"id": 1, "connect": {"token": narrow}}));
    let unsubscribed: Value = renews.next();
    assert_eq!(
        (&unsubscribed["push"], &unsubscribed["topic"]),
        (&json!("unsubscribed"), &json!("b"))
    );
    assert_eq!(unsubscribed["error"]["name"], "not_permitted");
    assert_eq!(renews.next()["ok"]["user"], "ann");
    let (closing, code, _) = ends.end();
    assert_eq!((code, &closing[0]["reconnect"]), (4122, &json!(false)));
    renews.ask(json!({"publish": {"topic": "a", "data": 1}}));
    bench.end();
}

#[test]
fn g03_the_rate_of_a_client_and_the_number_of_clients_are_limited() {
    let bench = Bench::with(|config| {
        config.access = tokens::protected();
        config.limits.publish_rate.per_second = 1;
        config.limits.publish_rate.burst = 1;
        config.limits.clients = 2;
    });
    let good = token("ann", ">");
    let mut client = WebSocketClient::connect(bench.http, "/ws", &bearer(&good));
    let publish = json!({"id": 1, "publish": {"topic": "c", "data": 1}});
    client.send(&json!([publish, publish, publish]));
    let answers: Vec<Value> = (0..3).map(|_| client.next()).collect();
    assert!(answers[0]["ok"].is_object());
    assert_eq!(answers[2]["error"]["name"], "rate_exceeded");
    let mut second = WebSocketClient::connect(bench.http, "/ws", &bearer(&good));
    second.ask(json!({"ping": {}}));
    let mut third = WebSocketClient::connect(bench.http, "/ws", &bearer(&good));
    let (closing, code, _) = third.end();
    assert_eq!((code, &closing[0]["reconnect"]), (4130, &json!(true)));
    let answer = get(bench.http, &format!("/events?topic=a&token={good}"));
    assert_eq!((answer.status, answer.error().as_str()), (503, "too_many_clients"));
    bench.end();
}

#[test]
fn g03_a_client_without_a_token_takes_no_name_where_tokens_say_who_users_are() {
    let bench = Bench::with(|config| {
        config.access = tokens::protected();
        config.access.allow_anonymous = true;
        config.access.anonymous_publish = Some(vec![String::from("a")]);
    });
    let mut stranger = bench.websocket();
    let connect = json!({"connect": {"name": "ann"}});
    assert_eq!(stranger.refused(connect.clone()), "not_permitted", "texts for ann are hers");
    stranger.ask(json!({"publish": {"topic": "a", "data": 1}}));
    let mut lines = bench.line_client();
    assert!(lines.ask("USER ann").starts_with("ERR not_permitted names are those of users"));
    let mut admin = WebSocketClient::connect(bench.http, "/ws", &bearer(ADMIN_KEY));
    assert_eq!(admin.ask(connect)["user"], "ann", "an admin may");
    bench.end();
}
