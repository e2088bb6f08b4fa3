//! The scripted behaviour of a handler, shared by the real pipeline and the model.

use std::collections::VecDeque;

use super::program::{Action, CallEnd, Edit, EditTarget, HandlerSpec, Interest, Reaction};

/// An event as a handler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Read(u32),
    User(u32),
    Error,
    Write(u32),
    Flush,
}

impl Event {
    pub(crate) fn is_inbound(self) -> bool {
        matches!(self, Event::Read(_) | Event::User(_) | Event::Error)
    }

    pub(crate) fn concerns(self, interest: Interest) -> bool {
        match interest {
            Interest::Everything => true,
            Interest::Inbound => self.is_inbound(),
            Interest::Outbound => !self.is_inbound(),
            Interest::Reads => matches!(self, Event::Read(_)),
            Interest::Writes => matches!(self, Event::Write(_)),
            Interest::Flushes => self == Event::Flush,
        }
    }
}

/// A log entry of one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEntry {
    Added(u32),
    Got(u32, Event),
    Removed(u32),
}

/// The operations available to a handler during a call.
pub(crate) trait HandlerPosition {
    /// Passes an event on, in its own direction.
    fn pass_on(&mut self, event: Event);
    fn act(&mut self, act: Action);
}

/// A handler's own state.
#[derive(Debug)]
pub(crate) struct ScriptedHandler {
    pub(crate) id: u32,
    pub(crate) interest: Interest,
    pub(crate) holds: bool,
    keeps: bool,
    kept: Option<u32>,
    script: VecDeque<Reaction>,
}

impl ScriptedHandler {
    pub(crate) fn new(id: u32, spec: &HandlerSpec) -> Self {
        let script = spec.script.iter().cloned().collect();
        let holds =
            spec.holds && matches!(spec.interest, Interest::Everything | Interest::Outbound);
        Self { id, interest: spec.interest, holds, keeps: spec.keeps, kept: None, script }
    }

    /// Returns the event to pass on and the reaction for this call.
    pub(crate) fn prepare(&mut self, event: Event) -> (Option<Event>, Reaction) {
        let passed = match event {
            Event::Read(number) if self.keeps => self.kept.replace(number).map(Event::Read),
            other => Some(other),
        };
        let reaction = match event {
            Event::Error => Reaction::default(),
            _ => self.script.pop_front().unwrap_or_default(),
        };
        (passed, reaction)
    }

    pub(crate) fn has_kept(&self) -> bool {
        self.kept.is_some()
    }

    pub(crate) fn take_kept(&mut self) -> Option<u32> {
        self.kept.take()
    }
}

/// Performs a prepared reaction. Returns true if the call succeeds.
pub(crate) fn perform(
    passed: Option<Event>,
    reaction: &Reaction,
    place: &mut impl HandlerPosition,
) -> bool {
    reaction.before.iter().for_each(|act| place.act(*act));
    let refused = reaction.end == CallEnd::Refuses && matches!(passed, Some(Event::Write(_)));
    if let Some(event) = passed.filter(|_| !refused) {
        place.pass_on(event);
    }
    reaction.after.iter().for_each(|act| place.act(*act));
    reaction.end == CallEnd::Fine
}

/// Returns the handler that an edit names among those present; `None` if there is none.
pub(crate) fn pick(target: EditTarget, me: Option<u32>, there: &[u32]) -> Option<u32> {
    match (target, me) {
        (EditTarget::Me, Some(me)) => Some(me).filter(|me| there.contains(me)),
        (EditTarget::Me, None) => there.first().copied(),
        (EditTarget::Nth(n), _) => there.get(n % there.len().max(1)).copied(),
    }
}

/// An edit with its target resolved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResolvedEdit {
    AddFirst(usize),
    AddBefore(u32, usize),
    AddAfter(u32, usize),
    Remove(u32),
    Replace(u32, usize),
}

pub(crate) fn resolve(edit: Edit, me: Option<u32>, there: &[u32]) -> Option<ResolvedEdit> {
    let find = |target| pick(target, me, there);
    Some(match edit {
        Edit::AddFirst(spec) => ResolvedEdit::AddFirst(spec),
        Edit::AddBefore(at, spec) => ResolvedEdit::AddBefore(find(at)?, spec),
        Edit::AddAfter(at, spec) => ResolvedEdit::AddAfter(find(at)?, spec),
        Edit::Remove(at) => ResolvedEdit::Remove(find(at)?),
        Edit::Replace(at, spec) => ResolvedEdit::Replace(find(at)?, spec),
    })
}
