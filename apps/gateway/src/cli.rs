//! The command line.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use waterwheel_gateway::gateway::Config;
use waterwheel_gateway::outbox::Overflow;

/// What was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) config: Config,
    /// To show the table even if nobody seems to look.
    pub(crate) stats: bool,
}

/// Understands the arguments. What is wrong with them is clap's to say; so is the help.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Options, clap::Error> {
    let given = command().try_get_matches_from(args)?;
    let number = |name: &str| given.get_one::<NonZeroUsize>(name).map_or(1, |n| n.get());
    let seconds = |name| Duration::from_secs(of::<u32>(&given, name).into());
    let idle = seconds("idle");
    let slow = Duration::from_millis(of::<u32>(&given, "slow").into());
    let config = Config {
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
    };
    Ok(Options { config, stats: given.get_flag("stats") })
}

/// An argument that has a default.
fn of<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> T {
    given.get_one::<T>(name).cloned().unwrap_or_else(|| unreachable!("--{name} has a default"))
}

fn command() -> Command {
    let default = Config::default();
    let option = |name: &'static str, value: &'static str, default: String| {
        Arg::new(name).long(name).value_name(value).default_value(default)
    };
    let number = |name, value, default: usize| {
        option(name, value, default.to_string()).value_parser(value_parser!(NonZeroUsize))
    };
    let seconds = |name, default: Duration| {
        option(name, "SECONDS", default.as_secs().to_string()).value_parser(value_parser!(u32))
    };
    Command::new("gateway")
        .about("A push gateway: clients speak lines over TCP, and are sent what others publish")
        .after_help(
            "Talk to it with `nc localhost 7000`, and say HELP. SIGTERM and Ctrl-C let it end when \
             everything it has accepted is delivered; a second one ends it at once.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .arg(option("bind", "ADDRESS", default.bind).help("Address or host name to listen at"))
        .arg(
            option("port", "PORT", default.port.to_string())
                .value_parser(value_parser!(u16))
                .help("Port to listen at; 0 lets the system choose"),
        )
        .arg(number("threads", "N", cores()).help("Event loops; by default one for each core"))
        .arg(number("business", "N", default.business).help("Threads that do what clients ask for"))
        .arg(number("queue", "LINES", default.queue).help("Lines that may wait for one client"))
        .arg(
            option("overflow", "POLICY", default.overflow.to_string())
                .value_parser(policies())
                .help("What becomes of more lines than that"),
        )
        .arg(number("max-line", "BYTES", default.max_line).help("How long a line may be"))
        .arg(
            seconds("idle", default.idle.unwrap_or_default())
                .help("Disconnect clients that send no line for so long; 0: never"),
        )
        .arg(seconds("drain", default.drain).help("How long the end may take"))
        .arg(number("clients", "N", default.clients).help("Clients that may be connected"))
        .arg(
            option(
                "slow",
                "MILLISECONDS",
                default.slow.unwrap_or_default().as_millis().to_string(),
            )
            .value_parser(value_parser!(u32))
            .help("Report what holds a thread for so long, while it does; 0: nothing"),
        )
        .arg(
            Arg::new("stats")
                .long("stats")
                .action(ArgAction::SetTrue)
                .help("Show a table of the loops every second, also if this is no terminal"),
        )
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

fn policies() -> impl TypedValueParser<Value = Overflow> {
    let explained = |policy: Overflow| {
        PossibleValue::new(policy.name()).help(match policy {
            Overflow::DropOldest => "the oldest is dropped, and the client told",
            Overflow::DropNewest => "the newest is dropped, and both told",
            Overflow::Disconnect => "the client is disconnected",
        })
    };
    PossibleValuesParser::new(Overflow::ALL.map(explained)).map(|name| {
        let named = Overflow::ALL.into_iter().find(|policy| policy.name() == name);
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
    fn without_arguments_it_is_as_documented() {
        let options = parse(["gateway"]).unwrap();
        let Config { bind, port, idle, overflow, .. } = options.config;
        assert_eq!((bind.as_str(), port), ("127.0.0.1", 7000));
        assert_eq!(idle, Some(Duration::from_secs(300)));
        assert_eq!(overflow, Overflow::DropOldest);
        assert!(!options.stats);
    }

    #[test]
    fn every_argument_arrives() {
        let args = "gateway --bind ::1 --port 0 --threads 3 --business 4 --queue 5 --overflow \
                    disconnect --max-line 6 --idle 0 --drain 7 --clients 8 --slow 9 --stats";
        let options = parse(args.split_whitespace()).unwrap();
        let Config { bind, port, threads, business, queue, .. } = options.config.clone();
        assert_eq!((bind.as_str(), port, threads, business, queue), ("::1", 0, 3, 4, 5));
        let Config { overflow, max_line, idle, drain, clients, slow, .. } = options.config;
        assert_eq!((overflow, max_line, idle), (Overflow::Disconnect, 6, None));
        assert_eq!((drain, clients), (Duration::from_secs(7), 8));
        assert_eq!(slow, Some(Duration::from_millis(9)));
        assert!(options.stats);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_expected() {
        let policy = error(&["--overflow", "panic"]);
        assert!(policy.contains("--overflow") && policy.contains("drop-oldest"), "{policy}");
        assert!(error(&["--threads", "0"]).contains("--threads"));
        assert!(error(&["--port", "70000"]).contains("65535"));
    }
}
