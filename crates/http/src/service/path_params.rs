//! The parameters of a route in the path of a request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::uri::PathAndQuery;

use super::percent::decode_path;
use super::request::Request;
use super::route_pattern::PathParameter;

/// The values of the parameters of the route that was found, in the extensions of the request. Values are decoded when
/// they are read: they may have any character, a slash (`%2F`) and NUL too.
///
/// ```
/// use waterwheel_http::{PathParams, Request};
///
/// async fn show(request: Request) -> String {
///     let Some(parameters) = request.extensions().get::<PathParams>() else {
///         return "a route without parameters".into();
///     };
///     parameters.iter().map(|(name, value)| format!("{name} is {value}\n")).collect()
/// }
/// # drop(show);
/// ```
#[derive(Clone)]
pub struct PathParams {
    parameters: Arc<[PathParameter]>,
    path: PathAndQuery,
}

impl PathParams {
    /// Returns `None` if a value cannot be decoded: an escape is incomplete, or the value is not UTF-8.
    pub(super) fn new(parameters: Arc<[PathParameter]>, path: PathAndQuery) -> Option<Self> {
        let found = Self { parameters, path };
        found.parameters.iter().all(|parameter| found.value(parameter).is_some()).then_some(found)
    }

    /// Returns the value of the parameter `name`; `None` if the route has no such parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let parameter = self.parameters.iter().find(|parameter| *parameter.name == *name)?;
        self.value(parameter)
    }

    /// Iterates over the names and values, in the order of the pattern.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        self.parameters
            .iter()
            .filter_map(|parameter| Some((&*parameter.name, self.value(parameter)?)))
    }

    /// Returns the rest of the path that the last parameter takes, if that is a tail (`{*name}`): still encoded, from the
    /// slash before it on. `None` also for a tail without that slash.
    pub(crate) fn encoded_tail(&self) -> Option<&str> {
        let parameter = self.parameters.last().filter(|parameter| parameter.is_tail)?;
        let mut rest = self.path.path();
        for _ in 0..parameter.segment {
            let begin = rest.strip_prefix('/')?;
            rest = &begin[begin.find('/')?..];
        }
        Some(rest)
    }

    fn value(&self, parameter: &PathParameter) -> Option<Cow<'_, str>> {
        let mut rest = self.path.path().strip_prefix('/')?;
        for _ in 0..parameter.segment {
            rest = rest.split_once('/')?.1;
        }
        if !parameter.is_tail {
            rest = rest.split_once('/').map_or(rest, |(segment, _)| segment);
        }
        decode_path(rest)
    }
}

impl fmt::Debug for PathParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Request {
    /// Returns the value of a parameter of the route, decoded; `None` if the route has no such parameter.
    ///
    /// ```
    /// use waterwheel_http::Request;
    ///
    /// async fn show(request: Request) -> String {
    ///     let id = request.path_param("id").unwrap_or_default();
    ///     format!("user {id}")
    /// }
    /// # drop(show);
    /// ```
    #[must_use]
    pub fn path_param(&self, name: &str) -> Option<Cow<'_, str>> {
        self.extensions().get::<PathParams>()?.get(name)
    }
}
