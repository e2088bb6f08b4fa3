//! The negotiation of permessage-deflate (RFC 7692, section 7.1).

use waterwheel_websocket::{DeflateNegotiationError, DeflateOptions, DeflateParameters};

type Parameters<'a> = Vec<(&'a str, Option<&'a str>)>;

/// Splits an element of `Sec-WebSocket-Extensions` without quoted strings.
fn parameters(element: &str) -> Parameters<'_> {
    let mut parts = element.split(';').map(str::trim);
    assert_eq!(parts.next(), Some("permessage-deflate"));
    parts
        .map(|part| match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        })
        .collect()
}

fn response_of(agreed: &DeflateParameters) -> String {
    let mut out = String::new();
    agreed.put_response(&mut out);
    out
}

fn offer_of(options: &DeflateOptions) -> String {
    let mut out = String::new();
    options.put_offer(&mut out);
    out
}

/// Options that take every context over, with these windows.
fn keeping(window_bits: u8, peer_window_bits: u8) -> DeflateOptions {
    DeflateOptions::builder()
        .context_takeover(true)
        .peer_context_takeover(true)
        .window_bits(window_bits)
        .peer_window_bits(peer_window_bits)
        .build()
        .unwrap()
}

/// Returns the answer of a server to offers, which are separated by commas; without the name of the extension, which is in all of them.
fn answer(options: &DeflateOptions, offers: &str) -> Option<String> {
    let offers: Vec<Parameters<'_>> =
        offers.split(',').map(|offer| parameters(offer.trim())).collect();
    let response = response_of(&options.negotiate(&offers)?);
    Some(response.strip_prefix("permessage-deflate").unwrap().trim_start_matches("; ").to_owned())
}

#[test]
fn w03_a_server_answers_an_offer_by_its_options() {
    let all = keeping(15, 15);
    let small = keeping(10, 11);
    let neither = DeflateOptions::default();
    let table = [
        // offer, of a server that keeps every context, of one with small windows, of one that keeps none
        ("", "", "client_no_context_takeover; server_max_window_bits=10", ""),
        (
            "; client_max_window_bits",
            "",
            "server_max_window_bits=10; client_max_window_bits=11",
            "",
        ),
        (
            "; client_max_window_bits=15",
            "client_max_window_bits=15",
            "server_max_window_bits=10; client_max_window_bits=11",
            "client_max_window_bits=15",
        ),
        (
            "; client_max_window_bits=8",
            "client_max_window_bits=8",
            "server_max_window_bits=10; client_max_window_bits=8",
            "client_max_window_bits=8",
        ),
        (
            "; server_max_window_bits=15; client_max_window_bits",
            "server_max_window_bits=15",
            "server_max_window_bits=10; client_max_window_bits=11",
            "server_max_window_bits=15",
        ),
        (
            "; server_max_window_bits=8; client_max_window_bits",
            "server_max_window_bits=8",
            "server_max_window_bits=8; client_max_window_bits=11",
            "server_max_window_bits=8",
        ),
        (
            "; server_no_context_takeover; client_max_window_bits",
            "server_no_context_takeover",
            "server_no_context_takeover; server_max_window_bits=10; client_max_window_bits=11",
            "",
        ),
        (
            "; client_max_window_bits; client_no_context_takeover",
            "client_no_context_takeover",
            "client_no_context_takeover; server_max_window_bits=10; client_max_window_bits=11",
            "",
        ),
    ];
    for (offer, from_all, from_small, from_neither) in table {
        let offer = format!("permessage-deflate{offer}");
        assert_eq!(answer(&all, &offer).as_deref(), Some(from_all), "{offer}");
        assert_eq!(answer(&small, &offer).as_deref(), Some(from_small), "{offer}");
        let both = "server_no_context_takeover; client_no_context_takeover";
        let expected = [both, from_neither].join(if from_neither.is_empty() { "" } else { "; " });
        assert_eq!(answer(&neither, &offer), Some(expected), "{offer}");
    }
}

/// Elements that are neither an offer nor a response, with the error of a client whose server sends them.
fn malformed() -> Vec<(&'static str, DeflateNegotiationError)> {
    let invalid = |name, value: Option<&str>| DeflateNegotiationError::InvalidValue {
        name,
        value: value.map(str::to_owned),
    };
    let server_bits = |value| invalid("server_max_window_bits", value);
    let client_bits = |value| invalid("client_max_window_bits", value);
    let unknown = |name: &str| DeflateNegotiationError::Unknown { name: name.to_owned() };
    let repeated = |name| DeflateNegotiationError::Repeated { name };
    vec![
        ("; mystery", unknown("mystery")),
        ("; Server_No_Context_Takeover", unknown("Server_No_Context_Takeover")),
        ("; ", unknown("")),
        ("; server_no_context_takeover=1", invalid("server_no_context_takeover", Some("1"))),
        ("; client_no_context_takeover=", invalid("client_no_context_takeover", Some(""))),
        ("; server_max_window_bits", server_bits(None)),
        ("; server_max_window_bits=", server_bits(Some(""))),
        ("; server_max_window_bits=7", server_bits(Some("7"))),
        ("; server_max_window_bits=16", server_bits(Some("16"))),
        ("; server_max_window_bits=08", server_bits(Some("08"))),
        ("; server_max_window_bits=010", server_bits(Some("010"))),
        ("; server_max_window_bits=+9", server_bits(Some("+9"))),
        ("; server_max_window_bits=1a", server_bits(Some("1a"))),
        ("; server_max_window_bits=264", server_bits(Some("264"))),
        ("; client_max_window_bits=0", client_bits(Some("0"))),
        ("; client_max_window_bits=16", client_bits(Some("16"))),
        ("; client_max_window_bits=09", client_bits(Some("09"))),
        ("; client_max_window_bits=", client_bits(Some(""))),
        (
            "; server_no_context_takeover; server_no_context_takeover",
            repeated("server_no_context_takeover"),
        ),
        (
            "; client_no_context_takeover; client_no_context_takeover",
            repeated("client_no_context_takeover"),
        ),
        (
            "; server_max_window_bits=9; server_max_window_bits=9",
            repeated("server_max_window_bits"),
        ),
        (
            "; client_max_window_bits=9; client_max_window_bits=10",
            repeated("client_max_window_bits"),
        ),
    ]
}

#[test]
fn w03_a_server_declines_a_malformed_offer_and_takes_the_next() {
    for (offer, _) in malformed() {
        let offer = format!("permessage-deflate{offer}");
        assert_eq!(answer(&keeping(15, 15), &offer), None, "{offer}");
        let second =
            format!("{offer}, permessage-deflate; server_max_window_bits=9, permessage-deflate");
        let answer = answer(&keeping(15, 15), &second);
        assert_eq!(answer.as_deref(), Some("server_max_window_bits=9"), "{offer}");
    }
    let none: [Parameters<'_>; 0] = [];
    assert_eq!(DeflateOptions::default().negotiate(none), None);
}

#[test]
fn w03_a_client_offers_its_options() {
    let offer = |options: &DeflateOptions| offer_of(options);
    assert_eq!(
        offer(&DeflateOptions::default()),
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover; \
         client_max_window_bits"
    );
    assert_eq!(offer(&keeping(15, 15)), "permessage-deflate; client_max_window_bits");
    assert_eq!(
        offer(&keeping(9, 8)),
        "permessage-deflate; server_max_window_bits=8; client_max_window_bits=9"
    );
}

#[test]
fn w03_a_client_takes_what_a_response_says() {
    let agreed = |options: DeflateOptions, response: &str| {
        let response = format!("permessage-deflate{response}");
        let agreed = options.check_response(&parameters(&response)).unwrap();
        (
            (agreed.server_no_context_takeover(), agreed.server_max_window_bits()),
            (agreed.client_no_context_takeover(), agreed.client_max_window_bits()),
        )
    };
    assert_eq!(agreed(keeping(15, 15), ""), ((false, 15), (false, 15)));
    // The own limits stand, whatever the response leaves out.
    assert_eq!(agreed(keeping(11, 15), ""), ((false, 15), (false, 11)));
    let both = "; server_no_context_takeover";
    assert_eq!(agreed(DeflateOptions::default(), both), ((true, 15), (true, 15)));
    // A server may ask for what was not offered.
    let all = "; client_max_window_bits=8; server_max_window_bits=9; client_no_context_takeover; \
               server_no_context_takeover";
    assert_eq!(agreed(keeping(15, 15), all), ((true, 9), (true, 8)));
    assert_eq!(agreed(keeping(12, 12), all), ((true, 9), (true, 8)));
}

#[test]
fn w03_a_client_names_what_is_wrong_with_a_response() {
    let check = |options: DeflateOptions, response: &str| {
        options.check_response(&parameters(&format!("permessage-deflate{response}")))
    };
    for (response, error) in malformed() {
        assert_eq!(check(keeping(15, 15), response), Err(error), "{response}");
    }
    let no_value = check(keeping(15, 15), "; client_max_window_bits").unwrap_err();
    assert_eq!(
        no_value.to_string(),
        "the parameter client_max_window_bits of permessage-deflate has no value"
    );
    let missing = |name| Err(DeflateNegotiationError::Missing { name });
    assert_eq!(check(DeflateOptions::default(), ""), missing("server_no_context_takeover"));
    assert_eq!(check(keeping(15, 14), ""), missing("server_max_window_bits"));
    let too_large = check(keeping(15, 9), "; server_max_window_bits=10").unwrap_err();
    assert_eq!(
        too_large.to_string(),
        "the parameter server_max_window_bits of permessage-deflate is 10, at most 9 was offered"
    );
    let too_large = check(keeping(9, 15), "; client_max_window_bits=10").unwrap_err();
    assert_eq!(
        too_large.to_string(),
        "the parameter client_max_window_bits of permessage-deflate is 10, at most 9 was offered"
    );
}

#[test]
fn w03_an_error_shows_the_beginning_of_a_long_name_or_value() {
    let long = "x".repeat(10_000);
    let of =
        |parameter| DeflateOptions::default().check_response(&[parameter]).unwrap_err().to_string();
    assert!(of((&long, None)).len() < 200);
    assert!(of(("server_max_window_bits", Some(&long))).len() < 200);
    assert!(of(("a\n\u{1b}[0m", None)).contains("\\n\\u{1b}"), "what a peer sends is escaped");
}

#[test]
fn w03_every_pair_of_endpoints_agrees_on_the_same() {
    let mut all = Vec::new();
    for bits in 0..16 {
        let options = DeflateOptions::builder()
            .context_takeover(bits & 1 != 0)
            .peer_context_takeover(bits & 2 != 0)
            .window_bits(if bits & 4 != 0 { 9 } else { 15 })
            .peer_window_bits(if bits & 8 != 0 { 8 } else { 15 });
        all.push(options.build().unwrap());
    }
    for server in &all {
        for client in &all {
            let agreed = server.negotiate([parameters(&offer_of(client))]).unwrap();
            let response = response_of(&agreed);
            let seen = client.check_response(&parameters(&response)).unwrap();
            let context = format!("{client:?} and {server:?}: {response}");
            assert_eq!(seen.server_max_window_bits(), agreed.server_max_window_bits(), "{context}");
            assert_eq!(seen.client_max_window_bits(), agreed.client_max_window_bits(), "{context}");
            assert_eq!(seen.server_no_context_takeover(), agreed.server_no_context_takeover());
            assert_eq!(seen.client_no_context_takeover(), agreed.client_no_context_takeover());
        }
    }
}
