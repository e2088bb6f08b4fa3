//! The routes of HTTP: WebSocket, server-sent events and single requests.

use std::sync::Arc;

use http::Method;
use waterwheel::http::{Request, Response, RouterBuilder};

use super::events::EventsRoute;
use super::http_api::HttpApi;
use super::http_api::answers::{error_response, preflight_response, share_with};
use super::http_api::request::RequestFacts;
use super::options::ProtocolOptions;
use super::origin::check_origin;
use super::websocket::WebSocketRoute;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::core::GatewayCore;

/// Adds `/ws`, `/events`, `/api/publish`, `/api/history`, `/api/presence`, `/api/topics` and `/topics/{topic}` to a router.
/// Called for each loop.
pub fn add_routes(
    router: RouterBuilder,
    core: &Arc<GatewayCore>,
    options: &ProtocolOptions,
) -> RouterBuilder {
    let options = Arc::new(options.clone());
    let websocket = WebSocketRoute::new(core, &options);
    let router = router.get("/ws", async move |request: Request| websocket.open(&request));
    let shared = SharedRoutes { router, core: core.clone(), options: options.clone() };
    let (events, api) = (EventsRoute::new(core, &options), HttpApi::new(core));
    let [history, presence, topics, publish, body] = std::array::from_fn(|_| api.clone());
    shared
        .add(Method::GET, "/events", async move |request| events.open(request).await)
        .add(Method::GET, "/api/history", async move |request| history.history(request).await)
        .add(Method::GET, "/api/presence", async move |request| presence.presence(request).await)
        .add(Method::GET, "/api/topics", async move |request| topics.topics(request).await)
        .add(Method::POST, "/api/publish", async move |request| publish.publish(request).await)
        .add(Method::POST, "/topics/{topic}", async move |request| body.publish_body(request).await)
        .router
}

/// Returns the answer to a request for what operators see: a refusal, unless the client is an admin and no page of another host
/// asks.
pub(crate) fn refuse_others(
    core: &Arc<GatewayCore>,
    options: &ProtocolOptions,
    request: &Request,
) -> Option<Response> {
    let check = || {
        check_origin(request, &options.allowed_origins)?;
        let facts = RequestFacts::of(request);
        let requester = core.authenticate(facts.credential()?, facts.peer())?;
        match requester.identity.permissions.is_admin {
            true => Ok(()),
            false => {
                let message =
                    "this is for operators: it needs the admin key, or a token of an admin";
                Err(GatewayError::new(ErrorCode::NotPermitted, message))
            }
        }
    };
    check().err().map(|error| refusal(core, &error))
}

/// Counts a refusal, and returns its answer.
pub(crate) fn refusal(core: &GatewayCore, error: &GatewayError) -> Response {
    core.counters().on_this_loop().count_refusal(error.code);
    error_response(error)
}

/// Routes that pages of listed origins may use.
struct SharedRoutes {
    router: RouterBuilder,
    core: Arc<GatewayCore>,
    options: Arc<ProtocolOptions>,
}

impl SharedRoutes {
    /// Adds a route, and the answer to the question of browsers whether a page may use it.
    fn add(
        self,
        method: Method,
        pattern: &str,
        service: impl AsyncFn(Request) -> Response + 'static,
    ) -> Self {
        let methods = if method == Method::GET { "GET" } else { "POST" };
        let Self { router, core, options } = self;
        let refusals = core.clone();
        let refuse = move |error: &GatewayError| refusal(&refusals, error);
        let (refuse_preflight, allowed) = (refuse.clone(), options.clone());
        let router =
            router.route(
                Method::OPTIONS,
                pattern,
                async move |request: Request| match check_origin(&request, &allowed.allowed_origins)
                {
                    Ok(origin) => preflight_response(&origin, methods),
                    Err(error) => refuse_preflight(&error),
                },
            );
        let allowed = options.clone();
        let router =
            router.route(method, pattern, async move |request: Request| {
                match check_origin(&request, &allowed.allowed_origins) {
                    Ok(origin) => {
                        let mut response = service(request).await;
                        share_with(&origin, &mut response);
                        response
                    }
                    Err(error) => refuse(&error),
                }
            });
        Self { router, core, options }
    }
}
