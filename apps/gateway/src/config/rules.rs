//! Rules over several keys.

use super::engine_settings::EngineKind;
use super::error::ConfigProblem;
use super::loader::LoadedConfig;
use crate::engine::limits::HistoryLimits;
use crate::engine::nats::url::NatsUrl;
use crate::engine::redis::RedisUrl;

/// Returns what does not go together.
pub(super) fn check_rules(config: &LoadedConfig) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    let mut conflict = |name: &'static str, message: String| {
        problems.push(ConfigProblem::Conflict { name, place: config.source_of(name), message });
    };
    let needs = [
        ("tls.certificate", "tls.key"),
        ("tls.key", "tls.certificate"),
        ("tls.client_ca", "tls.certificate"),
    ];
    for (name, other) in needs {
        if config.is_set(name) && !config.is_set(other) {
            conflict(name, format!("needs {other}, which is not set"));
        }
    }
    if config.is_set("admin.key") && config.is_set("admin.key_file") {
        let other = config.source_of("admin.key_file");
        conflict("admin.key", format!("and admin.key_file ({other}) are both set"));
    }
    let HistoryLimits { topic_bytes, total_bytes, .. } = config.settings.history;
    if topic_bytes > total_bytes {
        let name =
            if config.is_set("history.bytes") { "history.bytes" } else { "history.total_bytes" };
        conflict(
            name,
            format!("allows a topic {topic_bytes} bytes, but all topics only {total_bytes}"),
        );
    }
    let engine = &config.settings.engine;
    match (engine.kind, &engine.url) {
        (EngineKind::Memory, None) => {}
        (EngineKind::Memory, Some(_)) => {
            conflict("engine.url", String::from("is set, but engine.kind is memory"));
        }
        (EngineKind::Redis | EngineKind::Nats, None) => {
            conflict("engine.kind", String::from("needs engine.url, which is not set"));
        }
        (EngineKind::Redis, Some(url)) => {
            if let Err(error) = url.parse::<RedisUrl>() {
                conflict("engine.url", format!("is not accepted: {error}"));
            }
        }
        (EngineKind::Nats, Some(url)) => {
            if let Err(error) = url.parse::<NatsUrl>() {
                conflict("engine.url", format!("is not accepted: {error}"));
            }
        }
    }
    problems
}
