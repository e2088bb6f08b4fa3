//! The program: reads the configuration, starts the gateway, and carries out what the operator asks for.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};

use waterwheel::channel::Drained;
use waterwheel::net::Inherited;

use super::console::{self, Console, print_error};
use super::descriptors::raise_descriptor_limit;
use super::service_manager::ServiceManager;
use super::signals::{self, OperatorRequest};
use super::take_over::hand_over::HandOver;
use super::take_over::predecessor::Predecessor;
use crate::config::flags::ProgramAction;
use crate::config::guide::help_text;
use crate::config::loader::{LoadedConfig, ProgramInput};
use crate::config::settings::LogLevel;
use crate::gateway::{Gateway, GatewayStartError};
use crate::log::gateway_log::{GatewayLog, LogKind};
use crate::log::subscriber::LogSubscriber;
use crate::port::listening_socket::ListeningSocket;

/// The status of a program whose configuration is not usable.
const STATUS_OF_CONFIG: u8 = 2;

/// Runs the program. Returns its status.
#[must_use]
pub fn run() -> ExitCode {
    let input = ProgramInput::of_process();
    let (console, printer) = console::open();
    let outcome = match input.action() {
        ProgramAction::Help => {
            console.print(help_text());
            Ok(())
        }
        ProgramAction::Version => {
            console.line(concat!("gateway ", env!("CARGO_PKG_VERSION")));
            Ok(())
        }
        ProgramAction::Check => check(&input, &console),
        ProgramAction::Run => serve(input, &console),
    };
    drop(console);
    printer.wait();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(ProgramError::Config(why)) => {
            print_error(&why);
            ExitCode::from(STATUS_OF_CONFIG)
        }
        Err(ProgramError::Failed(why)) => {
            print_error(&why);
            ExitCode::FAILURE
        }
    }
}

/// Why the program failed.
enum ProgramError {
    /// The configuration is not usable: status 2.
    Config(String),
    /// Everything else: status 1.
    Failed(String),
}

fn check(input: &ProgramInput, console: &Console) -> Result<(), ProgramError> {
    let config = load(input)?;
    let log = GatewayLog::new(config.settings.log);
    Gateway::check(&config.settings, &log).map_err(|problems| {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        ProgramError::Config(problems.join("\n"))
    })?;
    console.print(config.description());
    console.line("the configuration is usable");
    Ok(())
}

fn serve(input: ProgramInput, console: &Console) -> Result<(), ProgramError> {
    // Before any other descriptor is opened: their numbers are fixed.
    let inherited = Inherited::take().map_err(|error| ProgramError::Failed(error.to_string()))?;
    let (sender, requests) = channel();
    // Installed early, so that no signal can end the program in the middle of its start.
    signals::install(&sender).map_err(|error| {
        ProgramError::Failed(format!("cannot install the signal handlers: {error}"))
    })?;
    let manager = ServiceManager::find()
        .map_err(|error| ProgramError::Failed(format!("NOTIFY_SOCKET is not usable: {error}")))?;
    let config = load(&input)?;
    let log = GatewayLog::new(config.settings.log);
    // Fails if there is a subscriber, which there is in no program but one that embeds this one.
    let _ = tracing::subscriber::set_global_default(LogSubscriber::new(log.clone()));
    let descriptors = raise_descriptor_limit();
    let (sockets, predecessor) = find_sockets(inherited, &config, &log)?;
    let gateway = Gateway::start(&config.settings, sockets, &log)
        .map_err(|error| failure(&error, &config))?;
    tell_start(&gateway, descriptors, console, &log);
    if let Some(predecessor) = predecessor {
        predecessor.tell_ready().map_err(|error| {
            ProgramError::Failed(format!("the process before this one does not wait: {error}"))
        })?;
    }
    manager.tell_ready();
    manager.show_life(gateway.loops());
    let console = console.clone();
    let mut program = Program { input, config, gateway, log, console, manager, sender };
    let cause = program.serve_until_the_end(&requests);
    program.end(cause)
}

/// Returns the sockets of the process before this one, or of the service manager, or binds one.
fn find_sockets(
    inherited: Vec<Inherited>,
    config: &LoadedConfig,
    log: &GatewayLog,
) -> Result<(Vec<ListeningSocket>, Option<Predecessor>), ProgramError> {
    let settings = &config.settings;
    let (sockets, predecessor) = match Predecessor::find() {
        Ok(Some((predecessor, sockets))) => (sockets, Some(predecessor)),
        Ok(None) if inherited.is_empty() => {
            let bound = Gateway::bind(settings).map_err(|error| failure(&error, config))?;
            return Ok((vec![bound], None));
        }
        Ok(None) => (inherited.into_iter().map(ListeningSocket::inherited).collect(), None),
        Err(cause) => {
            let why = format!("cannot take over from the process before this one: {cause}");
            return Err(ProgramError::Failed(why));
        }
    };
    let is_other = |address: SocketAddr| settings.port != 0 && address.port() != settings.port;
    let addresses = sockets.iter().filter_map(ListeningSocket::address);
    for address in addresses.filter(|address| config.is_set("port") && is_other(*address)) {
        let message = format!(
            "listening on {address}, which another process has bound; port = {} does not count",
            settings.port
        );
        log.write(LogLevel::Warn, LogKind::Config, &message, &[]);
    }
    Ok((sockets, predecessor))
}

/// A gateway that serves, and what is needed to carry out requests.
struct Program {
    input: ProgramInput,
    config: LoadedConfig,
    gateway: Gateway,
    log: GatewayLog,
    console: Console,
    manager: ServiceManager,
    sender: Sender<OperatorRequest>,
}

/// Why the gateway ends.
enum EndCause {
    /// The operator wants it.
    Requested(String),
    /// This process serves in its place.
    HandedOver(u32),
}

impl Program {
    /// Carries out requests until one of them is to end the gateway.
    fn serve_until_the_end(&mut self, requests: &Receiver<OperatorRequest>) -> EndCause {
        // Dropped at the end, which kills a new process that is not ready.
        let mut hand_over = None;
        loop {
            match requests.recv() {
                Ok(OperatorRequest::Reload) => self.reload(),
                Ok(OperatorRequest::TerminalClosed) => {
                    return EndCause::Requested(String::from("the terminal was closed"));
                }
                Ok(OperatorRequest::Terminate(signal)) => {
                    return EndCause::Requested(signal.to_string());
                }
                Ok(OperatorRequest::HandOver) => match hand_over {
                    Some(_) => self.tell_take_over(LogLevel::Warn, &"one is under way already"),
                    None => hand_over = self.begin_hand_over(),
                },
                Ok(OperatorRequest::HandedOver(Ok(process))) => {
                    return EndCause::HandedOver(process);
                }
                Ok(OperatorRequest::HandedOver(Err(error))) => {
                    hand_over = None;
                    self.tell_take_over(LogLevel::Error, &format!("{error}; this process goes on"));
                }
                Err(_) => unreachable!("the program has a sender"),
            }
        }
    }

    /// Starts a new process that takes over.
    fn begin_hand_over(&self) -> Option<HandOver> {
        let sender = self.sender.clone();
        let limit = self.config.settings.take_over;
        let begun = HandOver::begin(self.gateway.sockets(), limit, move |outcome| {
            // Fails when the program ends.
            let _ = sender.send(OperatorRequest::HandedOver(outcome));
        });
        match begun {
            Ok(hand_over) => {
                self.tell_take_over(LogLevel::Info, &"a new process starts");
                Some(hand_over)
            }
            Err(error) => {
                self.tell_take_over(LogLevel::Error, &format!("{error}; this process goes on"));
                None
            }
        }
    }

    fn tell_take_over(&self, level: LogLevel, what: &dyn Display) {
        let message = format_args!("take-over: {what}");
        self.log.write(level, LogKind::Lifecycle, &message, &[]);
    }

    fn reload(&mut self) {
        self.manager.tell_reloading();
        self.apply_reload();
        self.manager.tell_ready();
    }

    fn apply_reload(&mut self) {
        let config = match self.input.load() {
            Ok(config) => config,
            Err(problems) => {
                for problem in problems.0 {
                    let message = format_args!("SIGHUP: nothing was reloaded: {problem}");
                    self.log.write(LogLevel::Error, LogKind::Config, &message, &[]);
                }
                return;
            }
        };
        let fixed = self.config.fixed_changes(&config);
        if !fixed.is_empty() {
            let message = format!("SIGHUP: changes that wait for a restart: {}", fixed.join(", "));
            self.log.write(LogLevel::Warn, LogKind::Config, &message, &[]);
        }
        match self.gateway.reload(&config.settings) {
            Ok(()) => self.console.line(&self.reload_line()),
            Err(problems) => {
                for problem in problems {
                    let message = format_args!("SIGHUP: stays as it was: {problem}");
                    self.log.write(LogLevel::Error, LogKind::Config, &message, &[]);
                }
            }
        }
    }

    /// Says what a reload has changed.
    fn reload_line(&self) -> String {
        let access = self.gateway.core().access().description();
        match self.gateway.tls() {
            Some(tls) => {
                format!("SIGHUP: new connections get {}; {access}", tls.description())
            }
            None => format!("SIGHUP: the configuration was read again; {access}"),
        }
    }

    /// Drains the gateway, and says what it has done.
    fn end(self, cause: EndCause) -> Result<(), ProgramError> {
        let failed = |error: waterwheel::executor::Error| ProgramError::Failed(error.to_string());
        let (cause, is_last) = match cause {
            EndCause::Requested(cause) => {
                self.manager.tell_stopping();
                (cause, true)
            }
            EndCause::HandedOver(process) => {
                self.gateway.stop_accepting().map_err(failed)?;
                (format!("process {process} has taken over"), false)
            }
        };
        self.console.line(&format!(
            "{cause}: delivering what was published; a second signal ends the gateway at once"
        ));
        if is_last {
            self.gateway.give_notice().map_err(failed)?;
        }
        let drained = self.gateway.drain().map_err(failed)?;
        let counts = self.gateway.core().counters().counts();
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        self.console.line(&format!(
            "{} publications, {} deliveries, {} missed",
            counts.published,
            sum(&counts.delivered),
            sum(&counts.missed)
        ));
        if let Some(tls) = self.gateway.tls() {
            self.console.line(&tls.handshakes().to_string());
        }
        match drained {
            Drained::Complete => {}
            Drained::DeadlineReached { channels } | Drained::CutShort { channels } => {
                self.console.line(&format!(
                    "{channels} clients did not read everything before the deadline"
                ));
            }
        }
        Ok(())
    }
}

fn load(input: &ProgramInput) -> Result<LoadedConfig, ProgramError> {
    input.load().map_err(|problems| ProgramError::Config(problems.to_string()))
}

/// Prints where the gateway listens and who may use it. The first line is read by programs.
fn tell_start(gateway: &Gateway, descriptors: Option<u64>, console: &Console, log: &GatewayLog) {
    let tls = gateway.tls().map(|tls| format!("TLS: {}; ", tls.description())).unwrap_or_default();
    for socket in gateway.sockets() {
        console.line(&format!("listening on {socket}; {tls}stop with Ctrl-C"));
    }
    let access = gateway.core().access().description();
    console.line(&format!("access: {access}"));
    if let Some(address) = gateway.sockets().iter().find_map(ListeningSocket::address) {
        let scheme = if gateway.tls().is_some() { "https" } else { "http" };
        console.line(&format!("page: {scheme}://{address}/"));
    }
    let version = env!("CARGO_PKG_VERSION");
    let descriptors = descriptors.map_or(String::from("unlimited"), |limit| limit.to_string());
    log.write(
        LogLevel::Info,
        LogKind::Lifecycle,
        &"the gateway serves",
        &[("version", &version), ("access", &access), ("descriptors", &descriptors)],
    );
}

/// Returns the error with advice on how to avoid it.
fn failure(error: &GatewayStartError, config: &LoadedConfig) -> ProgramError {
    if error.is_of_config() {
        return ProgramError::Config(error.to_string());
    }
    let GatewayStartError::Listen { cause, .. } = error else {
        return ProgramError::Failed(error.to_string());
    };
    let advice = match cause.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "another program uses this port; choose a free one, for instance --port {}, or --port 0 for any",
                config.settings.port.wrapping_add(1)
            )
        }
        io::ErrorKind::PermissionDenied => {
            String::from("ports below 1024 need privileges; choose another one with --port")
        }
        io::ErrorKind::AddrNotAvailable => String::from(
            "this machine does not have that address; choose another with --bind, 0.0.0.0 for all",
        ),
        _ => return ProgramError::Failed(error.to_string()),
    };
    ProgramError::Failed(format!("{error}\n{advice}"))
}
