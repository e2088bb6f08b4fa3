//! A handler that logs the events that pass through it, for tests of pipelines (O04).
//!
//! Each call of a [`Recorder`] adds one line to a [`Log`] that the test keeps: the handler's name, the method, and
//! the message as text. Then the recorder passes the event on, unless the test has given it another action for that
//! [`RecordedMethod`].
//!
//! | line | meaning |
//! |---|---|
//! | `first on_read hello` | a method of the handler `first` was called; [`RecordedMethod`] lists the methods |
//! | `first dropped` | the recorder was dropped: after `first on_removed`, or without it if that panicked |
//! | `never-added dropped` | a recorder that was never in a pipeline was dropped |
//! | `label ok`, `label failed: …` | a [completion](Log::completion) or a [listener](Log::listener) was called |
//!
//! The `dropped` lines show when handlers are dropped: an edit that is rolled back drops its staged handlers without
//! `on_added` or `on_removed`, and a closed channel drops its handlers last.
//!
//! ```
//! use bytes::Bytes;
//! use waterwheel_testkit::embedded::Embedded;
//! use waterwheel_testkit::recorder::{Log, RecordedMethod};
//!
//! let log = Log::new();
//! let mut channel = Embedded::new(|edit| {
//!     edit.add_last("first", log.recorder())?;
//!     edit.add_last("last", log.recorder().at(RecordedMethod::Read, |ctx| {
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

pub use self::handler_method::RecordedMethod;

/// The lines that recorders, completions, listeners and the test write. Clones share the lines and may be used on any
/// thread.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a recorder that writes to this log.
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

    /// Creates a completion that writes `<label> ok`, or `<label> failed: …`.
    #[track_caller]
    pub fn completion(&self, label: impl Into<String>) -> Completion {
        let (log, label) = (self.clone(), label.into());
        Completion::local(move |result| log.result(&label, &result))
    }

    /// Creates a listener for `add_listener` of a future that writes `<label> ok`, or `<label> failed: …`.
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

    /// Takes all lines.
    #[must_use = "drop the lines to clear the log"]
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

/// Collects faults: as the reporter of an [`EmbeddedBuilder`](crate::embedded::EmbeddedBuilder::reporter) or a group,
/// the log gets a line for each reported fault. Use a separate log for faults: reports come from any thread.
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

/// Returns a message as text for the log: bytes and strings as text, other messages by their type name.
#[must_use]
pub fn show(msg: &Msg) -> String {
    match (msg.get::<Bytes>(), msg.get::<String>()) {
        (Some(bytes), _) if bytes.len() > LONG => format!("{} bytes", bytes.len()),
        (Some(bytes), _) => bytes.escape_ascii().to_string(),
        (_, Some(text)) => text.clone(),
        _ => msg.type_name().to_owned(),
    }
}

/// The maximum length of bytes that are logged as text; longer bytes are logged by their length.
const LONG: usize = 80;

/// A handler that logs the events that pass through it, created by [`Log::recorder`]. See the
/// [module's documentation](self).
pub struct Recorder {
    log: Log,
    /// The handler's name, set by `on_added`.
    name: Option<String>,
    interest: Events,
    acts: Vec<(RecordedMethod, RecorderAction)>,
    held: Vec<RecordedMethod>,
    reading: Option<ReadAction>,
    writing: Option<WriteAction>,
    dropping: Option<Box<dyn FnOnce()>>,
}

type RecorderAction = Box<dyn FnMut(&Ctx<'_>) -> HandlerResult>;
type ReadAction = Box<dyn FnMut(&Ctx<'_>, Msg) -> HandlerResult>;
type WriteAction = Box<dyn FnMut(&Ctx<'_>, Msg, Completion) -> HandlerResult>;

impl Recorder {
    /// Sets the events for which the recorder is called. Default: all.
    #[must_use]
    pub fn interest(mut self, events: Events) -> Self {
        self.interest = events;
        self
    }

    /// Calls `act` in this method, after the line is written and before the event is passed on. If `act` fails, the
    /// event is not passed on and the method returns the error. A panic counts as a panic of the handler.
    #[must_use]
    pub fn at(
        mut self,
        method: RecordedMethod,
        act: impl FnMut(&Ctx<'_>) -> HandlerResult + 'static,
    ) -> Self {
        self.acts.push((method, Box::new(act)));
        self
    }

    /// Stops the events of this method: the recorder logs them and does not pass them on.
    #[must_use]
    pub fn holds(mut self, method: RecordedMethod) -> Self {
        self.held.push(method);
        self
    }

    /// Calls `f` with inbound messages instead of passing them on.
    #[must_use]
    pub fn reading(mut self, f: impl FnMut(&Ctx<'_>, Msg) -> HandlerResult + 'static) -> Self {
        self.reading = Some(Box::new(f));
        self
    }

    /// Calls `f` with outbound messages instead of passing them on.
    #[must_use]
    pub fn writing(
        mut self,
        f: impl FnMut(&Ctx<'_>, Msg, Completion) -> HandlerResult + 'static,
    ) -> Self {
        self.writing = Some(Box::new(f));
        self
    }

    /// Calls `f` when the recorder is dropped.
    #[must_use]
    pub fn dropping(mut self, f: impl FnOnce() + 'static) -> Self {
        self.dropping = Some(Box::new(f));
        self
    }

    /// Writes the line and calls the actions of this method; returns true if the event should be passed on.
    fn record(&mut self, method: RecordedMethod, ctx: &Ctx<'_>, what: &str) -> Result<bool, Error> {
        let space = if what.is_empty() { "" } else { " " };
        self.log.push(format!("{} {}{space}{what}", ctx.name(), method.name()));
        for (at, act) in &mut self.acts {
            if *at == method {
                act(ctx)?;
            }
        }
        Ok(!self.held.contains(&method))
    }
}

macro_rules! passes_on {
    ($($function:ident($($arg:ident: $ty:ty = $shown:expr)?) at $method:ident => |$ctx:ident| $pass:expr;)*) => {
        $(fn $function(&mut self, $ctx: &Ctx<'_>, $($arg: $ty)?) -> HandlerResult {
            let what = [$($shown)?];
            let what: &[String] = &what;
            if self.record(RecordedMethod::$method, $ctx, &what.join(""))? {
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
        self.record(RecordedMethod::Added, ctx, "").map(drop)
    }

    fn on_removed(&mut self, ctx: &Ctx<'_>) {
        if let Err(error) = self.record(RecordedMethod::Removed, ctx, "") {
            ctx.fire_error(error);
        }
    }

    fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
        let passes = self.record(RecordedMethod::Read, ctx, &show(&msg))?;
        match &mut self.reading {
            Some(reading) => return reading(ctx, msg),
            None if passes => ctx.fire_read(msg),
            None => {}
        }
        Ok(())
    }

    fn write(&mut self, ctx: &Ctx<'_>, msg: Msg, done: &mut Completion) -> HandlerResult {
        let passes = self.record(RecordedMethod::Write, ctx, &show(&msg))?;
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
        self.record(RecordedMethod::Timer, ctx, &tag.to_string()).map(drop)
    }

    fn bind(&mut self, ctx: &Ctx<'_>, to: Address, done: &mut Completion) -> HandlerResult {
        if self.record(RecordedMethod::Bind, ctx, &to.to_string())? {
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
        if self.record(RecordedMethod::Connect, ctx, &to.remote.to_string())? {
            ctx.connect_with(to, done.take());
        }
        Ok(())
    }

    fn disconnect(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.record(RecordedMethod::Disconnect, ctx, "")? {
            ctx.disconnect_with(done.take());
        }
        Ok(())
    }

    fn close(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.record(RecordedMethod::Close, ctx, "")? {
            ctx.close_with(done.take());
        }
        Ok(())
    }

    fn deregister(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.record(RecordedMethod::Deregister, ctx, "")? {
            ctx.deregister_with(done.take());
        }
        Ok(())
    }

    fn shutdown_output(&mut self, ctx: &Ctx<'_>, done: &mut Completion) -> HandlerResult {
        if self.record(RecordedMethod::ShutdownOutput, ctx, "")? {
            ctx.shutdown_output_with(done.take());
        }
        Ok(())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let name = self.name.as_deref().unwrap_or("never-added");
        self.log.push(format!("{name} dropped"));
        if let Some(dropping) = self.dropping.take() {
            dropping();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods = self.acts.iter().map(|(method, _)| *method);
        f.debug_struct("Recorder")
            .field("name", &self.name)
            .field("acts_at", &methods.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
