//! Opens the connections of many clients, a limited number at the same time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use waterwheel::channel::{LocalLoop, sleep};
use waterwheel::executor::{Clock, Error, Nanos};

use super::connection_counts::ConnectionCounts;
use super::connector::LoadConnector;
use super::subscriber::LoadSubscriber;
use crate::error::LoadError;
use crate::progress::ProgressSender;
use crate::stop::StopFlag;

/// The first pause before a client tries again; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause before a client tries again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How a set of clients connects.
#[derive(Clone)]
pub(crate) struct OpeningPlan {
    /// Connections that are being opened at the same time.
    pub(crate) in_flight: usize,
    /// Clients that fail try again until this time; none if a failure ends the scenario.
    pub(crate) retry_until: Option<Nanos>,
    /// The name of this step in the progress.
    pub(crate) phase: &'static str,
    pub(crate) counts: Rc<ConnectionCounts>,
    pub(crate) progress: ProgressSender,
    pub(crate) stop: StopFlag,
}

/// Opens the connections of all these clients. Returns early, with some of them open, if the scenario is to stop. The number of
/// attempts that failed is the result.
pub(crate) async fn open_all(
    clients: &[Rc<LoadSubscriber>],
    connector: &Rc<LoadConnector>,
    plan: &OpeningPlan,
) -> Result<u64, LoadError> {
    let here = LocalLoop::current().ok_or_else(|| Error::closed("no event loop runs here"))?;
    let all = clients.len() as u64;
    let waiting = Rc::new(RefCell::new(clients.iter().cloned().collect::<VecDeque<_>>()));
    let failures = Rc::new(Cell::new(0));
    let worker = |_| {
        let (waiting, connector) = (waiting.clone(), connector.clone());
        let (plan, failures) = (plan.clone(), failures.clone());
        here.spawn_local(async move {
            while !plan.stop.is_set() {
                let next = waiting.borrow_mut().pop_front();
                let Some(client) = next else { break };
                if let Err(error) = open_one(&client, &connector, &plan, &failures).await {
                    waiting.borrow_mut().clear(); // Makes the other workers end.
                    return Err(error);
                }
                plan.progress.note(plan.phase, plan.counts.open() as u64, all);
            }
            Ok(())
        })
    };
    let workers: Vec<_> = (0..plan.in_flight.min(clients.len())).map(worker).collect();
    let mut outcome = Ok(());
    for worker in workers {
        outcome = outcome.and(worker.await?);
    }
    outcome.map(|()| failures.get())
}

async fn open_one(
    client: &Rc<LoadSubscriber>,
    connector: &LoadConnector,
    plan: &OpeningPlan,
    failures: &Cell<u64>,
) -> Result<(), LoadError> {
    let mut pause = FIRST_PAUSE;
    loop {
        let Err(error) = client.open(connector).await else { return Ok(()) };
        failures.set(failures.get() + 1);
        let may_retry = plan.retry_until.is_some_and(|until| Clock::Monotonic.now() < until);
        if !may_retry || plan.stop.is_set() {
            return Err(error);
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
