//! Collects the figures of a running gateway for `/metrics`.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use waterwheel::channel::EventLoopGroup;
use waterwheel::http::HttpServer;

use super::exporter::{GatewayFigures, MetricsExporter};
use super::process::{ProcessFigures, unix_time};
use crate::log::gateway_log::GatewayLog;
use crate::port::tls::tls_port::TlsPort;
use crate::session::core::GatewayCore;

/// Collects the figures of a gateway. Any thread may ask.
pub struct MetricsCollector {
    loops: EventLoopGroup,
    core: Arc<GatewayCore>,
    log: GatewayLog,
    tls: Option<Arc<TlsPort>>,
    /// The server that answers `/metrics`, among others: weak, because it owns the collector.
    http: OnceLock<Weak<HttpServer>>,
    started_at: Duration,
    exporter: MetricsExporter,
}

impl MetricsCollector {
    /// Creates the collector of a gateway that starts now.
    #[must_use]
    pub fn new(
        loops: &EventLoopGroup,
        core: &Arc<GatewayCore>,
        log: &GatewayLog,
        tls: Option<&Arc<TlsPort>>,
    ) -> Self {
        Self {
            loops: loops.without_lease(),
            core: core.clone(),
            log: log.clone(),
            tls: tls.cloned(),
            http: OnceLock::new(),
            started_at: unix_time(),
            exporter: MetricsExporter::default(),
        }
    }

    /// Sets the server whose requests are counted. Later calls change nothing.
    pub fn watch_http(&self, server: &Arc<HttpServer>) {
        let _ = self.http.set(Arc::downgrade(server));
    }

    /// Returns the text of `/metrics`.
    #[must_use]
    pub fn text(&self) -> String {
        let http = self.http.get().and_then(Weak::upgrade);
        let loops = self.loops.children();
        let engine = self.core.engine();
        self.exporter.render(&GatewayFigures {
            version: env!("CARGO_PKG_VERSION"),
            started_at: self.started_at,
            is_draining: self.core.is_draining(),
            loops: loops.map(|each| (each.name().to_owned(), each.metrics())).collect(),
            counts: self.core.counters().counts(),
            engine_name: engine.name(),
            engine: engine.status(),
            http: http.map(|server| server.metrics()).unwrap_or_default(),
            handshakes: self.tls.as_ref().map(|tls| {
                let counts = tls.handshakes();
                (counts.done, counts.failed)
            }),
            log: self.log.counts().to_vec(),
            process: ProcessFigures::read(),
        })
    }
}

impl fmt::Debug for MetricsCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsCollector").field("core", &self.core).finish_non_exhaustive()
    }
}
