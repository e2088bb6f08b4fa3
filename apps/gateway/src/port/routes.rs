//! The routes of HTTP: the page, what is for operators, and the protocols of clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use waterwheel::http::{
    Body, IntoResponse, InvalidRoute, Request, Response, Router, RouterBuilder,
};

use crate::metrics::collector::MetricsCollector;
use crate::metrics::health::{HEALTHY, ReadinessAnswer, readiness};
use crate::metrics::prometheus;
use crate::page::assets;
use crate::page::live::LiveView;
use crate::protocols::ProtocolOptions;
use crate::protocols::http::{add_routes, refuse_others};
use crate::session::core::GatewayCore;

/// The parts that answer requests. Shared by the routes of all loops.
#[derive(Debug)]
pub struct RouteParts {
    /// The core of the gateway.
    pub core: Arc<GatewayCore>,
    /// The options of the protocols of clients.
    pub protocols: ProtocolOptions,
    /// The stream of snapshots for pages.
    pub live: Arc<LiveView>,
    /// The figures of `/metrics`.
    pub metrics: MetricsCollector,
    /// True if `/metrics` is answered without a credential.
    pub has_open_metrics: bool,
    /// True from the beginning of the notice before a drain.
    pub is_leaving: AtomicBool,
}

/// Builds the router of a loop.
///
/// # Errors
/// Two routes are the same.
pub fn build_router(parts: &Arc<RouteParts>) -> Result<Router, InvalidRoute> {
    let router = assets::add_routes(Router::builder());
    let router = add_operator_routes(router, parts);
    add_routes(router, &parts.core, &parts.protocols).build()
}

fn add_operator_routes(router: RouterBuilder, parts: &Arc<RouteParts>) -> RouterBuilder {
    let [live, metrics, ready] = [parts.clone(), parts.clone(), parts.clone()];
    router
        .get("/api/live", async move |request: Request| live.stream_snapshots(&request))
        .get("/metrics", async move |request: Request| metrics.show_metrics(&request))
        .get("/healthz", async |_: Request| plain_text(StatusCode::OK, HEALTHY))
        .get("/readyz", async move |_: Request| ready.show_readiness())
}

impl RouteParts {
    fn stream_snapshots(&self, request: &Request) -> Response {
        if let Some(refusal) = refuse_others(&self.core, &self.protocols, request) {
            return refusal;
        }
        match self.live.open() {
            Ok(stream) => stream.into_response(),
            Err(why) => {
                let mut response = plain_text(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
                response
            }
        }
    }

    fn show_metrics(&self, request: &Request) -> Response {
        if !self.has_open_metrics
            && let Some(refusal) = refuse_others(&self.core, &self.protocols, request)
        {
            return refusal;
        }
        let mut response = Response::new(Body::from(self.metrics.text()));
        let content_type = HeaderValue::from_static(prometheus::CONTENT_TYPE);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        response
    }

    fn show_readiness(&self) -> Response {
        let is_draining = self.core.is_draining() || self.is_leaving.load(Ordering::Relaxed);
        let ReadinessAnswer { status, body } = readiness(is_draining, &self.core.engine().status());
        plain_text(StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE), body)
    }
}

fn plain_text(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
