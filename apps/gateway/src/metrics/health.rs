//! The answers to `/healthz` and `/readyz`.

use crate::engine::EngineStatus;

/// The body of `/healthz`, with status 200: the gateway answers, so it lives.
pub const HEALTHY: &str = "ok\n";

/// The answer to `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessAnswer {
    /// The status of HTTP.
    pub status: u16,
    /// The body: `ok`, or the reason.
    pub body: &'static str,
}

/// Says whether a load balancer shall send clients here. The reasons are the same for everybody: addresses of an engine are
/// for operators.
#[must_use]
pub fn readiness(is_draining: bool, engine: &EngineStatus) -> ReadinessAnswer {
    if is_draining {
        return ReadinessAnswer { status: 503, body: "draining\n" };
    }
    if !engine.is_available {
        return ReadinessAnswer { status: 503, body: "engine unavailable\n" };
    }
    ReadinessAnswer { status: 200, body: "ok\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g05_a_gateway_is_not_ready_while_it_drains_or_its_engine_is_away() {
        let engine = |is_available| EngineStatus {
            is_available,
            description: "redis at 10.1.2.3".into(),
            ..EngineStatus::default()
        };
        let of = |is_draining, engine| {
            let ReadinessAnswer { status, body } = readiness(is_draining, &engine);
            (status, body)
        };
        assert_eq!(of(false, engine(true)), (200, "ok\n"));
        assert_eq!(of(true, engine(true)), (503, "draining\n"));
        assert_eq!(of(false, engine(false)), (503, "engine unavailable\n"));
        assert_eq!(of(true, engine(false)), (503, "draining\n"));
    }
}
