//! The same program over a real pipeline, in an embedded channel.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use waterwheel_channel::{
    Channel, Completion, Ctx, Edit, Events, Handler, HandlerResult, Message, Msg, Pipeline,
    PipelineError,
};
use waterwheel_executor::Error;
use waterwheel_testkit::embedded::Embedded;

use super::handler_script::{Actor, Entry, Event, Known, Place, perform, resolve};
use super::model::SINK;
use super::program::{Act, Interest, MOST_HANDLERS, Program, Spec, Step};

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

/// Futures have it from any thread, though all is on one here.
type Told = Arc<Mutex<Vec<Answer>>>;

/// What became of a write.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) number: u32,
    pub(crate) fine: bool,
    /// Somebody waited for it from the start: so it was told in turn.
    pub(crate) in_turn: bool,
}

/// What all handlers share.
#[derive(Debug)]
struct World {
    specs: Vec<Spec>,
    log: RefCell<Vec<Entry>>,
    /// Which writes were told what became of them, in order.
    told: Told,
    made: Cell<u32>,
    written: Cell<u32>,
    fired: Cell<u32>,
}

impl World {
    fn make(self: &Rc<Self>, spec: usize) -> Option<Actor> {
        let id = self.made.get() + 1;
        (id <= MOST_HANDLERS).then(|| {
            self.made.set(id);
            Actor::new(id, &self.specs[spec % self.specs.len()])
        })
    }

    fn next(counter: &Cell<u32>) -> u32 {
        counter.set(counter.get() + 1);
        counter.get()
    }

    fn log(&self, entry: Entry) {
        self.log.borrow_mut().push(entry);
    }

    /// The next write, and who is told: a closure or a promise.
    fn write(&self, ctx: &Ctx<'_>) -> (Number, Completion) {
        let number = Self::next(&self.written);
        if number.is_multiple_of(2) {
            let (promise, future) = ctx.event_loop().handle().new_promise();
            future.on_complete(self.tell(number, true));
            return (Number(number), promise.into());
        }
        (Number(number), Completion::local(self.tell(number, true)))
    }

    /// By the channel's handle. The future is there only when the call has returned, and the write may
    /// have been told by then.
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
            Known::AddFirst(spec) => (None, Some(spec)),
            Known::AddBefore(at, spec) | Known::AddAfter(at, spec) | Known::Replace(at, spec) => {
                (Some(at), Some(spec))
            }
            Known::Remove(at) => (Some(at), None),
        };
        let at = at.map(name).unwrap_or_default();
        let made = spec.and_then(|spec| self.make(spec));
        if spec.is_some() && made.is_none() {
            return;
        }
        let done: Result<(), PipelineError> = match (known, made) {
            (Known::Remove(_), _) => pipeline.remove(&*at),
            (_, None) => Ok(()),
            (Known::AddFirst(_), Some(actor)) => {
                pipeline.add_first(name(actor.id), self.handler(actor)).map(drop)
            }
            (Known::AddBefore(..), Some(actor)) => {
                pipeline.add_before(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
            (Known::AddAfter(..), Some(actor)) => {
                pipeline.add_after(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
            (Known::Replace(..), Some(actor)) => {
                pipeline.replace(&*at, name(actor.id), self.handler(actor)).map(drop)
            }
        };
        done.expect("the target is there, and the name is new");
    }

    fn handler(self: &Rc<Self>, actor: Actor) -> Real {
        Real { actor, world: self.clone() }
    }
}

/// A flush that meets no reaction leaves nothing behind, and there are fewer reactions than this.
const MOST_FLUSHES: usize = 4 * MOST_HANDLERS as usize;

fn name(id: u32) -> String {
    format!("h{id}")
}

/// What came of it all.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) log: Vec<Entry>,
    pub(crate) told: Vec<Answer>,
    pub(crate) left: Vec<u32>,
    pub(crate) tail: Vec<u32>,
    pub(crate) written: u32,
    /// How often everything had to be flushed in the end.
    pub(crate) flushes: usize,
    pub(crate) pending_before_close: usize,
    pub(crate) pending: usize,
}

pub(crate) fn run(program: &Program) -> Outcome {
    let world = Rc::new(World {
        specs: program.specs.clone(),
        log: RefCell::default(),
        told: Told::default(),
        made: Cell::new(SINK),
        written: Cell::new(0),
        fired: Cell::new(0),
    });
    let mut channel = Embedded::new(|edit| start(edit, &world, program)).expect("any types fit");
    let mut arrived = 0;
    for step in &program.steps {
        perform_step(&mut channel, &world, step, &mut arrived);
    }
    channel.clear_faults();
    // What handlers write when they are asked to flush needs another flush.
    let mut flushes = 0;
    while flushes == 0 || channel.channel().pending_bytes() > 0 && flushes < MOST_FLUSHES {
        flushes += 1;
        perform_step(&mut channel, &world, &Step::Flush, &mut arrived);
    }
    let pending_before_close = channel.channel().pending_bytes();
    channel.close();
    let left = std::iter::from_fn(|| channel.read_outbound_any()).map(number).collect();
    let tail = std::iter::from_fn(|| channel.read_inbound_any()).map(number).collect();
    let pending = channel.channel().pending_bytes();
    assert!(channel.channel().closed().is_done());
    drop(channel);
    let world = Rc::try_unwrap(world).expect("no handler is left");
    Outcome {
        log: world.log.into_inner(),
        told: world.told.lock().unwrap().clone(),
        left,
        tail,
        written: world.written.get(),
        flushes,
        pending_before_close,
        pending,
    }
}

fn start(edit: &mut Edit<'_>, world: &Rc<World>, program: &Program) -> Result<(), Error> {
    for spec in &program.start {
        if let Some(actor) = world.make(*spec) {
            edit.add_last(name(actor.id), world.handler(actor))?;
        }
    }
    edit.add_last("sink", Sink(world.clone()))?;
    Ok(())
}

fn perform_step(channel: &mut Embedded, world: &Rc<World>, step: &Step, arrived: &mut u32) {
    match step {
        Step::Arrive(count) => {
            let numbers = (*arrived + 1..=*arrived + count).map(|n| Number(n).into());
            *arrived += count;
            channel.write_inbound_all(numbers);
        }
        Step::Write => channel.on_loop(|channel| world.write_by(channel)),
        Step::Flush => channel.on_loop(|channel| channel.flush()),
        Step::Fire => {
            let event = Number(World::next(&world.fired));
            channel.on_loop(|channel| channel.fire_user_event(event));
        }
        Step::Edit(edit) => {
            channel.with_pipeline(|pipeline| world.edit(pipeline, *edit, None));
        }
        Step::Jam(room) => channel.set_room(*room),
        Step::Free => channel.clear_faults(),
    }
    channel.run();
}

/// A handler that does what its actor says.
struct Real {
    actor: Actor,
    world: Rc<World>,
}

impl Real {
    fn got(&mut self, ctx: &Ctx<'_>, event: Event, done: &mut Completion) -> HandlerResult {
        self.world.log(Entry::Got(self.actor.id, event));
        let (passed, reaction) = self.actor.prepare(event);
        let mut place = Standing { ctx, world: &self.world, id: self.actor.id, done };
        match perform(passed, &reaction, &mut place) {
            true => Ok(()),
            false => Err(Error::new(std::io::Error::other("on purpose"))),
        }
    }
}

impl Handler for Real {
    fn interest(&self) -> Events {
        let inbound = Events::READ | Events::USER_EVENT | Events::ERROR;
        let outbound = Events::WRITE | Events::FLUSH;
        match self.actor.interest {
            Interest::Everything => inbound | outbound,
            Interest::Inbound => inbound,
            Interest::Outbound => outbound,
        }
    }

    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.world.log(Entry::Added(self.actor.id));
        Ok(())
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        self.world.log(Entry::Removed(self.actor.id));
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
        self.world.log(Entry::Got(self.actor.id, Event::Error));
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

/// A real handler, while it runs.
struct Standing<'a> {
    ctx: &'a Ctx<'a>,
    world: &'a Rc<World>,
    id: u32,
    done: &'a mut Completion,
}

impl Place for Standing<'_> {
    fn pass_on(&mut self, event: Event) {
        match event {
            Event::Read(number) => self.ctx.fire_read(Number(number)),
            Event::User(number) => self.ctx.fire_user_event(Number(number)),
            Event::Write(number) => self.ctx.write_with(Number(number), self.done.take()),
            Event::Flush => self.ctx.flush(),
            Event::Error => unreachable!("passed on by the error method"),
        }
    }

    fn act(&mut self, act: Act) {
        let (ctx, world) = (self.ctx, self.world);
        match act {
            Act::Write => {
                let (number, done) = world.write(ctx);
                ctx.write_with(number, done);
            }
            Act::WriteByChannel => world.write_by(&ctx.channel()),
            Act::WriteByPipeline => {
                let (number, done) = world.write(ctx);
                ctx.pipeline().write_with(number, done);
            }
            Act::Flush => ctx.flush(),
            Act::FlushByChannel => ctx.channel().flush(),
            Act::FireOnward => ctx.fire_user_event(Number(World::next(&world.fired))),
            Act::FireFromHead => {
                ctx.pipeline().fire_user_event(Number(World::next(&world.fired)));
            }
            Act::Edit(edit) => world.edit(ctx.pipeline(), edit, Some(self.id)),
        }
    }
}

/// The last handler: notes what comes in, and lets it go no further.
struct Sink(Rc<World>);

impl Handler for Sink {
    fn interest(&self) -> Events {
        Events::READ | Events::USER_EVENT | Events::ERROR
    }

    fn on_added(&mut self, _: &Ctx<'_>) -> HandlerResult {
        self.0.log(Entry::Added(SINK));
        Ok(())
    }

    fn on_removed(&mut self, _: &Ctx<'_>) {
        self.0.log(Entry::Removed(SINK));
    }

    fn on_read(&mut self, _: &Ctx<'_>, msg: Msg) -> HandlerResult {
        self.0.log(Entry::Got(SINK, Event::Read(number(msg))));
        Ok(())
    }

    fn on_user_event(&mut self, _: &Ctx<'_>, event: Msg) -> HandlerResult {
        self.0.log(Entry::Got(SINK, Event::User(number(event))));
        Ok(())
    }

    fn on_error(&mut self, _: &Ctx<'_>, _: Error) -> HandlerResult {
        self.0.log(Entry::Got(SINK, Event::Error));
        Ok(())
    }
}
