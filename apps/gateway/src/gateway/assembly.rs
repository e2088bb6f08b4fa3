//! Makes the parts of a gateway from its settings.

use std::net::IpAddr;
use std::sync::Arc;

use waterwheel::channel::{Channel, EventLoopGroup, ServerBootstrap};
use waterwheel::executor::{Fault, Report, Reporter, SlowWork, Watchdog};
use waterwheel::http::{HttpServer, MessageLimits};
use waterwheel::net::Auto;

use super::start_error::GatewayStartError;
use crate::access::config::Exposure;
use crate::access::control::AccessControl;
use crate::config::settings::{GatewaySettings, TlsSettings};
use crate::engine::memory::MemoryEngine;
use crate::engine::open::{EngineOpenError, check_engine, open_engine};
use crate::engine::{Engine, EngineSink};
use crate::log::gateway_log::GatewayLog;
use crate::metrics::counters::GatewayCounters;
use crate::page::slow_log::SlowLog;
use crate::port::host_guard::HostGuard;
use crate::port::listening_socket::ListeningSocket;
use crate::port::options::PortOptions;
use crate::port::routes::{RouteParts, build_router};
use crate::port::tls::tls_port::{TlsFiles, TlsPort};
use crate::session::core::{CoreError, CoreParts, GatewayCore};

/// The parts that need files or checks, and no thread.
pub(super) struct CheckedParts {
    pub(super) access: Arc<AccessControl>,
    pub(super) tls: Option<Arc<TlsPort>>,
}

impl CheckedParts {
    pub(super) fn load(
        settings: &GatewaySettings,
        addresses: impl Iterator<Item = IpAddr>,
        log: &GatewayLog,
    ) -> Result<Self, GatewayStartError> {
        let tls = load_tls(settings, log)?;
        let access = load_access(settings, addresses, log)?;
        Ok(Self { access, tls })
    }

    /// Makes the core, with the engine of the settings. One with a server begins to connect.
    pub(super) fn make_core(
        &self,
        settings: &GatewaySettings,
        loops: &EventLoopGroup,
    ) -> Result<Arc<GatewayCore>, CoreError> {
        self.make_core_with(settings, |sink| {
            let timeout = settings.limits.engine_timeout;
            open_engine(&settings.engine, settings.history, timeout, loops, sink)
        })
    }

    /// Checks what making the core needs, without an engine that connects.
    pub(super) fn check_core(&self, settings: &GatewaySettings) -> Result<(), CoreError> {
        check_engine(&settings.engine)?;
        let in_memory = |sink| -> Result<Arc<dyn Engine>, _> {
            Ok(Arc::new(MemoryEngine::new(settings.history, sink)))
        };
        self.make_core_with(settings, in_memory).map(drop)
    }

    fn make_core_with(
        &self,
        settings: &GatewaySettings,
        open: impl FnOnce(Arc<dyn EngineSink>) -> Result<Arc<dyn Engine>, EngineOpenError>,
    ) -> Result<Arc<GatewayCore>, CoreError> {
        let parts = CoreParts {
            access: self.access.clone(),
            counters: Arc::new(GatewayCounters::default()),
            limits: settings.limits,
        };
        GatewayCore::new(parts, open)
    }
}

/// Reads the files of TLS; `None` if the port speaks plain text.
pub(super) fn load_tls(
    settings: &GatewaySettings,
    log: &GatewayLog,
) -> Result<Option<Arc<TlsPort>>, GatewayStartError> {
    let reporter: Arc<dyn Reporter> = Arc::new(log.clone());
    let Some(files) = tls_files(&settings.tls) else { return Ok(None) };
    Ok(Some(Arc::new(TlsPort::load(files, &reporter)?)))
}

/// Reads the keys. Clients of a trusted proxy come from anywhere, wherever the gateway listens.
pub(super) fn load_access(
    settings: &GatewaySettings,
    addresses: impl Iterator<Item = IpAddr>,
    log: &GatewayLog,
) -> Result<Arc<AccessControl>, GatewayStartError> {
    let reporter: Arc<dyn Reporter> = Arc::new(log.clone());
    let exposure = match settings.port_options.trusted_proxies.is_empty() {
        true => Exposure::of(addresses),
        false => Exposure::Network,
    };
    Ok(Arc::new(AccessControl::new(&settings.access, exposure, &reporter)?))
}

/// Starts the loops. The watchdog notes slow work for the page, and reports it.
pub(super) fn start_loops(
    settings: &GatewaySettings,
    slow: &Arc<SlowLog>,
    log: &GatewayLog,
) -> Result<EventLoopGroup, GatewayStartError> {
    let reporter: Arc<dyn Reporter> = Arc::new(log.clone());
    let mut loops = EventLoopGroup::builder(Auto)
        .threads(settings.loop_count())
        .name("loop")
        .reporter(reporter.clone());
    if let Some(limit) = settings.watchdog {
        let slow = slow.clone();
        let note = move |work: &SlowWork| {
            slow.note(work);
            let fault = Fault::Slow(Box::new(work.clone()));
            reporter.report(&Report { executor: &work.executor, fault });
        };
        loops = loops.watchdog(&Watchdog::builder().limit(limit).on_slow(note).build()?);
    }
    Ok(loops.build()?)
}

/// Makes the server of HTTP, with a router for each loop.
pub(super) fn http_server(
    options: &Arc<PortOptions>,
    parts: &Arc<RouteParts>,
    has_tls: bool,
) -> Result<HttpServer, GatewayStartError> {
    // Two routes that are the same fail here, and not at the first connection of a loop.
    build_router(parts)?;
    let (parts, guarded) = (parts.clone(), options.clone());
    let router = move || {
        let router = build_router(&parts);
        let router = router.unwrap_or_else(|_| unreachable!("it was built before"));
        HostGuard::new(router, &parts.core, &guarded, has_tls)
    };
    let server = HttpServer::per_loop(router)
        .limits(MessageLimits::default().max_head_bytes(options.head_bytes))
        .head_timeout(options.head_timeout)
        .idle_timeout(options.idle_timeout)
        .stall_timeout(options.stall_timeout)
        .max_pipelined(options.pipelined);
    Ok(server.build()?)
}

/// Begins to accept connections of a socket.
pub(super) fn listen(
    bootstrap: &ServerBootstrap,
    socket: &ListeningSocket,
) -> Result<Channel, GatewayStartError> {
    let transport = socket
        .transport()
        .map_err(|cause| GatewayStartError::Listen { address: socket.to_string(), cause })?;
    bootstrap.listen_on(transport).join().map_err(GatewayStartError::Server)
}

fn tls_files(settings: &TlsSettings) -> Option<TlsFiles> {
    // The rules of the configuration have checked that there is none of them, or both.
    let (certificate, key) = (settings.certificate.clone()?, settings.key.clone()?);
    Some(TlsFiles { certificate, key, client_ca: settings.client_ca.clone() })
}
