//! Assembles the gateway (event loops, core, engine, port) and drains it.

mod assembly;
mod start_error;

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use waterwheel::channel::{
    Channel, DrainOptions, Drained, EventLoopGroup, ServerBootstrap, sleep, timeout,
};
use waterwheel::executor::{Clock, Error};
use waterwheel::net::Tcp;

pub use self::start_error::GatewayStartError;

use self::assembly::{CheckedParts, http_server, listen, load_access, load_tls, start_loops};
use crate::config::settings::GatewaySettings;
use crate::demo;
use crate::log::gateway_log::GatewayLog;
use crate::metrics::collector::MetricsCollector;
use crate::page::gateway_source::GatewaySource;
use crate::page::live::LiveView;
use crate::page::slow_log::SlowLog;
use crate::port::admission::PortAdmission;
use crate::port::detection::{ConnectionPipeline, PortProtocols};
use crate::port::listening_socket::ListeningSocket;
use crate::port::routes::RouteParts;
use crate::port::tls::tls_port::TlsPort;
use crate::protocols::lines::LineProtocol;
use crate::session::core::GatewayCore;

/// How long connections are served as usual after the last one was accepted: the first request of a client comes with its
/// connection, or a few round trips later.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Time limit for the threads to end after everything is delivered.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    loops: EventLoopGroup,
    servers: Vec<Channel>,
    sockets: Vec<ListeningSocket>,
    parts: Arc<RouteParts>,
    admission: PortAdmission,
    tls: Option<Arc<TlsPort>>,
    log: GatewayLog,
    drain: Duration,
    drain_notice: Duration,
}

impl Gateway {
    /// Binds the address of the settings.
    ///
    /// # Errors
    /// [`GatewayStartError::Listen`].
    pub fn bind(settings: &GatewaySettings) -> Result<ListeningSocket, GatewayStartError> {
        let GatewaySettings { bind, port, .. } = settings;
        ListeningSocket::bind(bind, *port)
            .map_err(|cause| GatewayStartError::Listen { address: format!("{bind}:{port}"), cause })
    }

    /// Checks what the settings name, and listens at no address.
    ///
    /// # Errors
    /// All problems.
    pub fn check(
        settings: &GatewaySettings,
        log: &GatewayLog,
    ) -> Result<(), Vec<GatewayStartError>> {
        let addresses = (settings.bind.as_str(), settings.port).to_socket_addrs();
        let addresses = addresses
            .map_err(|cause| GatewayStartError::Listen { address: settings.bind.clone(), cause });
        let tls = load_tls(settings, log);
        let core = addresses.and_then(|addresses| {
            let access = load_access(settings, addresses.map(|address| address.ip()), log)?;
            Ok(CheckedParts { access, tls: None }.check_core(settings)?)
        });
        let problems: Vec<_> = [tls.err(), core.err()].into_iter().flatten().collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Starts a gateway on these sockets. What no client sees goes to the log.
    ///
    /// # Errors
    /// A file or a key is not usable, the configuration is invalid, or a thread cannot be started.
    pub fn start(
        settings: &GatewaySettings,
        sockets: Vec<ListeningSocket>,
        log: &GatewayLog,
    ) -> Result<Self, GatewayStartError> {
        let addresses = sockets.iter().filter_map(ListeningSocket::address);
        let checked = CheckedParts::load(settings, addresses.map(|address| address.ip()), log)?;
        let slow = Arc::new(SlowLog::default());
        let loops = start_loops(settings, &slow, log)?;
        let core = checked.make_core(settings, &loops)?;
        let source = GatewaySource::new(core.clone(), slow, settings.watchdog);
        let options = Arc::new(settings.port_options.clone());
        let parts = Arc::new(RouteParts {
            core: core.clone(),
            protocols: settings.protocols.clone(),
            live: LiveView::new(&loops, Arc::new(source)),
            metrics: MetricsCollector::new(&loops, &core, log, checked.tls.as_ref()),
            has_open_metrics: options.has_open_metrics,
            is_leaving: false.into(),
        });
        let http = Arc::new(http_server(&options, &parts, checked.tls.is_some())?);
        parts.metrics.watch_http(&http);
        let lines = LineProtocol::new(&core, &settings.protocols);
        let protocols = PortProtocols { http, lines };
        let pipeline = ConnectionPipeline::new(&options, &protocols, checked.tls.as_ref())
            .map_err(GatewayStartError::Port)?;
        let admission = PortAdmission::new(&options);
        let bootstrap = ServerBootstrap::new(&loops, Tcp)
            // A client that has shut down its output still gets its answers.
            .child_allow_half_closure(true)
            .accept_guards(&admission.guards)
            .connection_limit(&admission.all)
            .child_initialiser(move |edit| pipeline.add_handlers(edit));
        let servers = sockets.iter().map(|socket| listen(&bootstrap, socket));
        let servers = servers.collect::<Result<_, _>>()?;
        if settings.demo {
            demo::start(&core, &loops, settings.watchdog);
        }
        Ok(Self {
            loops,
            servers,
            sockets,
            parts,
            admission,
            tls: checked.tls,
            log: log.clone(),
            drain: settings.drain,
            drain_notice: settings.drain_notice,
        })
    }

    /// Returns the sockets on which the gateway listens.
    #[must_use]
    pub fn sockets(&self) -> &[ListeningSocket] {
        &self.sockets
    }

    /// Returns the first address on which the gateway listens.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.sockets.iter().find_map(ListeningSocket::address)
    }

    /// Returns the event loops.
    #[must_use]
    pub fn loops(&self) -> &EventLoopGroup {
        &self.loops
    }

    /// Returns the core: clients, engine, permissions, counters.
    #[must_use]
    pub fn core(&self) -> &Arc<GatewayCore> {
        &self.parts.core
    }

    /// Returns the limits of connections.
    #[must_use]
    pub fn admission(&self) -> &PortAdmission {
        &self.admission
    }

    /// Returns TLS on the port; `None` if the port speaks plain text.
    #[must_use]
    pub fn tls(&self) -> Option<&Arc<TlsPort>> {
        self.tls.as_ref()
    }

    /// Applies what may change while the gateway runs: permissions, keys of tokens, files of TLS, the log. A part that is not
    /// usable stays as it was; the others are applied.
    ///
    /// # Errors
    /// What stays as it was, and why.
    pub fn reload(&self, settings: &GatewaySettings) -> Result<(), Vec<GatewayStartError>> {
        self.log.set(settings.log);
        let access = self.core().access().reload(&settings.access).map_err(Into::into);
        let tls = self.tls.as_ref().map_or(Ok(()), |tls| tls.reload()).map_err(Into::into);
        let problems: Vec<_> =
            [access, tls].into_iter().filter_map(Result::<(), GatewayStartError>::err).collect();
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Stops accepting, because another process has the sockets, and waits until connections that were accepted at the last
    /// moment have said what they want.
    ///
    /// # Errors
    /// An event loop has died.
    pub fn stop_accepting(&self) -> Result<(), Error> {
        for server in &self.servers {
            server.close().join()?;
        }
        self.on_a_loop(sleep(SETTLE_TIME))
    }

    /// Makes `/readyz` answer 503 and waits for the time of the notice, in which everything else goes on.
    ///
    /// # Errors
    /// An event loop has died.
    pub fn give_notice(&self) -> Result<(), Error> {
        self.parts.is_leaving.store(true, Ordering::Relaxed);
        match self.drain_notice {
            Duration::ZERO => Ok(()),
            notice => self.on_a_loop(async move { sleep(notice).await }),
        }
    }

    /// Ends the gateway and waits for the end: refuses new commands, delivers what was acknowledged, tells the clients that it
    /// closes, and shuts down every thread.
    ///
    /// # Errors
    /// An event loop has died.
    pub fn drain(&self) -> Result<Drained, Error> {
        let began = Clock::Monotonic.now();
        self.parts.is_leaving.store(true, Ordering::Relaxed);
        let (core, limit) = (self.core().clone(), self.drain);
        // The end of commands and clients, then that of the engine, which has handed everything on by then.
        self.on_a_loop(async move {
            let end = async {
                core.drain().await;
                let _ = core.engine().close().await;
            };
            let _ = timeout(limit, end).await;
        })?;
        self.parts.live.end();
        let options =
            DrainOptions::within(self.drain.saturating_sub(Clock::Monotonic.now().since(began)));
        let options = options.shutdown(Duration::ZERO, SHUTDOWN_LIMIT).map_err(Error::new)?;
        let drained = self.loops.drain(options).join()?;
        self.loops.termination().join()?;
        Ok(drained)
    }

    /// Runs a future on a loop and waits for its end.
    fn on_a_loop(&self, future: impl Future<Output = ()> + Send + 'static) -> Result<(), Error> {
        let spawned = self.loops.spawn(future);
        spawned.map_err(|rejected| Error::closed(rejected.to_string()))?.join()
    }
}
