//! Runs a program over a real pipeline, in an embedded channel.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use waterwheel_channel::{
    Channel, Completion, Ctx, Edit, Events, Handler, HandlerResult, Message, Msg,
    PendingWriteQueue, Pipeline, PipelineError,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use super::handler_script::{
    Event, HandlerPosition, LogEntry, ResolvedEdit, ScriptedHandler, perform, resolve,
};
use super::model::SINK;
use super::program::{Action, HandlerSpec, Interest, MAX_HANDLERS, Program, ProgramStep};

/// A message with a number.
#[derive(Debug)]
struct Number(u32);

impl Message for Number {
    fn size_hint(&self) -> usize {
        10
    }
}

fn number(msg: Msg) -> u32 {
    msg.take::<Number>().expect("all messages are numbers").0
}

/// Outcomes shared with futures, which must be `Send`, although everything runs on one thread here.
type WriteOutcomes = Arc<Mutex<Vec<Answer>>>;

/// The outcome of a write.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) number: u32,
    pub(crate) fine: bool,
    /// True if the completion was given with the write, so that it is called in order.
    pub(crate) in_turn: bool,
}

/// State shared by all handlers.
#[derive(Debug)]
struct SharedState {
    specs: Vec<HandlerSpec>,
    log: RefCell<Vec<LogEntry>>,
    /// Outcomes of the writes, in order of completion.
    told: WriteOutcomes,
    made: Cell<u32>,
    written: Cell<u32>,
    fired: Cell<u32>,
}

impl SharedState {
    fn make(self: &Rc<Self>, spec: usize) -> Option<ScriptedHandler> {
        let id = self.made.get() + 1;
        (id <= MAX_HANDLERS).then(|| {
            self.made.set(id);
            ScriptedHandler::new(id, &self.specs[spec % self.specs.len()])
        })
    }

    fn next(counter: &Cell<u32>) -> u32 {
        counter.set(counter.get() + 1);
        counter.get()
    }

    fn log(&self, entry: LogEntry) {
        self.log.borrow_mut().push(entry);
    }

    /// Returns the next write with its completion: a closure or a promise.
    fn write(&self, ctx: &Ctx<'_>) -> (Number, Completion) {
        let number = Self::next(&self.written);
        if number.is_multiple_of(2) {
            let (promise, future) = ctx.event_loop().handle().new_promise();
            future.on_complete(self.tell(number, true));
            return (Number(number), promise.into());
        }
        (Number(number), Completion::local(self.tell(number, true)))
    }

    /// Writes through the channel's handle. The future exists only after the call returned, and the write may
    /// have completed by then.
    fn write_by(&self, channel: &Channel) {
        let number = Self::next(&self.written);
        channel.write(Number(number)).on_complete(self.tell(number, false));
    }

    fn tell(&self, number: u32, in_turn: bool) -> impl FnOnce(Result<(), Error>) + Send + use<> {
        let told = self.told.clone();
        move |result: Result<(), Error>| {
            told.lock().unwrap().push(Answer { number, fine: result.is_ok(), in_turn });
        }
    }

    fn edit(self: &Rc<Self>, pipeline: Pipeline<'_>, edit: super::program::Edit, me: Option<u32>) {
        let names = pipeline.names();
        let there: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix('h')?.parse().ok()).collect();
        let Some(known) = resolve(edit, me, &there) else { return };
        let (at, spec) = match known {
            ResolvedEdit::AddFirst(spec) => (None, Some(spec)),
            ResolvedEdit::AddBefore(at, spec)
            | ResolvedEdit::AddAfter(at, spec)
            | ResolvedEdit::Replace(at, spec) => (Some(at), Some(spec)),
            ResolvedEdit::Remove(at) => (Some(at), None),
        };
        let at = at.map(name).unwrap_or_default();
        let made = spec.and_then(|spec| self.make(spec));
        if spec.is_some() && made.is_none() {
            return;
        }
        let done: Result<(), PipelineError> = match (known, made) {
            (ResolvedEdit::Remove(_), _) => pipeline.remove(&*at),
            (_, None) => Ok(()),
            (ResolvedEdit::AddFirst(_), Some(actor)) => {
                pipeline.add_first(name(actor.id), self.handler(actor)).map(drop)
            }
            (ResolvedEdit::AddBefore(..), Some(actor)) => {
                pipeline.add_before(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
            (ResolvedEdit::AddAfter(..), Some(actor)) => {
                pipeline.add_after(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
            (ResolvedEdit::Replace(..), Some(actor)) => {
                pipeline.replace(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
        };
        done.expect("the target is there, and the name is new");
    }

    fn handler(self: &Rc<Self>, actor: ScriptedHandler) -> RealHandler {
        RealHandler { actor, held: PendingWriteQueue::default(), shared: self.clone() }
    }
}

/// Maximum number of flushes: a flush without a reaction leaves nothing pending, and reactions are fewer.
const MAX_FLUSHES: usize = 4 * MAX_HANDLERS as usize;

fn name(id: u32) -> String {
    format!("h{id}")
}

/// The outcome of a program.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) log: Vec<LogEntry>,
    pub(crate) told: Vec<Answer>,
    pub(crate) left: Vec<u32>,
    pub(crate) tail: Vec<u32>,
    pub(crate) written: u32,
    /// Number of flushes at the end until nothing was pending.
    pub(crate) flushes: usize,
    pub(crate) pending_before_close: usize,
    pub(crate) pending: usize,
}

pub(crate) fn run(program: &Program) -> Outcome {
    let shared = Rc::new(SharedState {
        specs: program.specs.clone(),
        log: RefCell::default(),
        told: WriteOutcomes::default(),
        made: Cell::new(SINK),
        written: Cell::new(0),
        fired: Cell::new(0),
    });
    let mut channel = Embedded::new(|edit| start(edit, &shared, program)).expect("any types fit");
    let mut arrived = 0;
    for step in &program.steps {
        perform_step(&mut channel, &shared, step, &mut arrived);
    }
    channel.clear_faults();
    // Writes that handlers make in `flush` need another flush.
    let mut flushes = 0;
    while flushes == 0 || channel.channel().pending_bytes() > 0 && flushes < MAX_FLUSHES {
        flushes += 1;
        perform_step(&mut channel, &shared, &ProgramStep::Flush, &mut arrived);
    }
    let pending_before_close = channel.channel().pending_bytes();
    channel.close();
    let left = std::iter::from_fn(|| channel.read_outbound_any()).map(number).collect();
    let tail = std::iter::from_fn(|| channel.read_inbound_any()).map(number).collect();
    let pending = channel.channel().pending_bytes();
    assert!(channel.channel().closed().is_done());
    drop(channel);
    let shared = Rc::try_unwrap(shared).expect("no handler is left");
    Outcome {
        log: shared.log.into_inner(),
        told: shared.told.lock().unwrap().clone(),
        left,
        tail,
        written: shared.written.get(),
        flushes,
        pending_before_close,
        pending,
    }
}

fn start(edit: &mut Edit<'_>, shared: &Rc<SharedState>, program: &Program) -> Result<(), Error> {
    for spec in &program.start {
        if let Some(actor) = shared.make(*spec) {
            edit.add_last(name(actor.id), shared.handler(actor))?;
        }
    }
    edit.add_last("sink", Sink(shared.clone()))?;
    Ok(())
}

fn perform_step(
    channel: &mut Embedded,
    shared: &Rc<SharedState>,
    step: &ProgramStep,
    arrived: &mut u32,
) {
    match step {
        ProgramStep::Arrive(count) => {
            let numbers = (*arrived + 1..=*arrived + count).map(|n| Number(n).into());
            *arrived += count;
            channel.write_inbound_all(numbers);
        }
        ProgramStep::Write => channel.on_loop(|channel| shared.write_by(channel)),
        ProgramStep::Flush => channel.on_loop(|channel| channel.flush()),
        ProgramStep::Fire => {
            let event = Number(SharedState::next(&shared.fired));
            channel.on_loop(|channel| channel.fire_user_event(event));
        }
        ProgramStep::Edit(edit) => {
            channel.with_pipeline(|pipeline| shared.edit(pipeline, *edit, None));
        }
        ProgramStep::Jam(room) => channel.set_room(*room),
        ProgramStep::Free => channel.clear_faults(),
    }
    channel.run();
}

/// A handler that performs its script.
struct RealHandler {
    actor: ScriptedHandler,
    held: PendingWriteQueue,
    shared: Rc<SharedState>,
}

impl RealHandler {
    fn got(&mut self, ctx: &Ctx<'_>, event: Event, done: &mut Completion) -> HandlerResult {
        self.shared.log(LogEntry::Got(self.actor.id, event));
        let (passed, reaction) = self.actor.prepare(event);
        let (id, held) = (self.actor.id, self.actor.holds.then_some(&mut self.held));
        let mut place = RunningHandler { ctx, shared: &self.shared, id, held, done };
        match perform(passed, &reaction, &mut place) {
            true => Ok(()),
            false => Err(Error::new(std::io::Error::other("on purpose"))),
        }
    }
}

impl Handler for RealHandler {
    fn interest(&self) -> Events {
        let inbound = Events::READ | Events::USER_EVENT | Events::ERROR;
        let outbound = Events::WRITE | Events::FLUSH;
        match self.actor.interest {
            Interest::Everything => inbound | outbound,
            Interest::Inbound => inbound,
            Interest::Outbound => outbound,
            Interest::Reads => Events::READ,
            Interest::Writes => Events::WRITE,
            Interest::Flushes => Events::FLUSH,
        }
    }

    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.shared.log(LogEntry::Added(self.actor.id));
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.shared.log(LogEntry::Removed(self.actor.id));
        self.held.write_all(ctx);
        if let Some(number) = self.actor.take_kept() {
            ctx.fire_read(Number(number));
        }
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.got(ctx, Event::Read(number(msg)), &mut Completion::none())
    }

    fn on_user_event(&mut self, ctx: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.got(ctx, Event::User(number(event)), &mut Completion::none())
    }

    fn on_error(&mut self, ctx: &Ctx<'_>, error: Error) -> HandlerResult {
        self.shared.log(LogEntry::Got(self.actor.id, Event::Error));
        ctx.fire_error(error);
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        self.got(ctx, Event::Write(number(msg)), done)
    }

    fn flush(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.got(ctx, Event::Flush, &mut Completion::none())
    }
}

/// A real handler during a call.
struct RunningHandler<'a> {
    ctx: &'a Ctx<'a>,
    shared: &'a Rc<SharedState>,
    id: u32,
    /// The writes held back, if the handler holds writes.
    held: Option<&'a mut PendingWriteQueue>,
    done: &'a mut Completion,
}

impl HandlerPosition for RunningHandler<'_> {
    fn pass_on(&mut self, event: Event) {
        match event {
            Event::Read(number) => self.ctx.fire_read(Number(number)),
            Event::User(number) => self.ctx.fire_user_event(Number(number)),
            Event::Write(number) => match &mut self.held {
                Some(held) => held.push(self.ctx, Number(number), self.done.take()),
                None => self.ctx.write_with(Number(number), self.done.take()),
            },
            Event::Flush => {
                if let Some(held) = &mut self.held {
                    held.flush();
                    while held.flushed() > 0 && held.write_next(self.ctx).is_some() {}
                }
                self.ctx.flush();
            }
            Event::Error => unreachable!("passed on by the error method"),
        }
    }

    fn act(&mut self, act: Action) {
        let (ctx, shared) = (self.ctx, self.shared);
        match act {
            Action::Write => {
                let (number, done) = shared.write(ctx);
                ctx.write_with(number, done);
            }
            Action::WriteByChannel => shared.write_by(&ctx.channel()),
            Action::WriteByPipeline => {
                let (number, done) = shared.write(ctx);
                ctx.pipeline().write_with(number, done);
            }
            Action::Flush => ctx.flush(),
            Action::FlushByChannel => ctx.channel().flush(),
            Action::FireOnward => ctx.fire_user_event(Number(SharedState::next(&shared.fired))),
            Action::FireFromHead => {
                ctx.pipeline().fire_user_event(Number(SharedState::next(&shared.fired)));
            }
            Action::Edit(edit) => shared.edit(ctx.pipeline(), edit, Some(self.id)),
        }
    }
}

/// The last handler: logs inbound numbers and consumes them.
struct Sink(Rc<SharedState>);

impl Handler for Sink {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR
    }

    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.log(LogEntry::Added(SINK));
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.log(LogEntry::Removed(SINK));
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.log(LogEntry::Got(SINK, Event::Read(number(msg))));
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0.log(LogEntry::Got(SINK, Event::User(number(event))));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        self.0.log(LogEntry::Got(SINK, Event::Error));
        Ok(())
    }
}
