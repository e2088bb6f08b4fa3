//! The command line.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use waterwheel_gateway::gateway::GatewayConfig;
use waterwheel_gateway::outbox::OverflowPolicy;
use waterwheel_gateway::tls::port::TlsFiles;

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) config: GatewayConfig,
    /// True if the statistics table is printed although standard output is not a terminal.
    pub(crate) stats: bool,
}

/// Parses the arguments. clap words the errors and the help.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Options, clap::Error> {
    let given = command().try_get_matches_from(args)?;
    let number = |name: &str| given.get_one::<NonZeroUsize>(name).map_or(1, |n| n.get());
    let seconds = |name| Duration::from_secs(of::<u32>(&given, name).into());
    let idle = seconds("idle");
    let slow = Duration::from_millis(of::<u32>(&given, "slow").into());
    let config = GatewayConfig {
        bind: of(&given, "bind"),
        port: of(&given, "port"),
        threads: number("threads"),
        business: number("business"),
        queue: number("queue"),
        overflow: of(&given, "overflow"),
        max_line: number("max-line"),
        idle: (!idle.is_zero()).then_some(idle),
        drain: seconds("drain"),
        clients: number("clients"),
        slow: (!slow.is_zero()).then_some(slow),
        tls: tls_files(&given),
    };
    Ok(Options { config, stats: given.get_flag("stats") })
}

/// Returns the error for arguments that are well-formed but name something unusable, such as a file.
pub(crate) fn unusable(reason: &dyn std::fmt::Display) -> clap::Error {
    command().error(ErrorKind::ValueValidation, reason)
}

fn tls_files(given: &ArgMatches) -> Option<TlsFiles> {
    let file = |name| given.get_one::<PathBuf>(name).cloned();
    // clap has checked that there is none of them, or both.
    let (certificate, key) = (file("tls-cert")?, file("tls-key")?);
    Some(TlsFiles { certificate, key, client_ca: file("tls-client-ca") })
}

/// Returns the value of an argument that has a default.
fn of<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> T {
    given.get_one::<T>(name).cloned().unwrap_or_else(|| unreachable!("--{name} has a default"))
}

fn command() -> Command {
    let default = GatewayConfig::default();
    let option = |name: &'static str, value: &'static str, default: String| {
        Arg::new(name).long(name).value_name(value).default_value(default)
    };
    let number = |name, value, default: usize| {
        option(name, value, default.to_string()).value_parser(value_parser!(NonZeroUsize))
    };
    let seconds = |name, default: Duration| {
        option(name, "SECONDS", default.as_secs().to_string()).value_parser(value_parser!(u32))
    };
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    Command::new("gateway")
        .about("A push gateway: clients send lines over TCP and receive what others publish")
        .after_help(
            "Connect with `nc localhost 7000`, or `openssl s_client -quiet -connect localhost:7000` with \
             TLS, and send HELP. SIGTERM or Ctrl-C ends the gateway after every accepted line is \
             delivered; a second signal ends it at once. SIGHUP reads the files of TLS again: new \
             connections get what they say.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .arg(option("bind", "ADDRESS", default.bind).help("Address or host name to listen on"))
        .arg(
            option("port", "PORT", default.port.to_string())
                .value_parser(value_parser!(u16))
                .help("Port to listen on; 0 lets the system choose"),
        )
        .arg(number("threads", "N", cores()).help("Event loops; one per core by default"))
        .arg(number("business", "N", default.business).help("Threads that execute commands"))
        .arg(
            number("queue", "LINES", default.queue).help("Lines that may be queued for one client"),
        )
        .arg(
            option("overflow", "POLICY", default.overflow.to_string())
                .value_parser(policies())
                .help("Policy for lines beyond that limit"),
        )
        .arg(number("max-line", "BYTES", default.max_line).help("Maximum length of a line"))
        .arg(
            seconds("idle", default.idle.unwrap_or_default())
                .help("Disconnect clients that send no line for this long; 0: never"),
        )
        .arg(seconds("drain", default.drain).help("Deadline for delivering queued lines at the end"))
        .arg(number("clients", "N", default.clients).help("Maximum number of connected clients"))
        .arg(
            option(
                "slow",
                "MILLISECONDS",
                default.slow.unwrap_or_default().as_millis().to_string(),
            )
            .value_parser(value_parser!(u32))
            .help("Report a task or handler that blocks a thread for this long; 0: never"),
        )
        .arg(
            file("tls-cert")
                .requires("tls-key")
                .help("Speak TLS with the certificate chain of this file (PEM)"),
        )
        .arg(file("tls-key").requires("tls-cert").help("The key of the certificate (PEM)"))
        .arg(
            file("tls-client-ca")
                .requires("tls-cert")
                .help("Require certificates of clients that an authority in this file has issued (PEM)"),
        )
        .arg(
            Arg::new("stats")
                .long("stats")
                .action(ArgAction::SetTrue)
                .help("Print a table of the loops every second even without a terminal"),
        )
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn policies() -> impl TypedValueParser<Value = OverflowPolicy> {
    let explained = |policy: OverflowPolicy| {
        PossibleValue::new(policy.name()).help(match policy {
            OverflowPolicy::DropOldest => {
                "drop the oldest line and tell the client how many it missed"
            }
            OverflowPolicy::DropNewest => "drop the newest line and tell sender and client",
            OverflowPolicy::Disconnect => "disconnect the client",
        })
    };
    PossibleValuesParser::new(OverflowPolicy::ALL.map(explained)).map(|name| {
        let named = OverflowPolicy::ALL.into_iter().find(|policy| policy.name() == name);
        named.unwrap_or_else(|| unreachable!("clap has checked it"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(args: &[&str]) -> String {
        parse([&["gateway"], args].concat()).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_as_documented() {
        let options = parse(["gateway"]).unwrap();
        let GatewayConfig { bind, port, idle, overflow, .. } = options.config;
        assert_eq!((bind.as_str(), port), ("127.0.0.1", 7000));
        assert_eq!(idle, Some(Duration::from_secs(300)));
        assert_eq!(overflow, OverflowPolicy::DropOldest);
        assert!(!options.stats);
    }

    #[test]
    fn every_argument_is_parsed() {
        let args = "gateway --bind ::1 --port 0 --threads 3 --business 4 --queue 5 --overflow \
                    disconnect --max-line 6 --idle 0 --drain 7 --clients 8 --slow 9 --stats";
        let options = parse(args.split_whitespace()).unwrap();
        let GatewayConfig { bind, port, threads, business, queue, .. } = options.config.clone();
        assert_eq!((bind.as_str(), port, threads, business, queue), ("::1", 0, 3, 4, 5));
        let GatewayConfig { overflow, max_line, idle, drain, clients, slow, .. } = options.config;
        assert_eq!((overflow, max_line, idle), (OverflowPolicy::Disconnect, 6, None));
        assert_eq!((drain, clients), (Duration::from_secs(7), 8));
        assert_eq!(slow, Some(Duration::from_millis(9)));
        assert!(options.stats);
    }

    #[test]
    fn t04_the_files_of_tls_are_given_together() {
        assert_eq!(parse(["gateway"]).unwrap().config.tls, None);
        let args = "gateway --tls-cert a.crt --tls-key a.key --tls-client-ca ca.crt";
        let tls = parse(args.split_whitespace()).unwrap().config.tls.unwrap();
        assert_eq!((tls.certificate, tls.key), ("a.crt".into(), "a.key".into()));
        assert_eq!(tls.client_ca, Some("ca.crt".into()));
        let of = [
            (&["--tls-cert", "a.crt"][..], "--tls-key <FILE>"),
            (&["--tls-key", "a.key"], "--tls-cert <FILE>"),
            (&["--tls-client-ca", "ca.crt"], "--tls-cert <FILE>"),
        ];
        for (args, missing) in of {
            let told = error(args);
            assert!(told.contains("not provided") && told.contains(missing), "{told}");
            assert!(told.contains("Usage: gateway"), "{told}");
        }
    }

    #[test]
    fn errors_name_the_argument_and_what_is_expected() {
        let policy = error(&["--overflow", "panic"]);
        assert!(policy.contains("--overflow") && policy.contains("drop-oldest"), "{policy}");
        assert!(error(&["--threads", "0"]).contains("--threads"));
        assert!(error(&["--port", "70000"]).contains("65535"));
    }
}
