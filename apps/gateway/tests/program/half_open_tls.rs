//! Handshakes that are not finished, with embedded channels and a virtual clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use waterwheel::channel::{Draining, Edit};
use waterwheel::executor::{Clock, Report, Reporter};
use waterwheel_gateway::port::tls::handshake_monitor::HandshakeCounts;
use waterwheel_gateway::port::tls::tls_port::{TlsFiles, TlsPort};
use waterwheel_testkit::embedded::Embedded;

use super::support::tls::TlsIdentity;

/// Collects reports.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<String>>>);

impl Reporter for Reports {
    fn report(&self, report: &Report<'_>) {
        self.0.lock().unwrap().push(report.fault.to_string());
    }
}

/// A connection that has begun no handshake.
struct HalfOpen {
    tls: Arc<TlsPort>,
    channel: Embedded,
    reports: Reports,
}

impl HalfOpen {
    fn new(test: &str) -> Self {
        let TlsIdentity { certificate, key } = TlsIdentity::new(test, "server");
        let reports = Reports::default();
        let reporter: Arc<dyn Reporter> = Arc::new(reports.clone());
        let files = TlsFiles { certificate, key, client_ca: None };
        let tls = Arc::new(TlsPort::load(files, &reporter).unwrap());
        let add_handlers = |edit: &mut Edit<'_>| tls.add_handlers(edit);
        let mut channel = Embedded::builder().stream().build(add_handlers).unwrap();
        channel.run();
        assert!(channel.read_outbound_any().is_none(), "nothing is sent in plain text");
        Self { tls, channel, reports }
    }

    fn is_open(&self) -> bool {
        self.channel.channel().is_open()
    }

    fn reports(&self) -> Vec<String> {
        self.reports.0.lock().unwrap().clone()
    }
}

#[test]
fn t02_a_client_that_does_not_finish_its_handshake_is_closed_after_ten_seconds() {
    let mut ann = HalfOpen::new("handshake_timeout");
    ann.channel.advance(Duration::from_secs(9));
    assert!(ann.is_open());
    ann.channel.advance(Duration::from_secs(1));
    assert!(!ann.is_open());
    assert_eq!(ann.tls.handshakes(), HandshakeCounts { done: 0, failed: 1 });
    let reports = ann.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].ends_with("the TLS handshake was not done within 10s"), "{reports:?}");
}

#[test]
fn l11_a_drain_does_not_wait_for_handshakes() {
    let mut ann = HalfOpen::new("handshake_drain");
    let deadline = Clock::Monotonic.now();
    ann.channel.channel().fire_user_event(Draining { deadline });
    ann.channel.run();
    assert!(!ann.is_open());
    assert_eq!(ann.tls.handshakes(), HandshakeCounts::default(), "neither done nor failed");
    assert_eq!(ann.reports(), Vec::<String>::new());
}

#[test]
fn t08_a_client_that_leaves_in_its_handshake_is_counted_and_not_reported() {
    let mut ann = HalfOpen::new("handshake_cut_off");
    ann.channel.finish_inbound();
    ann.channel.run();
    assert!(!ann.is_open());
    assert_eq!(ann.tls.handshakes(), HandshakeCounts { done: 0, failed: 1 });
    assert_eq!(ann.reports(), Vec::<String>::new());
}
