//! A handler that writes down what passes, for tests of pipelines (O04).
//!
//! Each call of a [`Recorder`] is one line in a [`Log`] that the test keeps: the handler's name, the
//! method, and what can be shown of the message. Then it passes the event on, like any handler that has
//! nothing to say to it; unless it was told to do something else at that [`HandlerMethod`].
//!
//! | line | written |
//! |---|---|
//! | `first on_read hello` | when a method of the handler `first` is called; for the methods there are, see [`HandlerMethod`] |
//! | `first dropped` | when the recorder is dropped: after `first on_removed`, or without it if it panicked |
//! | `one that was never added dropped` | when a recorder is dropped that was in no pipeline |
//! | `label ok`, `label failed: …` | when a [completion](Log::completion) or a [listener](Log::listener) is told |
//!
//! The line `dropped` is there to show that handlers go when they should: an edit that is rolled back drops
//! what it has staged without an `on_added` or `on_removed`, and a channel that is closed drops its handlers last.
//!
//! ```
//! use bytes::Bytes;
//! use waterwheel_testkit::embedded::Embedded;
//! use waterwheel_testkit::recorder::{Log, HandlerMethod};
//!
//! let log = Log::new();
//! let mut channel = Embedded::new(|edit| {
//!     edit.add_last("first", log.recorder())?;
//!     edit.add_last("last", log.recorder().at(HandlerMethod::Read, |ctx| {
//!         ctx.write_and_flush(Bytes::from_static(b"world"));
//!         Ok(())
//!     }))?;
//!     Ok(())
//! })?;
//! drop(log.take()); // Added, registered, active.
//! channel.write_inbound(Bytes::from_static(b"hello"));
//! assert_eq!(
//!     log.take()[..4],
//!     ["first on_read hello", "last on_read hello", "first write world", "first flush"]
//! );
//! # Ok::<(), waterwheel_executor::Error>(())
//! ```

mod handler_method;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use waterwheel_channel::{
    Address, Completion, ConnectTarget, Ctx, Events, Handler, HandlerResult, Msg,
};
use waterwheel_executor::{Error, Report, Reporter};

pub use self::handler_method::HandlerMethod;

/// The lines that recorders, completions and the test itself write. A handle, for any thread: so that
/// listeners of futures may write, too.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A handler that writes in it.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        Recorder {
            log: self.clone(),
            name: None,
            interest: Events::ALL,
            acts: Vec::new(),
            held: Vec::new(),
            reading: None,
            writing: None,
            dropping: None,
        }
    }

    /// A completion that writes `<label> ok`, or `<label> failed: …`.
    #[track_caller]
    pub fn completion(&self, label: impl Into<String>) -> Completion {
        let (log, label) = (self.clone(), label.into());
        Completion::local(move |result| log.result(&label, &result))
    }

    /// The same for a future: to be given to its `add_listener`.
    pub fn listener<T>(
        &self,
        label: impl Into<String>,
    ) -> impl FnOnce(&Result<T, Error>) + Send + 'static {
        let (log, label) = (self.clone(), label.into());
        move |result: &Result<T, Error>| log.result(&label, result)
    }

    /// Writes a line.
    pub fn push(&self, line: impl Into<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line.into());
    }

    /// Takes all lines out.
    #[must_use = "to make room only, drop them"]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn result<T>(&self, label: &str, result: &Result<T, Error>) {
        self.push(match result {
            Ok(_) => format!("{label} ok"),
            Err(error) => format!("{label} failed: {error}"),
        });
    }
}

/// Given to an [`EmbeddedBuilder`](crate::embedded::EmbeddedBuilder::reporter) or a group, it has a line for
/// each fault that was reported. Take another log for that: reports come from whichever thread it is.
impl Reporter for Log {
    fn report(&self, report: &Report<'_>) {
        self.push(report.fault.to_string());
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_tuple("Log").field(&*lines).finish()
    }
}

/// What a message looks like in a log: bytes and strings as text, anything else by its type.
#[must_use]
pub fn show(msg: &Msg) -> String {
    match (msg.get::<Bytes>(), msg.get::<String>()) {
        (Some(bytes), _) if bytes.len() > LONG => format!("{} bytes", bytes.len()),
        (Some(bytes), _) => bytes.escape_ascii().to_string(),
        (_, Some(text)) => text.clone(),
        _ => msg.type_name().to_owned(),
    }
}

/// More bytes than this are not shown one by one.
const LONG: usize = 80;

/// A handler that writes down what passes. Made by [`Log::recorder`]; see the
/// [module's documentation](self).
pub struct Recorder {
    log: Log,
    /// Known from when it was added.
    name: Option<String>,
    interest: Events,
    acts: Vec<(HandlerMethod, Act)>,
    held: Vec<HandlerMethod>,
    reading: Option<Reading>,
    writing: Option<Writing>,
    dropping: Option<Box<dyn FnOnce()>>,
}

type Act = Box<dyn FnMut(&Ctx<'_>) -> HandlerResult>;
type Reading = Box<dyn FnMut(&Ctx<'_>, Msg) -> HandlerResult>;
type Writing = Box<dyn FnMut(&Ctx<'_>, Msg, Completion) -> HandlerResult>;

impl Recorder {
    /// Called for these events only. Default: all.
    #[must_use]
    pub fn interest(mut self, events: Events) -> Self {
        self.interest = events;
        self
    }

    /// Does this at that moment, after the line is written and before the event is passed on. If it
    /// fails the event is not, and the handler's method returns the error. A panic is one of the
    /// handler's.
    #[must_use]
    pub fn at(
        mut self,
        moment: HandlerMethod,
        act: impl FnMut(&Ctx<'_>) -> HandlerResult + 'static,
    ) -> Self {
        self.acts.push((moment, Box::new(act)));
        self
    }

    /// Keeps what comes at that moment to itself.
    #[must_use]
    pub fn holds(mut self, moment: HandlerMethod) -> Self {
        self.held.push(moment);
        self
    }

    /// Does this with messages that come in, instead of passing them on.
    #[must_use]
    pub fn reading(mut self, f: impl FnMut(&Ctx<'_>, Msg) -> HandlerResult + 'static) -> Self {
        self.reading = Some(Box::new(f));
        self
    }

    /// Does this with messages that go out, instead of passing them on.
    #[must_use]
    pub fn writing(
        mut self,
        f: impl FnMut(&Ctx<'_>, Msg, Completion) -> HandlerResult + 'static,
    ) -> Self {
        self.writing = Some(Box::new(f));
        self
    }

    /// Does this when it is dropped.
    #[must_use]
    pub fn dropping(mut self, f: impl FnOnce() + 'static) -> Self {
        self.dropping = Some(Box::new(f));
        self
    }

    /// Writes the line, does what is to be done; whether the event is to be passed on.
    fn note(&mut self, moment: HandlerMethod, ctx: &Ctx<'_>, what: &str) -> Result<bool, Error> {
        let space = if what.is_empty() { "" } else { " " };
        self.log.push(format!("{} {}{space}{what}", ctx.name(), moment.method()));
        for (at, act) in &mut self.acts {
            if *at == moment {
                act(ctx)?;
            }
        }
        Ok(!self.held.contains(&moment))
    }
}

macro_rules! passes_on {
    ($($method:ident($($arg:ident: $ty:ty = $shown:expr)?) at $moment:ident => |$ctx:ident| $pass:expr;)*) => {
        $(fn $method(&mut self, $ctx: &Ctx<'_>, $($arg: $ty)?) -> HandlerResult {
            let what = [$($shown)?];
            let what: &[String] = &what;
            if self.note(HandlerMethod::$moment, $ctx, &what.join(""))? {
                $pass;
            }
            Ok(())
        })*
    };
}

impl Handler for Recorder {
    fn interest(&self) -> Events {
        self.interest
    }

    fn on_added(&mut self, ctx: &Ctx<'_>) -> HandlerResult {
        self.name = Some(ctx.name());
        self.note(HandlerMethod::Added, ctx, "").map(drop)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Err(error) = self.note(HandlerMethod::Removed, ctx, "") {
            ctx.fire_error(error);
        }
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let passes = self.note(HandlerMethod::Read, ctx, &show(&msg))?;
        match &mut self.reading {
            Some(reading) => return reading(ctx, msg),
            None if passes => ctx.fire_read(msg),
            None => {}
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let passes = self.note(HandlerMethod::Write, ctx, &show(&msg))?;
        match &mut self.writing {
            Some(writing) => return writing(ctx, msg, done.take()),
            None if passes => ctx.write_with(msg, done.take()),
            None => {}
        }
        Ok(())
    }

    passes_on! {
        on_registered() at Registered => |ctx| ctx.fire_registered();
        on_unregistered() at Unregistered => |ctx| ctx.fire_unregistered();
        on_active() at Active => |ctx| ctx.fire_active();
        on_inactive() at Inactive => |ctx| ctx.fire_inactive();
        on_read_complete() at ReadComplete => |ctx| ctx.fire_read_complete();
        on_user_event(event: Msg = show(&event)) at UserEvent => |ctx| ctx.fire_user_event(event);
        on_writability_changed() at WritabilityChanged => |ctx| ctx.fire_writability_changed();
        on_error(error: Error = error.to_string()) at Error => |ctx| ctx.fire_error(error);
        read() at BeginRead => |ctx| ctx.read();
        flush() at Flush => |ctx| ctx.flush();
    }

    fn on_timer(&mut self, ctx: &Ctx<'_>, tag: u32) -> HandlerResult {
        self.note(HandlerMethod::Timer, ctx, &tag.to_string()).map(drop)
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        if self.note(HandlerMethod::Bind, ctx, &to.to_string())? {
            ctx.bind_with(to, done.take());
        }
        Ok(())
    }

    fn connect(
        &mut self,
        ctx: &Ctx<'_>,
        to: ConnectTarget,
        done: &mut Completion,
    ) -> HandlerResult {
        if self.note(HandlerMethod::Connect, ctx, &to.remote.to_string())? {
            ctx.connect_with(to, done.take());
        }
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.note(HandlerMethod::Disconnect, ctx, "")? {
            ctx.disconnect_with(done.take());
        }
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.note(HandlerMethod::Close, ctx, "")? {
            ctx.close_with(done.take());
        }
        Ok(())
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.note(HandlerMethod::Deregister, ctx, "")? {
            ctx.deregister_with(done.take());
        }
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.note(HandlerMethod::ShutdownOutput, ctx, "")? {
            ctx.shutdown_output_with(done.take());
        }
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let name = self.name.as_deref().unwrap_or("one that was never added");
        self.log.push(format!("{name} dropped"));
        if let Some(dropping) = self.dropping.take() {
            dropping();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moments = self.acts.iter().map(|(moment, _)| *moment);
        f.debug_struct("Recorder")
            .field("name", &self.name)
            .field("acts_at", &moments.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
