//! The client against the server of this crate, within the process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use waterwheel_channel::driver::TaskOnly;
use waterwheel_channel::{Address, Bootstrap, EventLoopGroup, Resolver, local};
use waterwheel_executor::{Error, Promise};
use waterwheel_http::{Body, Client, HttpServer, InvalidRoute, Request, Router};

/// Names are addresses within the process.
struct Names;

impl Resolver for Names {
    fn resolve(&self, name: &str, found: Promise<Vec<Address>>) {
        found.set_success(vec![Address::local(name)]);
    }
}

fn routes() -> Result<Router, InvalidRoute> {
    Router::builder()
        .get("/hello/{name}", async |request: Request| {
            format!("hello {}", request.path_param("name").unwrap_or_default())
        })
        .post("/echo", async |request: Request| Body::from(request.into_body()))
        .build()
}

/// Makes three requests; returns the status and the body of each.
async fn ask(client: Client) -> Result<[(StatusCode, Bytes); 3], Error> {
    let large = "0123456789".repeat(30_000);
    let requests = [
        client.request(Method::GET, "http://c16/hello/ann"),
        client.request(Method::POST, "http://c16/echo").body(large),
        client.request(Method::GET, "http://c16/nothing"),
    ];
    let mut answers = std::array::from_fn(|_| (StatusCode::OK, Bytes::new()));
    for (request, answer) in requests.into_iter().zip(&mut answers) {
        let response = request.send().await?;
        let status = response.status();
        *answer = (status, response.into_body().collect(400_000).await.map_err(Error::new)?);
    }
    Ok(answers)
}

#[test]
fn c16_a_server_and_a_client_exchange_requests_over_one_connection() {
    let group = EventLoopGroup::builder(TaskOnly).threads(2).build().unwrap();
    let server = HttpServer::per_loop(|| routes().unwrap()).build().unwrap();
    let listener = server.bind(&group, local::Local, Address::local("c16:80")).join().unwrap();
    let bootstrap = Bootstrap::new(&group, local::Local).resolver(Arc::new(Names));
    let client = Client::builder(bootstrap).timeout(Duration::from_secs(30)).build().unwrap();

    let [hello, echo, missing] =
        group.next().spawn_with(move || ask(client)).unwrap().join().unwrap().unwrap();
    assert_eq!(hello, (StatusCode::OK, Bytes::from_static(b"hello ann")));
    assert_eq!(echo, (StatusCode::OK, "0123456789".repeat(30_000).into()));
    assert_eq!(missing.0, StatusCode::NOT_FOUND);
    let metrics = server.metrics();
    assert_eq!((metrics.connections, metrics.requests, metrics.refused), (1, 3, 0));
    drop(listener);
    group.shutdown_gracefully(Duration::ZERO, Duration::from_secs(5)).unwrap().join().unwrap();
}
