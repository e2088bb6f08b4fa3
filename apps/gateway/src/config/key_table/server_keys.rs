//! Keys of the process, its port and its connections.

use std::time::Duration;

use super::bounds::{HOUR, MILLISECOND, SECOND};
use crate::config::key::ConfigKey;
use crate::config::value::ValueKind::{Count, Flag, Networks, Path, Size, Text, Texts, Time};

pub(super) static KEYS: &[ConfigKey] = &[
    key!("bind", Text, bind, "Address or host name to listen on"),
    key!("port", Count(0, 65_535), port, "Port to listen on; 0 lets the system choose"),
    key!(
        "open",
        Flag,
        access.allow_anonymous,
        "Accept clients without a token, on addresses other than loopback and beside keys too",
        reload
    ),
    key!("loops", Count(1, 1024), loops, "Event loops; auto is one for each core", "auto"),
    key!(
        "drain",
        Time(Duration::ZERO, HOUR),
        drain,
        "Longest time to end the connections at the end"
    ),
    key!(
        "drain_notice",
        Time(Duration::ZERO, HOUR),
        drain_notice,
        "How long readyz answers 503 before clients are refused, for load balancers to notice"
    ),
    key!(
        "take_over",
        Time(SECOND, HOUR),
        take_over,
        "Longest time that a new process may take to start when it takes over (SIGUSR2)"
    ),
    key!(
        "watchdog",
        Time(MILLISECOND, HOUR),
        watchdog,
        "Report work that holds a loop for this long",
        "off"
    ),
    key!("demo", Flag, demo, "Make demo traffic: topics, readers, now and then a slow task"),
    key!(
        "tls.certificate",
        Path,
        tls.certificate,
        "Speak TLS with the certificate chain of this file (PEM)"
    ),
    key!("tls.key", Path, tls.key, "The key of the certificate (PEM)"),
    key!(
        "tls.client_ca",
        Path,
        tls.client_ca,
        "Require certificates of clients that an authority in this file has issued (PEM)"
    ),
    key!(
        "proxy.trusted",
        Networks,
        port_options.trusted_proxies,
        "Networks whose connections begin with a PROXY header, which names the client"
    ),
    key!(
        "hosts.allowed",
        Texts,
        port_options.allowed_hosts,
        "Hosts for which an open gateway takes requests, besides addresses and this machine; * stands for all"
    ),
    key!(
        "connections.max",
        Count(1, 10_000_000),
        port_options.connections,
        "Most connections; more are closed at once"
    ),
    key!(
        "connections.per_address",
        Count(1, 10_000_000),
        port_options.connections_per_address,
        "Most connections of an address; loopback and trusted proxies have no limit"
    ),
    key!(
        "detection.silence",
        Time(MILLISECOND, HOUR),
        port_options.silence,
        "A client that sends nothing for this long is one of lines; off waits for its first byte",
        "off"
    ),
    key!(
        "detection.timeout",
        Time(SECOND, HOUR),
        port_options.detection_timeout,
        "Longest time until the first bytes tell the protocol"
    ),
    key!(
        "http.head_bytes",
        Size(1024, 1 << 20),
        port_options.head_bytes,
        "Longest head of a request"
    ),
    key!(
        "http.head_timeout",
        Time(SECOND, HOUR),
        port_options.head_timeout,
        "Longest time for the head of a request"
    ),
    key!(
        "http.idle_timeout",
        Time(SECOND, HOUR),
        port_options.idle_timeout,
        "How long a connection may wait for its next request"
    ),
    key!(
        "http.stall_timeout",
        Time(SECOND, HOUR),
        port_options.stall_timeout,
        "How long a client may read nothing of an answer"
    ),
    key!(
        "http.pipelined",
        Count(1, 1024),
        port_options.pipelined,
        "Most requests of a connection that are answered at the same time"
    ),
];
