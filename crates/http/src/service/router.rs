//! `Router`: services by path and method.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use http::header::{ALLOW, HeaderValue};
use http::{Method, StatusCode, Uri};

use super::into_response::IntoResponse;
use super::path_params::PathParams;
use super::request::Request;
use super::route_calls::ErasedService;
use super::route_pattern::{
    InvalidRoute, PathParameter, RoutePattern, check_method, join_patterns,
};
use super::route_tree::RouteTree;
use super::service::{Response, Service};

/// A service that passes requests to other services, by path and method.
///
/// A pattern is a list of segments: text, `{name}` for one segment that is not empty, or `{*name}` for the rest of the
/// path, which may be empty. Where several patterns match, text takes precedence over `{name}`, and that over `{*name}`,
/// at the first segment where they differ; the order of registration does not matter.
///
/// | request | answer |
/// |---|---|
/// | a path that no route has | the fallback, or 404 |
/// | a path that only other methods have | 405 with `Allow` |
/// | HEAD without a route of its own | the route of GET: the server leaves the body out |
/// | OPTIONS without a route of its own | 204 with `Allow` |
/// | `OPTIONS *` | 204 with the methods of all routes in `Allow` |
/// | CONNECT, which has no path | the fallback, or 405 |
/// | a parameter that is not UTF-8, or with an incomplete escape | 400 |
///
/// The path decides before the method: a request whose path matches `/users/me` never gets to `/users/{id}`.
///
/// Paths are compared byte by byte, without normalisation: `//`, `.` and `..` are segments like others, `%61` is not
/// `a`, and `/a/` is not `/a`. A router that saw other paths than the proxy in front of it would be a way around the
/// rules of that proxy. Parameters alone are decoded, when they are read ([`PathParams`]).
///
/// A router belongs to one loop: it is neither `Clone` nor `Send`, and a server gets one for each loop by
/// [`HttpServer::per_loop`](crate::HttpServer::per_loop).
///
/// A request allocates for its route only if the pattern has parameters (three times, for the extensions of the request),
/// or if the route has no memory left of finished calls, of which it keeps up to 64.
///
/// ```
/// use waterwheel_http::{InvalidRoute, Request, Router};
///
/// async fn show(request: Request) -> String {
///     format!("user {}", request.path_param("id").unwrap_or_default())
/// }
///
/// fn routes() -> Result<Router, InvalidRoute> {
///     Router::builder()
///         .get("/users/{id}", show)
///         .post("/users", async |_: Request| "created")
///         .build()
/// }
/// # assert!(routes().is_ok());
/// ```
pub struct Router {
    tree: RouteTree<RouteMethods>,
    fallback: Option<ErasedService>,
    /// The methods of all routes.
    allow: HeaderValue,
}

/// The routes of one place in the tree.
#[derive(Default)]
struct RouteMethods {
    routes: Vec<(Method, Route)>,
    any: Option<Route>,
    allow: Option<HeaderValue>,
}

/// A service, and the parameters of its pattern.
struct Route {
    pattern: String,
    service: ErasedService,
    parameters: Option<Arc<[PathParameter]>>,
}

/// A request that has no route.
enum NoRoute<'a> {
    /// Answered in place of a route.
    Options(&'a HeaderValue),
    Method(&'a HeaderValue),
    Path,
}

impl Router {
    /// Returns a builder without routes.
    pub fn builder() -> RouterBuilder {
        RouterBuilder { routes: Vec::new(), fallback: None, error: None }
    }

    fn find(&self, method: &Method, uri: &Uri) -> Result<&Route, NoRoute<'_>> {
        match (uri.path(), &self.fallback) {
            ("*", _) => return Err(NoRoute::Options(&self.allow)),
            _ if *method != Method::CONNECT => {}
            (_, Some(_)) => return Err(NoRoute::Path),
            (_, None) => return Err(NoRoute::Method(&self.allow)),
        }
        let methods = self.tree.find(uri.path()).ok_or(NoRoute::Path)?;
        let route = methods.find(method).or_else(|| {
            let is_head = *method == Method::HEAD;
            is_head.then(|| methods.find(&Method::GET)).flatten()
        });
        let allow = methods.allow.as_ref().unwrap_or(&self.allow);
        route.or(methods.any.as_ref()).ok_or(match *method {
            Method::OPTIONS => NoRoute::Options(allow),
            _ => NoRoute::Method(allow),
        })
    }
}

impl Service for Router {
    async fn call(&self, mut request: Request) -> Response {
        let route = match self.find(request.method(), request.uri()) {
            Ok(route) => route,
            Err(NoRoute::Options(allow)) => return with_allow(StatusCode::NO_CONTENT, allow),
            Err(NoRoute::Method(allow)) => {
                return with_allow(StatusCode::METHOD_NOT_ALLOWED, allow);
            }
            Err(NoRoute::Path) => {
                return match &self.fallback {
                    Some(fallback) => fallback.call(request).await,
                    None => StatusCode::NOT_FOUND.into_response(),
                };
            }
        };
        if let (Some(parameters), Some(path)) = (&route.parameters, request.uri().path_and_query())
        {
            let Some(parameters) = PathParams::new(parameters.clone(), path.clone()) else {
                return StatusCode::BAD_REQUEST.into_response();
            };
            request.extensions_mut().insert(parameters);
        }
        route.service.call(request).await
    }
}

fn with_allow(status: StatusCode, allow: &HeaderValue) -> Response {
    let mut response = match status {
        StatusCode::NO_CONTENT => Response::default(),
        _ => status.into_response(),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(ALLOW, allow.clone());
    response
}

impl RouteMethods {
    fn find(&self, method: &Method) -> Option<&Route> {
        self.routes.iter().find(|(own, _)| own == method).map(|(_, route)| route)
    }

    /// Returns the route that has the place of a new one.
    fn conflict(&self, method: Option<&Method>) -> Option<&Route> {
        match method {
            Some(method) => self.find(method),
            None => self.any.as_ref(),
        }
    }

    fn insert(&mut self, method: Option<Method>, route: Route) {
        match method {
            Some(method) => self.routes.push((method, route)),
            None => self.any = Some(route),
        }
    }
}

/// Returns the value of `Allow` for routes of these methods: sorted, with the methods that the router answers by itself.
fn allow_value<'a>(methods: impl Iterator<Item = &'a str>) -> HeaderValue {
    let mut names: BTreeSet<_> = methods.chain([Method::OPTIONS.as_str()]).collect();
    if names.contains(Method::GET.as_str()) {
        names.insert(Method::HEAD.as_str());
    }
    let names = Vec::from_iter(names).join(", ");
    HeaderValue::from_str(&names).expect("names of methods are tokens")
}

/// Builds a [`Router`]. What is wrong with a route is the error of [`build`](Self::build), the first mistake first.
#[must_use = "a builder does nothing until it is built"]
pub struct RouterBuilder {
    routes: Vec<NewRoute>,
    fallback: Option<ErasedService>,
    error: Option<InvalidRoute>,
}

struct NewRoute {
    /// The method; `None` for any.
    method: Option<Method>,
    pattern: String,
    service: ErasedService,
}

impl RouterBuilder {
    /// Adds a route for GET, and for HEAD unless it has a route of its own.
    pub fn get(self, pattern: &str, service: impl Service) -> Self {
        self.route(Method::GET, pattern, service)
    }

    /// Adds a route for POST.
    pub fn post(self, pattern: &str, service: impl Service) -> Self {
        self.route(Method::POST, pattern, service)
    }

    /// Adds a route for PUT.
    pub fn put(self, pattern: &str, service: impl Service) -> Self {
        self.route(Method::PUT, pattern, service)
    }

    /// Adds a route for PATCH.
    pub fn patch(self, pattern: &str, service: impl Service) -> Self {
        self.route(Method::PATCH, pattern, service)
    }

    /// Adds a route for DELETE.
    pub fn delete(self, pattern: &str, service: impl Service) -> Self {
        self.route(Method::DELETE, pattern, service)
    }

    /// Adds a route for a method.
    pub fn route(mut self, method: Method, pattern: &str, service: impl Service) -> Self {
        match check_method(&method, pattern) {
            Ok(()) => self.add(Some(method), pattern, ErasedService::new(service)),
            Err(error) => self.fail(error),
        }
        self
    }

    /// Adds a route for every method that has no route of its own at this pattern: for services that look at the method
    /// themselves, such as files or a proxy.
    pub fn any(mut self, pattern: &str, service: impl Service) -> Self {
        self.add(None, pattern, ErasedService::new(service));
        self
    }

    /// Adds the routes of another router, with `prefix` before their patterns. The prefix may have parameters. The
    /// empty pattern of the other router is the prefix alone; its `/` is the prefix with a slash.
    ///
    /// ```
    /// use waterwheel_http::{InvalidRoute, Request, Router};
    ///
    /// let users = Router::builder()
    ///     .get("", async |_: Request| "all users")
    ///     .get("/{id}", async |_: Request| "one user");
    /// let router = Router::builder().nest("/api/users", users).build()?;
    /// # drop(router);
    /// # Ok::<(), InvalidRoute>(())
    /// ```
    pub fn nest(mut self, prefix: &str, router: RouterBuilder) -> Self {
        if let Some(error) = router.error {
            self.fail(error);
        }
        if router.fallback.is_some() {
            self.fail(InvalidRoute::NestedFallback { prefix: prefix.to_owned() });
        }
        for route in router.routes {
            match join_patterns(prefix, &route.pattern) {
                Ok(pattern) => self.add(route.method, &pattern, route.service),
                Err(error) => self.fail(error),
            }
        }
        self
    }

    /// Sets the service of requests whose path no route has.
    pub fn fallback(mut self, service: impl Service) -> Self {
        if self.fallback.is_some() {
            self.fail(InvalidRoute::SecondFallback);
        }
        self.fallback = Some(ErasedService::new(service));
        self
    }

    /// Builds the router.
    ///
    /// # Errors
    /// A pattern is not valid, or two routes have the same method and match the same paths.
    pub fn build(self) -> Result<Router, InvalidRoute> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut tree = RouteTree::<RouteMethods>::new();
        let mut all = BTreeSet::new();
        for NewRoute { method, pattern, service } in self.routes {
            let RoutePattern { parts, parameters } = RoutePattern::parse(&pattern)?;
            let methods = tree.place(&parts).get_or_insert_default();
            if let Some(other) = methods.conflict(method.as_ref()) {
                let method = method.map_or_else(|| "any".to_owned(), |method| method.to_string());
                return Err(InvalidRoute::Conflict {
                    method,
                    pattern,
                    other: other.pattern.clone(),
                });
            }
            all.extend(method.as_ref().map(Method::to_string));
            methods.insert(method, Route { pattern, service, parameters });
        }
        for methods in tree.values_mut() {
            methods.allow =
                Some(allow_value(methods.routes.iter().map(|(method, _)| method.as_str())));
        }
        let allow = allow_value(all.iter().map(String::as_str));
        Ok(Router { tree, fallback: self.fallback, allow })
    }

    fn add(&mut self, method: Option<Method>, pattern: &str, service: ErasedService) {
        self.routes.push(NewRoute { method, pattern: pattern.to_owned(), service });
    }

    /// Keeps the first error.
    fn fail(&mut self, error: InvalidRoute) {
        self.error.get_or_insert(error);
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("allow", &self.allow).finish_non_exhaustive()
    }
}

impl fmt::Debug for RouterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = self.routes.iter().map(|route| &route.pattern);
        f.debug_list().entries(patterns).finish()
    }
}
