//! Single requests of HTTP: publish, history, presence, topics.

pub(super) mod answers;
pub(super) mod request;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::value::RawValue;
use waterwheel::bytes::Bytes;
use waterwheel::http::{BodyError, IntoResponse, Request, Response};

use self::answers::{error_response, json_response};
use self::request::RequestFacts;
use super::json::commands::{elements, not_json};
use super::json::encoding::{reply_body, topics_body};
use super::json::{fields::invalid, items};
use crate::client_protocol::ClientProtocol;
use crate::engine::publication::PublicationPayload;
use crate::error_code::{ErrorCode, GatewayError};
use crate::session::command::PublishItem;
use crate::session::core::GatewayCore;
use crate::session::reply::GatewayReply;
use crate::session::requester::Requester;

/// Answers the requests of the API.
#[derive(Clone)]
pub(super) struct HttpApi {
    core: Arc<GatewayCore>,
}

/// Why a request is not answered as it asks.
enum ApiError {
    Gateway(GatewayError),
    /// The body has not come.
    Body(BodyError),
}

/// The answer of a method of the API: the body of status 200.
type ApiResult = Result<String, ApiError>;

impl HttpApi {
    pub(super) fn new(core: &Arc<GatewayCore>) -> Self {
        Self { core: core.clone() }
    }

    /// Answers `POST /api/publish`, whose body is an object or an array of objects.
    pub(super) async fn publish(&self, request: Request) -> Response {
        self.answer(self.try_publish(request).await)
    }

    /// Answers `POST /topics/{topic}`, which publishes the body as it is.
    pub(super) async fn publish_body(&self, request: Request) -> Response {
        self.answer(self.try_publish_body(request).await)
    }

    /// Answers `GET /api/history`.
    pub(super) async fn history(&self, request: Request) -> Response {
        self.answer(self.try_history(&request).await)
    }

    /// Answers `GET /api/presence`.
    pub(super) async fn presence(&self, request: Request) -> Response {
        self.answer(self.try_presence(&request).await)
    }

    /// Answers `GET /api/topics`.
    pub(super) async fn topics(&self, request: Request) -> Response {
        self.answer(self.try_topics(&request).await)
    }

    fn answer(&self, result: ApiResult) -> Response {
        let counters = self.core.counters().on_this_loop();
        counters.count_command(ClientProtocol::Http);
        match result {
            Ok(body) => json_response(StatusCode::OK, body),
            Err(ApiError::Body(error)) => error.into_response(),
            Err(ApiError::Gateway(error)) => {
                counters.count_refusal(error.code);
                error_response(&error)
            }
        }
    }

    async fn try_publish(&self, request: Request) -> ApiResult {
        let requester = self.requester(&request)?;
        let body = self.body(request).await?;
        let limits = self.core.limits();
        let value: &RawValue = serde_json::from_slice(&body).map_err(|error| not_json(&error))?;
        let reply = match value.get().starts_with('[') {
            true => {
                let entries = elements(value, limits, "publications")?;
                let read = |entry: &RawValue| items::publication("", entry, limits);
                let items = entries.into_iter().map(read).collect();
                self.core.publish_batch(&requester, items).await?
            }
            false => {
                let item = items::publication("", value, limits)?;
                self.core.publish(&requester, item).await?
            }
        };
        Ok(body_of(&reply))
    }

    async fn try_publish_body(&self, request: Request) -> ApiResult {
        let requester = self.requester(&request)?;
        let topic = request.path_param("topic").unwrap_or_default();
        let topic = items::topic(&topic, self.core.limits())?;
        let media_type = media_type(&request);
        let body = self.body(request).await?;
        let payload = payload(&media_type, body)?;
        let reply = self.core.publish(&requester, PublishItem { topic, payload }).await?;
        Ok(body_of(&reply))
    }

    async fn try_history(&self, request: &Request) -> ApiResult {
        let requester = self.requester(request)?;
        let facts = RequestFacts::of(request);
        let filter = items::filter(facts.required("topic")?, self.core.limits())?;
        let since = facts.first("since").map(items::position).transpose()?;
        let page = self.core.history(&requester, filter, since, facts.count("limit")?).await?;
        Ok(body_of(&GatewayReply::History(page)))
    }

    async fn try_presence(&self, request: &Request) -> ApiResult {
        let requester = self.requester(request)?;
        let facts = RequestFacts::of(request);
        let topic = items::topic(facts.required("topic")?, self.core.limits())?;
        let page = self.core.presence(&requester, &topic).await?;
        Ok(body_of(&GatewayReply::Presence(page)))
    }

    async fn try_topics(&self, request: &Request) -> ApiResult {
        let requester = self.requester(request)?;
        let limit = RequestFacts::of(request).count("limit")?;
        Ok(topics_body(&self.core.topics(&requester, limit).await?))
    }

    fn requester(&self, request: &Request) -> Result<Requester, GatewayError> {
        let facts = RequestFacts::of(request);
        self.core.authenticate(facts.credential()?, facts.peer())
    }

    async fn body(&self, request: Request) -> Result<Bytes, ApiError> {
        let limit = self.core.limits().message_bytes;
        request.into_body().collect(limit).await.map_err(|error| match error {
            BodyError::LongerThan { limit } => ApiError::Gateway(GatewayError::new(
                ErrorCode::MessageTooLarge,
                format!("a body has at most {limit} bytes"),
            )),
            error => ApiError::Body(error),
        })
    }
}

impl From<GatewayError> for ApiError {
    fn from(error: GatewayError) -> Self {
        Self::Gateway(error)
    }
}

/// Returns the body of a reply. The time between pings is not part of any that a single request has.
fn body_of(reply: &GatewayReply) -> String {
    reply_body(reply, Duration::ZERO)
}

/// Returns the type of the body in small letters, without parameters; empty if there is none.
fn media_type(request: &Request) -> String {
    let value =
        request.header(CONTENT_TYPE.as_str()).and_then(|value| std::str::from_utf8(value).ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn payload(media_type: &str, body: Bytes) -> Result<PublicationPayload, GatewayError> {
    if media_type == "application/json" {
        let value: &RawValue = serde_json::from_slice(&body).map_err(|error| not_json(&error))?;
        return items::json(value);
    }
    if media_type.starts_with("text/") {
        let text = String::from_utf8(body.into());
        let text = text.map_err(|_| invalid("a body of type text/* must be UTF-8"))?;
        return Ok(PublicationPayload::Text(text.into()));
    }
    Ok(PublicationPayload::Bytes(body))
}
