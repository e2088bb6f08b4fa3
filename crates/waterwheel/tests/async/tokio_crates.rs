//! Crates that need tokio, called from loops: an HTTP client (reqwest) and a database driver (tokio-postgres), with real
//! servers (A05).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};
use waterwheel::async_bridge::{
    AsyncChannel, AsyncHandler, OrderedAnswers, Serve, TokioRuntime, TokioTaskError, handler_fn,
};
use waterwheel::channel::{Channel, DrainOptions, EventLoopGroup, ServerBootstrap, timeout};
use waterwheel::codec::{LineDecoder, LineEncoder};
use waterwheel::executor::Error;
use waterwheel::net::{Auto, Tcp};

use crate::line_client::LineClient;
use crate::page_server::PageServer;
use crate::postgres::Postgres;
use crate::program::WAIT_LIMIT;

/// Loops, and a tokio runtime with one worker.
struct Bench {
    group: EventLoopGroup,
    tokio: Runtime,
    runtime: TokioRuntime,
}

impl Bench {
    fn new() -> Self {
        let group = EventLoopGroup::builder(Auto).threads(1).build().unwrap();
        let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let runtime = TokioRuntime::new(tokio.handle().clone());
        Self { group, tokio, runtime }
    }

    /// Starts a server of lines; each connection has a handler of its own.
    fn serve<H: AsyncHandler<Request = String, Response = String>>(
        &self,
        make_handler: impl Fn() -> H + Send + Sync + 'static,
    ) -> (Channel, SocketAddr) {
        let server = ServerBootstrap::new(&self.group, Tcp)
            .child_initialiser(move |edit| {
                edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
                edit.add_last("answers", OrderedAnswers::new(make_handler()))?;
                Ok(())
            })
            .bind("127.0.0.1:0")
            .join()
            .unwrap();
        let address = server.local_address().unwrap().to_string().parse().unwrap();
        (server, address)
    }

    /// Starts a server that answers a line with the page of that path. Reports paths whose page has arrived on the loop.
    fn serve_pages(&self, pages: &PageServer) -> (Channel, SocketAddr, mpsc::Receiver<String>) {
        let (sender, arrived) = mpsc::channel();
        let (runtime, root) = (self.runtime.clone(), pages.url(""));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (server, address) = self.serve(move || {
            let (runtime, root) = (runtime.clone(), root.clone());
            let (http, sender) = (http.clone(), sender.clone());
            handler_fn(move |path: String| {
                let (http, url) = (http.clone(), format!("{root}{path}"));
                let page = runtime.spawn(async move { http.get(url).send().await?.text().await });
                let sender = sender.clone();
                async move {
                    let text = page.await?.map_err(Error::new)?;
                    sender.send(path).unwrap();
                    Ok::<_, Error>(text)
                }
            })
        });
        (server, address, arrived)
    }

    fn connect(&self, database: &Postgres) -> Arc<Client> {
        let config = database.config();
        self.tokio.block_on(async move {
            let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
            tokio::spawn(connection);
            Arc::new(client)
        })
    }
}

#[test]
fn a05_pipelined_requests_whose_pages_arrive_in_reverse_order_are_answered_in_order() {
    const PATHS: [&str; 5] = ["/0", "/1", "/2", "/3", "/4"];
    let (bench, pages) = (Bench::new(), PageServer::start());
    let (_server, address, arrived) = bench.serve_pages(&pages);
    let mut client = LineClient::connect(address);
    client.send(&PATHS);
    for (path, request) in pages.requests(PATHS.len()).into_iter().rev() {
        request.answer("200 OK", &format!("page {path}"));
        // The answer is on the loop before the next page is sent.
        assert_eq!(arrived.recv_timeout(WAIT_LIMIT).unwrap(), path);
    }
    for path in PATHS {
        assert_eq!(client.receive(), format!("page {path}"));
    }
}

#[test]
fn a05_a_client_that_goes_away_aborts_its_calls() {
    let (bench, pages) = (Bench::new(), PageServer::start());
    let (_server, address, arrived) = bench.serve_pages(&pages);
    let mut client = LineClient::connect(address);
    client.send(&["/never"]);
    let _unanswered = pages.requests(1);
    drop(client);
    // The HTTP client gives up a connection only when the future of its request is dropped.
    assert_eq!(pages.closed_path(), "/never");
    assert!(arrived.try_recv().is_err());
}

#[test]
fn a05_an_async_function_per_connection_calls_the_runtime_and_aborts_the_call_at_a_reset() {
    let (bench, pages) = (Bench::new(), PageServer::start());
    let (runtime, root) = (bench.runtime.clone(), pages.url(""));
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let server = ServerBootstrap::new(&bench.group, Tcp)
        .child_initialiser(|edit| {
            edit.add_codec("lines", LineDecoder::new(1024).text(), LineEncoder::new())?;
            Ok(())
        })
        .serve(move |mut connection: AsyncChannel<String>| {
            let (runtime, root, http) = (runtime.clone(), root.clone(), http.clone());
            async move {
                while let Some(path) = connection.next().await {
                    let (http, url) = (http.clone(), format!("{root}{}", path?));
                    let page =
                        runtime.spawn(async move { http.get(url).send().await?.text().await });
                    connection.send(page.await?.map_err(Error::new)?).await?;
                }
                Ok::<_, Error>(())
            }
        })
        .bind("127.0.0.1:0")
        .join()
        .unwrap();
    let address = server.local_address().unwrap().to_string().parse().unwrap();
    let mut client = LineClient::connect(address);
    client.send(&["/first"]);
    pages.requests(1).remove("/first").unwrap().answer("200 OK", "one");
    assert_eq!(client.receive(), "one");

    client.send(&["/never"]);
    let _unanswered = pages.requests(1);
    client.reset();
    assert_eq!(pages.closed_path(), "/never");
}

#[test]
fn a05_a_drain_waits_for_calls_under_way() {
    let (bench, pages) = (Bench::new(), PageServer::start());
    let (server, address, _arrived) = bench.serve_pages(&pages);
    let mut client = LineClient::connect(address);
    client.send(&["/late"]);
    let requests = pages.requests(1);
    let drained = bench.group.drain(DrainOptions::within(WAIT_LIMIT));
    server.closed().join().unwrap(); // The drain has begun.
    for (_, request) in requests {
        request.answer("200 OK", "in time");
    }
    assert_eq!(client.receive(), "in time");
    assert_eq!(client.receive(), "", "the end of the connection");
    drained.join().unwrap();
}

#[test]
fn a05_a_database_is_queried_from_a_loop() {
    let (bench, database) = (Bench::new(), Postgres::start());
    let client = bench.connect(&database);
    let runtime = bench.runtime.clone();
    let sum = bench.group.next().spawn(async move {
        let query = move |text: &'static str| {
            let client = client.clone();
            runtime.spawn(async move { client.query_one(text, &[]).await })
        };
        let row = query("SELECT 40 + 2").await??;
        let refused = query("SELECT nothing").await?.unwrap_err();
        let code = refused.code().map(|code| code.code().to_owned());
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((row.get::<_, i32>(0), code))
    });
    let undefined_column = Some(String::from("42703"));
    assert_eq!(sum.unwrap().join().unwrap().unwrap(), (42, undefined_column));
}

/// A query that waits until another session unlocks number 1.
const WAIT_FOR_LOCK: &str = "SELECT pg_advisory_lock(1), pg_advisory_unlock(1)";

#[test]
fn a06_a_query_that_is_dropped_does_not_disturb_the_next_one() {
    let (bench, database) = (Bench::new(), Postgres::start());
    let (client, other) = (bench.connect(&database), bench.connect(&database));
    bench.tokio.block_on(other.execute("SELECT pg_advisory_lock(1)", &[])).unwrap();
    let runtime = bench.runtime.clone();
    let answer = bench.group.next().spawn(async move {
        let waiting = client.clone();
        let query = runtime.spawn(async move { waiting.query_one(WAIT_FOR_LOCK, &[]).await });
        // The other session sees the query wait, so it is under way when it is dropped.
        let (other, asks) = (other.clone(), "SELECT count(*) FROM pg_locks WHERE NOT granted");
        let unlock = runtime.spawn(async move {
            while other.query_one(asks, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
            other
        });
        let other = unlock.await?;
        assert!(query.cancel().await.is_none());
        runtime
            .spawn(async move { other.execute("SELECT pg_advisory_unlock(1)", &[]).await })
            .detach();
        let row = runtime.spawn(async move { client.query_one("SELECT 42", &[]).await }).await?;
        Ok::<i32, Error>(row.map_err(Error::new)?.get(0))
    });
    assert_eq!(answer.unwrap().join().unwrap().unwrap(), 42);
}

#[test]
fn a05_a_runtime_that_ends_during_a_query_fails_the_call() {
    let (bench, database) = (Bench::new(), Postgres::start());
    let (client, other) = (bench.connect(&database), bench.connect(&database));
    bench.tokio.block_on(other.execute("SELECT pg_advisory_lock(1)", &[])).unwrap();
    let (runtime, (started, starts)) = (bench.runtime.clone(), mpsc::channel());
    let outcome = bench.group.next().spawn(async move {
        let query =
            runtime.spawn(async move { client.query_one(WAIT_FOR_LOCK, &[]).await.is_ok() });
        started.send(()).unwrap();
        timeout(WAIT_LIMIT, query).await
    });
    starts.recv_timeout(WAIT_LIMIT).unwrap();
    drop(bench.tokio);
    let error =
        outcome.unwrap().join().unwrap().expect("an end before the time limit").unwrap_err();
    assert!(matches!(error, TokioTaskError::RuntimeGone { .. }), "{error}");
}

#[test]
fn a05_channels_are_awaited_in_tokio_tasks() {
    let bench = Bench::new();
    let (server, address) =
        bench.serve(|| handler_fn(|line: String| async { Ok::<_, Error>(line) }));
    let mut client = LineClient::connect(address);
    assert_eq!(client.ask("hello"), "hello");
    bench.tokio.block_on(async move {
        let closed = tokio::spawn({
            let server = server.clone();
            async move { server.closed().await }
        });
        server.close().await.unwrap();
        closed.await.unwrap().unwrap();
    });
}
