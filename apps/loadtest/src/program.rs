//! The program: arguments, signals, the loop, and where the results go.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use waterwheel::channel::{EventLoopGroup, timeout};
use waterwheel::executor::{Clock, Error, PromiseFuture};
use waterwheel::net::{Auto, Terminate};

use crate::cli::{self, LoadOptions, ScenarioOptions};
use crate::error::LoadError;
use crate::machine::descriptors::raise_limit;
use crate::machine::machine_load::busy_time;
use crate::machine::process_usage::ProcessUsage;
use crate::progress::{ProgressDisplay, ProgressNote, ProgressSender};
use crate::report::figure::FigureUnit;
use crate::report::scenario_report::ScenarioReport;
use crate::report::{json, plot, table};
use crate::scenario::load_run::LoadRun;
use crate::scenario::{churn, connections, fanout, storm};
use crate::stop::StopFlag;

/// Status of a run that was interrupted, as shells have it for SIGINT.
const INTERRUPTED: u8 = 130;

/// Notes of progress that may wait for the terminal.
const PROGRESS_NOTES: usize = 16;

/// The longest time until the end of the scenario is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let options = match cli::parse(std::env::args_os()) {
        Ok(options) => options,
        Err(error) => error.exit(), // Help: stdout, status 0. Errors: stderr, status 2.
    };
    match execute(options) {
        Ok(report) if report.is_interrupted => ExitCode::from(INTERRUPTED),
        Ok(report) if report.failures.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}

fn execute(mut options: LoadOptions) -> Result<ScenarioReport, LoadError> {
    let stop = StopFlag::default();
    let signals = Terminate::new().map_err(Error::new)?; // A second signal ends the program at once.
    signals.on_first_signal({
        let stop = stop.clone();
        move |_| stop.set()
    });
    if let Some(path) = &options.token_file {
        let token = fs::read_to_string(path).map_err(|cause| file_error(path, cause))?;
        options.run.connect.authorization = Some(format!("Bearer {}", token.trim()));
    }
    raise_limit(options.scenario.connections())?;
    let (json_path, svg_path) = (options.json.clone(), options.svg.clone());
    let mut report = run_on_a_loop(options, &stop)?;
    report.is_interrupted = stop.is_set();
    // Fails if nobody reads.
    let _ = std::io::stdout().write_all(table::render(&report).as_bytes());
    if let Some(path) = json_path {
        write_file(&path, &json::render(&report))?;
    }
    if let Some(path) = svg_path
        && let Some(picture) = plot::render(&report)
    {
        write_file(&path, &picture)?;
    }
    Ok(report)
}

/// Carries the scenario out on an event loop, and shows its progress meanwhile.
fn run_on_a_loop(options: LoadOptions, stop: &StopFlag) -> Result<ScenarioReport, LoadError> {
    let group =
        EventLoopGroup::builder(Auto).threads(1).name("load").build().map_err(Error::new)?;
    let mut display = ProgressDisplay::new(options.is_quiet);
    let (sender, notes) = sync_channel::<ProgressNote>(PROGRESS_NOTES);
    let (progress, stop, on_group) = (ProgressSender::new(sender), stop.clone(), group.clone());
    let scenario = move || async move {
        let limit = options.limit + options.scenario.duration();
        let run = Rc::new(LoadRun::new(&on_group, options.run, progress, stop)?);
        let result = timeout(limit, carry_out(&run, &options.scenario)).await;
        result.unwrap_or(Err(LoadError::TooLong(limit)))
    };
    let result: PromiseFuture<Result<ScenarioReport, LoadError>> =
        group.spawn_with(scenario).map_err(|rejected| Error::closed(rejected.to_string()))?;
    while !result.is_done() {
        match notes.recv_timeout(LOOK) {
            Ok(note) => display.show(&note),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    display.end();
    result.join()?
}

/// Carries the scenario out, and adds how busy others have kept the machine meanwhile.
async fn carry_out(
    run: &Rc<LoadRun>,
    options: &ScenarioOptions,
) -> Result<ScenarioReport, LoadError> {
    let began = Clock::Monotonic.now();
    let (all, own, gateways) = (busy_time(), ProcessUsage::of_self()?, run.gateway_usage()?);
    let mut report = match options {
        ScenarioOptions::Connections(options) => connections::run(run, options).await,
        ScenarioOptions::Fanout(options) => fanout::run(run, options).await,
        ScenarioOptions::Storm(options) => storm::run(run, options).await,
        ScenarioOptions::Churn(options) => churn::run(run, options).await,
    }?;
    let took = Clock::Monotonic.now().since(began);
    if let (Some(gateways), Some(gateways_after)) = (gateways, run.gateway_usage()?)
        && let (Some(all), Some(all_after)) = (all, busy_time())
    {
        let own = ProcessUsage::of_self()?.cpu_percent_since(own, took);
        let gateways = gateways_after.cpu_percent_since(gateways, took);
        let all = 100.0 * all_after.saturating_sub(all).as_secs_f64() / took.as_secs_f64();
        let others = (all - own - gateways).max(0.0);
        report.figure("others_cpu_percent", "CPU of others meanwhile", others, FigureUnit::Percent);
    }
    Ok(report)
}

fn write_file(path: &Path, text: &str) -> Result<(), LoadError> {
    fs::write(path, text).map_err(|cause| file_error(path, cause))
}

fn file_error(path: &Path, cause: std::io::Error) -> LoadError {
    LoadError::File { path: path.display().to_string(), cause }
}
