//! A router of TLS connections by the name that the client asks for (SNI). TLS is not terminated: the router has no
//! certificate and no key, and sees nothing of what it forwards but the ClientHello.
//!
//! ```sh
//! cargo run --release -p waterwheel --example sni_router -- 127.0.0.1:7443 \
//!     www.example.org=127.0.0.1:7444 '*.example.org=127.0.0.1:7445' '*=127.0.0.1:7446'
//! openssl s_client -connect 127.0.0.1:7443 -servername www.example.org
//! ```
//!
//! A wildcard stands for one label. `*` is for all other names, and for clients that give none; without it they get an
//! alert. `--hello-limit BYTES` (64 KiB) and `--hello-timeout SECONDS` (10) limit the ClientHello.
//!
//! ```text
//!   client ⇄ route ⇄ flow control ⇄ front ⇄ back ⇄ server
//! ```
//!
//! Shows `ClientHelloReader` in a handler. The server is connected to when its name is known; what was read meanwhile
//! waits in the `FlowControl`, and is the first that the server gets, unchanged. From then on both sides forward to each
//! other as in a plain proxy (support/forwarding.rs), with back-pressure and half-closure.

use std::error::Error;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use waterwheel::channel::{
    ChannelOptions, Ctx, EventLoopGroup, Events, HalfClosed, Handler, HandlerResult, Msg,
    ServerBootstrap,
};
use waterwheel::executor;
use waterwheel::handlers::FlowControl;
use waterwheel::net::{Auto, Tcp};
use waterwheel::tls::rustls::AlertDescription;
use waterwheel::tls::{ClientHello, ClientHelloReader, ServerNameMap, TlsError, fatal_alert};

#[path = "../support/forwarding.rs"]
#[allow(dead_code, reason = "`ConnectTarget` does not wait for a ClientHello")]
mod forwarding;

use forwarding::{connect_target, side_options};

const USAGE: &str = "usage: sni_router [--hello-limit BYTES] [--hello-timeout SECONDS] LISTEN \
                     NAME=ADDRESS…, with `*.NAME` for one more label and `*` for all other names";

/// The command line.
struct Routes {
    by_name: ServerNameMap<SocketAddr>,
    /// For names that are not in the table, and for clients without a name.
    default: Option<SocketAddr>,
    hello_limit: usize,
    hello_timeout: Duration,
}

impl Routes {
    fn find(&self, hello: &ClientHello) -> Option<SocketAddr> {
        let by_name = hello.server_name().and_then(|name| self.by_name.get(name));
        by_name.copied().or(self.default)
    }
}

/// Reads the ClientHello, and connects to the server of its name.
struct Route {
    routes: Arc<Routes>,
    /// `None` once the connection is routed, or refused.
    reader: Option<ClientHelloReader>,
}

impl Route {
    fn new(routes: Arc<Routes>) -> Self {
        let reader = Some(ClientHelloReader::with_limit(routes.hello_limit));
        Self { routes, reader }
    }

    /// Closes the connection with an alert. The error is reported at the end of the pipeline, with a limit of reports.
    fn refuse(&mut self, ctx: &Ctx<'_>, alert: AlertDescription, error: TlsError) {
        self.reader = None;
        ctx.write_and_flush(fatal_alert(alert));
        ctx.fire_error(error.clone().into());
        ctx.close_because(error.into());
    }
}

impl Handler for Route {
    fn interest(&self) -> Events {
        Events::ACTIVE | Events::READ | Events::READ_COMPLETE | Events::USER_EVENT
    }

    fn on_active(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        ctx.schedule(self.routes.hello_timeout, 0);
        ctx.read();
        ctx.fire_active();
        Ok(())
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let Some(reader) = &mut self.reader else {
            ctx.fire_read(msg);
            return Ok(());
        };
        let Ok(mut bytes) = msg.into_bytes() else { return Ok(()) };
        let hello = match reader.feed(&mut bytes) {
            Ok(None) => return Ok(()),
            Ok(Some(hello)) => hello,
            Err(error) => {
                self.refuse(ctx, error.alert(), TlsError::ClientHello(error));
                return Ok(());
            }
        };
        let Some(target) = self.routes.find(&hello) else {
            let name = hello.server_name().map(str::to_owned);
            let alert = AlertDescription::UnrecognisedName;
            self.refuse(ctx, alert, TlsError::UnrecognizedName { name });
            return Ok(());
        };
        self.reader = None;
        // Waits in the `FlowControl` until the server is connected.
        ctx.fire_read(hello.records().clone());
        if !bytes.is_empty() {
            ctx.fire_read(bytes);
        }
        connect_target(ctx, target, |_| Ok(()))
    }

    fn on_read_complete(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        if self.reader.is_some() {
            ctx.read();
        }
        ctx.fire_read_complete();
        Ok(())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        if self.reader.is_some() && event.get() == Some(&HalfClosed::Input) {
            ctx.close();
            return Ok(());
        }
        ctx.fire_user_event(event);
        Ok(())
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, _: u32) -> HandlerResult {
        if self.reader.take().is_some() {
            let limit = self.routes.hello_timeout;
            ctx.close_because(TlsError::HandshakeTimeout { limit }.into());
        }
        Ok(())
    }
}

fn parse() -> Result<(String, Routes), Box<dyn Error>> {
    let mut routes = Routes {
        by_name: ServerNameMap::new(),
        default: None,
        hello_limit: ClientHelloReader::DEFAULT_LIMIT,
        hello_timeout: Duration::from_secs(10),
    };
    let mut listen = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u32, Box<dyn Error>> {
            let value = args.next().ok_or_else(|| format!("{arg} needs a number; {USAGE}"))?;
            Ok(value.parse().map_err(|error| format!("{arg} {value}: {error}"))?)
        };
        match arg.as_str() {
            "--hello-limit" => routes.hello_limit = usize::try_from(number()?)?,
            "--hello-timeout" => routes.hello_timeout = Duration::from_secs(number()?.into()),
            _ if listen.is_none() => listen = Some(arg),
            _ => add_route(&mut routes, &arg)?,
        }
    }
    if routes.by_name.is_empty() && routes.default.is_none() {
        return Err(USAGE.into());
    }
    Ok((listen.ok_or(USAGE)?, routes))
}

fn add_route(routes: &mut Routes, route: &str) -> Result<(), Box<dyn Error>> {
    let (name, target) = route.split_once('=').ok_or_else(|| format!("{route}: {USAGE}"))?;
    let mut addresses = target.to_socket_addrs().map_err(|error| format!("{target}: {error}"))?;
    let address = addresses.next().ok_or_else(|| format!("{target} has no address"))?;
    let before = match name {
        "*" => routes.default.replace(address),
        _ => routes.by_name.insert(name, address)?,
    };
    match before {
        Some(_) => Err(format!("{name} is there twice").into()),
        None => Ok(()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (listen, routes) = parse()?;
    let routes = Arc::new(routes);
    let group = EventLoopGroup::builder(Auto).name("sni router").build()?;
    let server = ServerBootstrap::new(&group, Tcp)
        .child_options(ChannelOptions { auto_read: false, ..side_options() })
        .child_initialiser(move |edit| -> Result<(), executor::Error> {
            edit.add_last("route", Route::new(routes.clone()))?;
            edit.add_last("flow control", FlowControl::new())?;
            Ok(())
        })
        .bind(listen)
        .join()?;
    println!("listening on {}", server.local_address().ok_or("the server is not bound")?);
    Ok(server.closed().join()?)
}
