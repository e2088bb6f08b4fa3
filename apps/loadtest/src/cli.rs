//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use crate::client::connector::TargetOptions;
use crate::scenario::churn::ChurnOptions;
use crate::scenario::connections::ConnectionsOptions;
use crate::scenario::fanout::FanoutOptions;
use crate::scenario::load_run::RunOptions;
use crate::scenario::storm::StormOptions;

/// The parsed command line.
#[derive(Clone, Debug)]
pub(crate) struct LoadOptions {
    pub(crate) run: RunOptions,
    pub(crate) scenario: ScenarioOptions,
    /// A file whose content is the token of all clients.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) is_quiet: bool,
    /// Longest time beside the durations of the scenario.
    pub(crate) limit: Duration,
}

/// The scenario with its options.
#[derive(Clone, Debug)]
pub(crate) enum ScenarioOptions {
    Connections(ConnectionsOptions),
    Fanout(FanoutOptions),
    Storm(StormOptions),
    Churn(ChurnOptions),
}

impl ScenarioOptions {
    /// Returns how many connections the scenario needs.
    pub(crate) fn connections(&self) -> usize {
        match self {
            Self::Connections(options) => options.connections(),
            Self::Fanout(options) => options.connections(),
            Self::Storm(options) => options.connections(),
            Self::Churn(options) => options.connections(),
        }
    }

    /// Returns how long the scenario takes if nothing has to be waited for.
    pub(crate) fn duration(&self) -> Duration {
        match self {
            Self::Connections(options) => options.hold,
            Self::Fanout(options) => options.duration,
            Self::Storm(options) => 2 * options.calm,
            Self::Churn(options) => options.duration,
        }
    }
}

/// Parses the arguments. clap words the errors and the help.
pub(crate) fn parse(
    args: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<LoadOptions, clap::Error> {
    let given = command().try_get_matches_from(args)?;
    let Some((name, own)) = given.subcommand() else { unreachable!("clap requires a scenario") };
    let scenario = match name {
        "connections" => ScenarioOptions::Connections(ConnectionsOptions {
            clients: number(own, "clients"),
            per_topic: number(own, "per-topic"),
            hold: seconds(own, "hold"),
        }),
        "fanout" => fanout(own, "fanout"),
        "latency" => fanout(own, "latency"),
        "storm" => ScenarioOptions::Storm(StormOptions {
            clients: number(own, "clients"),
            publishers: number(own, "publishers"),
            rate: value(own, "rate"),
            calm: seconds(own, "seconds"),
            is_cut_by_gateway: own.get_flag("await-cut"),
            back_limit: seconds(own, "back"),
        }),
        _ => ScenarioOptions::Churn(ChurnOptions {
            clients: number(own, "clients"),
            life: Duration::from_millis(value::<u32>(own, "life").into()),
            duration: seconds(own, "seconds"),
            rate: value(own, "rate"),
            growth: value(own, "growth"),
        }),
    };
    let many = |name: &str| own.get_many::<String>(name).map(|all| all.cloned().collect());
    let file = |name: &str| own.get_one::<PathBuf>(name).cloned();
    Ok(LoadOptions {
        run: RunOptions {
            connect: TargetOptions {
                urls: many("url").unwrap_or_default(),
                authorization: None,
                sources: value(own, "sources"),
                timeout: seconds(own, "timeout"),
            },
            pids: own.get_many::<u32>("pid").map(|all| all.copied().collect()).unwrap_or_default(),
            in_flight: number(own, "in-flight"),
            payload_bytes: number(own, "payload"),
            settle: seconds(own, "settle"),
            may_have_gaps: own.get_flag("allow-gaps"),
        },
        scenario,
        token_file: file("token-file"),
        json: file("json"),
        svg: file("svg"),
        is_quiet: own.get_flag("quiet"),
        limit: seconds(own, "limit"),
    })
}

/// Returns the options of `fanout` and `latency`, which differ in their defaults.
fn fanout(own: &ArgMatches, scenario: &'static str) -> ScenarioOptions {
    let rate = value::<u32>(own, "rate");
    ScenarioOptions::Fanout(FanoutOptions {
        scenario,
        subscribers: number(own, "subscribers"),
        publishers: number(own, "publishers"),
        rate: (rate > 0).then_some(rate),
        window: value(own, "window"),
        duration: seconds(own, "seconds"),
    })
}

/// Returns the value of an argument that has a default.
fn value<T: Clone + Send + Sync + 'static>(given: &ArgMatches, name: &str) -> T {
    given.get_one::<T>(name).cloned().unwrap_or_else(|| unreachable!("--{name} has a default"))
}

fn number(given: &ArgMatches, name: &str) -> usize {
    value::<u32>(given, name) as usize
}

fn seconds(given: &ArgMatches, name: &str) -> Duration {
    Duration::from_secs_f64(value(given, name))
}

fn option(name: &'static str, value: &'static str, default: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).default_value(default)
}

fn count(name: &'static str, default: &'static str) -> Arg {
    option(name, "N", default).value_parser(value_parser!(u32).range(1..=1_000_000))
}

fn time(name: &'static str, default: &'static str) -> Arg {
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=604_800.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0 to 604800 (a week) is expected"),
    };
    option(name, "SECONDS", default).value_parser(parse)
}

fn flag(name: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue)
}

fn rate(default: &'static str) -> Arg {
    option("rate", "N", default)
        .value_parser(value_parser!(u32).range(1..=1_000_000))
        .help("Publications per second, of all publishers together")
}

fn command() -> Command {
    let connections = Command::new("connections")
        .about("Opens many connections, holds them, and reaches each by a publication")
        .arg(count("clients", "15000").help("Connections"))
        .arg(count("per-topic", "10").help("Clients that share a topic"))
        .arg(time("hold", "10").help("How long they are held without traffic"));
    let fanout = Command::new("fanout")
        .about("Publishes to many subscribers of one topic")
        .args(publishing(["1000", "4", "0", "10"]));
    let latency = Command::new("latency")
        .about("Publishes at a rate to subscribers of all gateways")
        .args(publishing(["10", "10", "1000", "30"]));
    Command::new("loadtest")
        .about("Puts load on a running gateway, and measures what it does with it")
        .after_help(
            "Ends with status 1 if something was lost, came twice or is not as promised, with 2 \
             if the arguments are wrong, and with 130 if it was interrupted. One event loop makes \
             all of the load, on one core.",
        )
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .args(common())
        .subcommands([connections, fanout, latency, storm(), churn()])
}

/// Returns the options of `fanout` and `latency`, with the defaults of subscribers, publishers, rate and seconds.
fn publishing([subscribers, publishers, rate, seconds]: [&'static str; 4]) -> [Arg; 5] {
    [
        count("subscribers", subscribers).help("Subscribers, by turns of each gateway"),
        count("publishers", publishers).help("Publishers, by turns of each gateway"),
        option("rate", "N", rate)
            .value_parser(value_parser!(u32).range(0..=1_000_000))
            .help("Publications per second, of all publishers; 0: as fast as they are received"),
        count("window", "32").help("Publications on their way, with --rate 0"),
        time("seconds", seconds).help("How long"),
    ]
}

fn storm() -> Command {
    let await_cut = "Wait until the gateway ends the connections: somebody restarts it";
    Command::new("storm")
        .about("Ends all connections at once; the clients come back and resume")
        .arg(count("clients", "2000").help("Subscribers"))
        .arg(count("publishers", "2").help("Publishers"))
        .arg(rate("50"))
        .arg(time("seconds", "3").help("Time before the storm, and after it"))
        .arg(time("back", "60").help("Longest time until all clients are back"))
        .arg(flag("await-cut").help(await_cut))
}

fn churn() -> Command {
    let life = option("life", "MILLISECONDS", "500")
        .value_parser(value_parser!(u32).range(1..=3_600_000))
        .help("How long a client stays, about");
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(percent) if (0.0..=1_000_000.0).contains(&percent) => Ok(percent),
        _ => Err("a number from 0 to 1000000 is expected"),
    };
    let growth = option("growth", "PERCENT", "10").value_parser(parse).help(
        "By how much the memory may grow, from the second fifth of the time to the last fifth",
    );
    Command::new("churn")
        .about("Lets connections come and go, and watches the memory of the gateway")
        .arg(count("clients", "200").help("Clients at the same time"))
        .arg(life)
        .arg(time("seconds", "60").help("How long"))
        .arg(rate("10"))
        .arg(growth)
}

/// Returns the options of all scenarios.
fn common() -> Vec<Arg> {
    let file = |name: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf))
    };
    let all = [
        option("url", "URL", "ws://127.0.0.1:7000/ws")
            .action(ArgAction::Append)
            .help("A gateway; repeat it for several, which clients take by turns"),
        Arg::new("pid")
            .long("pid")
            .value_name("PID")
            .action(ArgAction::Append)
            .value_parser(value_parser!(u32))
            .help("The process of a gateway on this machine, for its memory and CPU time"),
        file("token-file").help("A file with the token of all clients"),
        count("in-flight", "200").help("Connections that are being opened at the same time"),
        option("sources", "N", "4")
            .value_parser(value_parser!(u8).range(1..=250))
            .help("Source addresses, from 127.0.0.1 on, if the gateways are on loopback"),
        time("timeout", "30")
            .help("Longest time for a connect, and for the answer to a subscription"),
        option("payload", "BYTES", "128")
            .value_parser(value_parser!(u32).range(1..=60_000))
            .help("Size of the data of a publication"),
        time("settle", "10").help("Longest time to wait for deliveries at the end"),
        flag("allow-gaps").help("Accept losses of which the gateway has told the client"),
        time("limit", "600").help("Longest time of the scenario, beside its own durations"),
        file("json").help("Write the results as JSON"),
        file("svg").help("Write a plot"),
        flag("quiet").short('q').help("Show no progress"),
    ];
    all.map(|arg| arg.global(true)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &str) -> LoadOptions {
        parse(["loadtest"].into_iter().chain(args.split_whitespace())).unwrap()
    }

    #[test]
    fn g09_defaults_are_those_of_the_figures() {
        let options = parsed("connections");
        assert_eq!(options.run.connect.urls, ["ws://127.0.0.1:7000/ws"]);
        assert_eq!(options.scenario.connections(), 15_001);
        let ScenarioOptions::Fanout(fanout) = parsed("fanout").scenario else { panic!("fanout") };
        assert_eq!((fanout.subscribers, fanout.rate), (1_000, None));
        let ScenarioOptions::Fanout(latency) = parsed("latency").scenario else {
            panic!("latency")
        };
        assert_eq!((latency.scenario, latency.rate), ("latency", Some(1_000)));
        let ScenarioOptions::Storm(storm) = parsed("storm").scenario else { panic!("storm") };
        assert_eq!((storm.clients, storm.is_cut_by_gateway), (2_000, false));
        assert_eq!(parsed("churn").scenario.duration(), Duration::from_secs(60));
    }

    #[test]
    fn g09_options_of_all_scenarios_stand_before_or_after_the_name() {
        for args in [
            "--url ws://a/ws --url ws://b/ws --pid 7 -q storm",
            "storm -q --pid 7 --url ws://a/ws --url ws://b/ws",
        ] {
            let options = parsed(args);
            assert_eq!(options.run.connect.urls, ["ws://a/ws", "ws://b/ws"]);
            assert_eq!((options.run.pids.as_slice(), options.is_quiet), (&[7][..], true));
        }
    }

    #[test]
    fn g09_wrong_arguments_are_refused() {
        for (args, part) in [
            ("", "subcommand"),
            ("flood", "flood"),
            ("connections --clients 0", "--clients"),
            ("churn --seconds=-1", "--seconds"),
            ("churn --seconds x", "a number of seconds"),
            ("churn --growth NaN", "a number from 0"),
            ("fanout --payload 100000", "--payload"),
            ("fanout --await-cut", "--await-cut"),
        ] {
            let args = ["loadtest"].into_iter().chain(args.split_whitespace());
            let error = parse(args).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
