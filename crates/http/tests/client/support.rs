//! A client on a manual loop, and its servers.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use waterwheel_channel::{Bootstrap, EventLoopGroup, LocalJoin, ManualEventLoop};
use waterwheel_http::{Client, ClientBuilder, ClientError, Incoming};
use waterwheel_testkit::manual::{Manual, ManualSockets, Peer, PendingConnect};
use waterwheel_testkit::recorder::Log;

/// The server of most tests.
pub(crate) const URL: &str = "http://192.0.2.1/";

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) const OK_HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

pub(crate) struct Bench {
    pub(crate) manual: Manual,
    pub(crate) sockets: ManualSockets,
    pub(crate) event_loop: ManualEventLoop,
    pub(crate) client: Client,
}

/// A future on the loop.
pub(crate) struct Running<T> {
    output: Rc<RefCell<Option<T>>>,
    task: LocalJoin<()>,
}

impl<T> Running<T> {
    /// Takes the output, which must be there.
    #[track_caller]
    pub(crate) fn take(&self) -> T {
        self.output.take().expect("the future has completed")
    }

    pub(crate) fn is_done(&self) -> bool {
        self.output.borrow().is_some()
    }

    /// Drops the future.
    pub(crate) fn cancel(self, bench: &mut Bench) {
        self.task.abort();
        bench.run();
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(build: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let manual = Manual::readiness();
        let event_loop = EventLoopGroup::builder(manual.clone())
            .reporter(Arc::new(Log::new()))
            .build_manual()
            .unwrap();
        let sockets = manual.sockets();
        let bootstrap = Bootstrap::new(&event_loop.event_loop(), sockets.clone());
        let client = build(Client::builder(bootstrap)).build().unwrap();
        Self { manual, sockets, event_loop, client }
    }

    /// Runs the loop until it is idle.
    pub(crate) fn run(&mut self) {
        turn_until_idle(&mut self.event_loop);
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.manual.advance(by);
        self.run();
    }

    /// Starts a future on the loop.
    pub(crate) fn start<F>(&mut self, call: impl FnOnce(Client) -> F) -> Running<F::Output>
    where
        F: Future<Output: 'static> + 'static,
    {
        let output = Rc::new(RefCell::new(None));
        let (future, kept) = (call(self.client.clone()), output.clone());
        let task = self.event_loop.on_loop(|here| {
            here.spawn_local(async move {
                let value = future.await;
                *kept.borrow_mut() = Some(value);
            })
        });
        self.run();
        Running { output, task: task.unwrap() }
    }

    /// Requests [`URL`] with GET.
    pub(crate) fn get(&mut self) -> Running<Result<Response<Incoming>, ClientError>> {
        self.get_url(URL)
    }

    pub(crate) fn get_url(
        &mut self,
        url: &'static str,
    ) -> Running<Result<Response<Incoming>, ClientError>> {
        self.start(move |client| async move { client.get(url).await })
    }

    /// Requests a URL, and waits for the whole body.
    pub(crate) fn get_text(&mut self, url: &'static str) -> Running<Result<String, String>> {
        self.start(move |client| async move {
            let response = client.get(url).await.map_err(|error| error.to_string())?;
            read_text(response).await
        })
    }

    /// Returns the oldest connect that was not answered.
    pub(crate) fn next_connect(&mut self) -> Option<PendingConnect> {
        self.run();
        self.sockets.next_connect()
    }

    /// Accepts the oldest connect.
    #[track_caller]
    pub(crate) fn accept(&mut self) -> Peer {
        let peer = self.next_connect().expect("a connect was begun").accept();
        self.run();
        peer
    }

    /// Sends the bytes of a server.
    pub(crate) fn send(&mut self, peer: &Peer, bytes: impl AsRef<[u8]>) {
        peer.send(bytes);
        self.run();
    }

    /// Ends the connection of a server in order.
    pub(crate) fn finish(&mut self, peer: &Peer) {
        peer.finish();
        self.run();
    }

    pub(crate) fn reset(&mut self, peer: &Peer) {
        peer.reset();
        self.run();
    }

    /// Takes what a server has received.
    pub(crate) fn received(&mut self, peer: &Peer) -> String {
        self.run();
        String::from_utf8(peer.take_received().to_vec()).unwrap()
    }

    /// Drops a value of the client on the loop.
    pub(crate) fn drop_on_loop<T>(&mut self, value: T) {
        self.event_loop.on_loop(|_| drop(value));
        self.run();
    }

    /// Opens a connection by one exchange.
    pub(crate) fn open_connection(&mut self) -> Peer {
        let call = self.get_text(URL);
        let peer = self.accept();
        peer.take_received();
        self.send(&peer, OK_HELLO);
        assert_eq!(call.take().unwrap(), "hello");
        peer
    }

    /// Closes the client, and checks that it leaves nothing behind.
    #[track_caller]
    pub(crate) fn assert_nothing_left(mut self) {
        drop(self.client);
        turn_until_idle(&mut self.event_loop);
        let metrics = self.event_loop.event_loop().metrics();
        assert_eq!((metrics.channels, metrics.timers), (0, 0), "channels and timers");
    }
}

/// Reads the body of a response.
pub(crate) async fn read_text(response: Response<Incoming>) -> Result<String, String> {
    let body = response.into_body().collect(1 << 24).await;
    let bytes: Bytes = body.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Turns the loop until it has had nothing to do twice: the driver may have an event that the loop does not know of.
fn turn_until_idle(event_loop: &mut ManualEventLoop) {
    let mut idle_turns = 0;
    while idle_turns < 2 {
        event_loop.turn(Some(Duration::ZERO));
        idle_turns = if event_loop.is_idle() { idle_turns + 1 } else { 0 };
    }
}
