//! The router: which service gets a request, and what is answered without one (H07).

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::header::{ALLOW, HeaderValue};
use http::{Method, StatusCode, Uri};
use waterwheel_http::{Incoming, InvalidRoute, PathParams, Request, Response, Router, Service};

/// Answers with its name and the parameters in a header.
fn named(name: &'static str) -> impl Service {
    move |request: Request| async move {
        let parameters = request.extensions().get::<PathParams>();
        let parameters =
            parameters.map(|p| p.iter().map(|(k, v)| format!(" {k}={v}")).collect::<String>());
        let text = name.to_owned() + &parameters.unwrap_or_default();
        let mut response = Response::default();
        response.headers_mut().insert("x-route", HeaderValue::from_bytes(text.as_bytes()).unwrap());
        response
    }
}

fn call(router: &Router, method: Method, uri: &str) -> Response {
    let mut parts = http::Request::new(()).into_parts().0;
    (parts.method, parts.uri) = (method, uri.parse::<Uri>().unwrap());
    let answer = pin!(router.call(Request::from_parts(parts, Incoming::empty())));
    match answer.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => response,
        Poll::Pending => panic!("the service waits"),
    }
}

/// Returns the route that gets a request, with its parameters, or the status.
fn route(router: &Router, method: Method, uri: &str) -> String {
    let response = call(router, method, uri);
    match response.headers().get("x-route") {
        Some(route) => String::from_utf8(route.as_bytes().to_vec()).unwrap(),
        None => response.status().as_u16().to_string(),
    }
}

fn get(router: &Router, uri: &str) -> String {
    route(router, Method::GET, uri)
}

#[test]
fn h07_literals_win_over_parameters_and_parameters_over_tails_in_any_order() {
    let patterns = ["/users/me", "/users/{id}", "/users/{*rest}", "/{*all}", "/{kind}/new", "/"];
    let table = [
        ("/users/me", "/users/me"),
        ("/users/7", "/users/{id} id=7"),
        ("/users/new", "/users/{id} id=new"),
        ("/users/7/posts", "/users/{*rest} rest=7/posts"),
        ("/users/", "/users/{*rest} rest="),
        ("/users", "/{*all} all=users"),
        ("/posts/new", "/{kind}/new kind=posts"),
        ("/posts/newer", "/{*all} all=posts/newer"),
        ("/", "/"),
    ];
    for first in 0..patterns.len() {
        let mut builder = Router::builder();
        for pattern in patterns.iter().cycle().skip(first).take(patterns.len()) {
            builder = builder.get(pattern, named(pattern));
        }
        let router = builder.build().unwrap();
        for (path, found) in table {
            assert_eq!(get(&router, path), found, "{path}");
        }
    }
}

#[test]
fn h07_a_branch_without_a_match_is_left_for_the_next() {
    let router = Router::builder()
        .get("/a/{x}/c", named("literal first"))
        .get("/{y}/b/d", named("parameter first"))
        .get("/{*rest}", named("tail"))
        .build()
        .unwrap();
    assert_eq!(get(&router, "/a/b/c"), "literal first x=b");
    assert_eq!(get(&router, "/a/b/d"), "parameter first y=a");
    assert_eq!(get(&router, "/a/b/e"), "tail rest=a/b/e");
    assert_eq!(get(&router, "/a/b/c/"), "tail rest=a/b/c/");
}

#[test]
fn h07_paths_are_compared_without_normalisation() {
    let router = Router::builder()
        .get("/a/b", named("plain"))
        .get("/a//b", named("empty segment"))
        .get("/a/../b", named("dots"))
        .get("/users/{id}", named("user"))
        .build()
        .unwrap();
    let table = [
        ("/a/b", "plain"),
        ("/a//b", "empty segment"),
        ("/a/../b", "dots"),
        ("/a/b/", "404"),
        ("//a/b", "404"),
        ("/a/./b", "404"),
        ("/%61/b", "404"),
        ("/A/b", "404"),
        ("/a/b;x=1", "404"),
        ("/users/", "404"),
        ("/users/..", "user id=.."),
        ("/a/b?c=/d", "plain"),
        ("http://example.org/a/b", "plain"),
        ("http://example.org", "404"),
    ];
    for (path, found) in table {
        assert_eq!(get(&router, path), found, "{path}");
    }
}

#[test]
fn h07_parameters_are_decoded_and_those_that_are_not_utf_8_are_400() {
    let router = Router::builder()
        .get("/{a}/x/{b}", named("two"))
        .get("/files/{*path}", named("files"))
        .build()
        .unwrap();
    let table = [
        ("/1/x/2", "two a=1 b=2"),
        ("/%C3%A9/x/a+b", "two a=\u{e9} b=a+b"),
        ("/a%2Fx%2Fb/x/%25", "two a=a/x/b b=%"),
        ("/files/a%20b/c?d", "files path=a b/c"),
        ("/%ff/x/2", "400"),
        ("/1/x/%", "400"),
        ("/1/x/%4", "400"),
        ("/files/a/%zz", "400"),
    ];
    for (path, found) in table {
        assert_eq!(get(&router, path), found, "{path}");
    }
}

#[test]
fn h07_parameters_are_found_by_name_and_outlive_a_rewritten_uri() {
    let router = Router::builder()
        .get("/{a}/{b}", |mut request: Request| async move {
            *request.uri_mut() = Uri::from_static("/");
            assert_eq!(request.path_param("a").as_deref(), Some("1"));
            assert_eq!(request.path_param("b").as_deref(), Some("2"));
            assert_eq!(request.path_param("c"), None);
            StatusCode::ACCEPTED
        })
        .fallback(|request: Request| async move {
            assert_eq!(request.path_param("a"), None);
            StatusCode::IM_A_TEAPOT
        })
        .build()
        .unwrap();
    assert_eq!(get(&router, "/1/2"), "202");
    assert_eq!(get(&router, "/1"), "418");
}

#[test]
fn h07_an_unknown_method_on_a_known_path_is_405_with_a_sorted_allow() {
    let purge = Method::from_bytes(b"PURGE").unwrap();
    let router = Router::builder()
        .route(purge, "/a", named("purge"))
        .get("/a", named("get"))
        .delete("/a", named("delete"))
        .post("/b", named("post"))
        .build()
        .unwrap();
    for (method, path, allow) in [
        (Method::POST, "/a", "DELETE, GET, HEAD, OPTIONS, PURGE"),
        (Method::TRACE, "/a", "DELETE, GET, HEAD, OPTIONS, PURGE"),
        (Method::GET, "/b", "OPTIONS, POST"),
        (Method::HEAD, "/b", "OPTIONS, POST"),
        (Method::CONNECT, "example.org:80", "DELETE, GET, HEAD, OPTIONS, POST, PURGE"),
    ] {
        let response = call(&router, method.clone(), path);
        assert_eq!(response.status(), 405, "{method} {path}");
        assert_eq!(response.headers()[ALLOW], allow, "{method} {path}");
    }
    assert_eq!(route(&router, Method::POST, "/c"), "404");
}

#[test]
fn h07_options_is_answered_with_allow_unless_it_has_a_route() {
    let router = Router::builder()
        .get("/a", named("get"))
        .post("/b", named("post"))
        .route(Method::OPTIONS, "/b", named("options"))
        .any("/c", named("any"))
        .build()
        .unwrap();
    let response = call(&router, Method::OPTIONS, "/a");
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()[ALLOW], "GET, HEAD, OPTIONS");
    assert_eq!(response.body().exact_len(), Some(0));
    assert_eq!(route(&router, Method::OPTIONS, "/b"), "options");
    assert_eq!(route(&router, Method::OPTIONS, "/c"), "any");
    assert_eq!(route(&router, Method::OPTIONS, "/d"), "404");
    let response = call(&router, Method::OPTIONS, "*");
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()[ALLOW], "GET, HEAD, OPTIONS, POST");
}

#[test]
fn h07_head_gets_the_route_of_get_unless_it_has_its_own() {
    let router = Router::builder()
        .get("/a", named("get"))
        .any("/a", named("any"))
        .get("/b", named("get"))
        .route(Method::HEAD, "/b", named("head"))
        .build()
        .unwrap();
    assert_eq!(route(&router, Method::HEAD, "/a"), "get");
    assert_eq!(route(&router, Method::PUT, "/a"), "any");
    assert_eq!(route(&router, Method::HEAD, "/b"), "head");
    assert_eq!(route(&router, Method::GET, "/b"), "get");
}

#[test]
fn h07_the_path_decides_before_the_method() {
    let router = Router::builder()
        .get("/users/me", named("me"))
        .delete("/users/{id}", named("delete"))
        .build()
        .unwrap();
    assert_eq!(route(&router, Method::DELETE, "/users/7"), "delete id=7");
    assert_eq!(route(&router, Method::DELETE, "/users/me"), "405");
}

#[test]
fn h07_the_fallback_gets_unknown_paths_and_connect_alone() {
    let router = Router::builder().get("/a", named("a")).fallback(named("fallback"));
    let router = router.build().unwrap();
    assert_eq!(get(&router, "/b"), "fallback");
    assert_eq!(route(&router, Method::CONNECT, "example.org:80"), "fallback");
    assert_eq!(route(&router, Method::POST, "/a"), "405");
    assert_eq!(route(&router, Method::OPTIONS, "*"), "204");
}

#[test]
fn h07_a_nested_router_has_its_prefix() {
    let files = || Router::builder().get("/{*path}", named("files"));
    let user =
        Router::builder().get("", named("user")).get("/", named("slash")).nest("/files", files());
    let router = Router::builder().nest("/users/{id}", user).nest("", files()).build().unwrap();
    assert_eq!(get(&router, "/users/7"), "user id=7");
    assert_eq!(get(&router, "/users/7/"), "slash id=7");
    assert_eq!(get(&router, "/users/7/files/a/b"), "files id=7 path=a/b");
    assert_eq!(get(&router, "/users/7/x"), "files path=users/7/x");
}

#[test]
fn h07_routes_that_cannot_be_told_apart_are_refused_when_the_router_is_built() {
    let error = |builder: waterwheel_http::RouterBuilder| builder.build().unwrap_err().to_string();
    let builder = Router::builder;
    let conflict = builder().get("/u/{id}", named("")).get("/u/{name}", named(""));
    assert_eq!(
        error(conflict),
        "the routes `/u/{name}` and `/u/{id}` match the same paths with the method GET"
    );
    let conflict = builder().any("/a", named("")).nest("/a", builder().any("", named("")));
    assert_eq!(
        error(conflict),
        "the routes `/a` and `/a` match the same paths with the method any"
    );
    assert_eq!(
        error(builder().nest("/a/", builder().get("/b", named("")))),
        "the prefix `/a/` of a nested router ends with a slash"
    );
    assert_eq!(
        error(builder().nest("/a", builder().get("b", named("")))),
        "the route `b` does not begin with a slash"
    );
    let nested = builder().nest("/a", builder().fallback(named("")));
    assert!(error(nested).starts_with("the router nested at `/a` has a fallback"));
    let fallbacks = builder().fallback(named("")).fallback(named(""));
    assert_eq!(fallbacks.build().unwrap_err(), InvalidRoute::SecondFallback);
    let tail = builder().nest("/{*all}", builder().get("/b", named("")));
    assert!(matches!(tail.build(), Err(InvalidRoute::TailNotLast { .. })));
    let connect = builder().route(Method::CONNECT, "/", named("")).build();
    assert!(matches!(connect, Err(InvalidRoute::Connect { .. })));
    let same_shape = builder().get("/u/{id}", named("get")).post("/u/{name}", named("post"));
    let router = same_shape.build().unwrap();
    assert_eq!(get(&router, "/u/1"), "get id=1");
    assert_eq!(route(&router, Method::POST, "/u/1"), "post name=1");
}
