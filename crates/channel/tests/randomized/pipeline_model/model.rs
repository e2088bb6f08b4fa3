//! A model of the ordering contract: rules 2 to 5 and 12, and nothing else.
//!
//! A pipeline is a list of handlers. Each has two queues: `newer` holds the events that arrived during its
//! current call, `older` the events left from before that call. The rules follow:
//!
//! - An event that reaches a running handler waits in `newer`; when the call returns, the waiting events are
//!   delivered in order, each as a call of its own (rule 2).
//! - An outbound event of a running handler is queued after its `newer` events, which arrived first (rule 3),
//!   but not after its `older` events: the current call precedes them.
//! - A handler removed while it runs still receives the events that waited at its removal. Later events
//!   bypass it, after the waiting events if there are any (rule 4).
//! - While an event waits at a handler, later events of the same direction wait after it, and pass the handler in
//!   their turn if it is not interested in them (rule 12).
//! - A removed handler stays in the list until its call returns, so that events it still emits find their
//!   way (rule 5).
//!
//! The model has no wire and no buffer: writes leave in the order in which they arrive at the head.

use std::collections::VecDeque;

use super::handler_script::{
    Event, HandlerPosition, LogEntry, ResolvedEdit, ScriptedHandler, perform, resolve,
};
use super::program::{Action, HandlerSpec, Interest, MAX_HANDLERS, Program, ProgramStep};

/// Id of the last handler, which consumes inbound events.
pub(crate) const SINK: u32 = 0;

#[derive(Debug)]
pub(crate) struct Model<'a> {
    program: &'a Program,
    /// Handlers by id; removed handlers stay here and leave `order`.
    handlers: Vec<Handler>,
    order: Vec<u32>,
    pub(crate) log: Vec<LogEntry>,
    /// Numbers that reached the tail after the sink was removed.
    pub(crate) tail: Vec<u32>,
    /// Numbers that reached the head.
    pub(crate) left: Vec<u32>,
    /// True if a handler was removed during a call while it held a number: numbers that arrive before that
    /// call returns bypass the handler and overtake that number.
    pub(crate) overtaken: bool,
    arrived: u32,
    written: u32,
    fired: u32,
}

#[derive(Debug)]
struct Handler {
    actor: ScriptedHandler,
    /// Writes that the handler holds back.
    held: VecDeque<u32>,
    runs: bool,
    removed: bool,
    /// True if the handler was removed while events waited: later events queue after them.
    keeps_place: bool,
    older: VecDeque<(Event, bool)>,
    newer: VecDeque<(Event, bool)>,
    /// True once an outbound or an inbound event has waited since the call began: all of that direction stop here.
    stops: [bool; 2],
}

impl Handler {
    fn enqueue(&mut self, event: Event, for_it: bool) {
        self.stops[usize::from(event.is_inbound())] = true;
        self.newer.push_back((event, for_it));
    }

    fn wants(&self, event: Event) -> bool {
        event.concerns(self.actor.interest)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Head,
    Tail,
    At(u32),
}

impl<'a> Model<'a> {
    pub(crate) fn new(program: &'a Program) -> Self {
        let mut model = Self {
            program,
            handlers: Vec::new(),
            order: Vec::new(),
            log: Vec::new(),
            tail: Vec::new(),
            left: Vec::new(),
            overtaken: false,
            arrived: 0,
            written: 0,
            fired: 0,
        };
        let sink = HandlerSpec {
            interest: Interest::Inbound,
            keeps: false,
            holds: false,
            script: Vec::new(),
        };
        let mut start = vec![model.make(&sink)];
        for spec in &program.start {
            start.extend(model.make_from(*spec));
        }
        model.order = start[1..].iter().copied().chain([SINK]).collect();
        model.log = model.order.iter().map(|id| LogEntry::Added(*id)).collect();
        model
    }

    pub(crate) fn step(&mut self, step: &ProgramStep) {
        match step {
            ProgramStep::Arrive(count) => (0..*count).for_each(|_| {
                self.arrived += 1;
                self.deliver_from(Origin::Head, Event::Read(self.arrived));
            }),
            ProgramStep::Write => self.write(Origin::Tail),
            ProgramStep::Flush => self.deliver_from(Origin::Tail, Event::Flush),
            ProgramStep::Fire => self.fire(Origin::Head),
            ProgramStep::Edit(edit) => {
                let known = resolve(*edit, None, &self.there());
                known.into_iter().for_each(|known| self.edit(known));
            }
            ProgramStep::Jam(_) | ProgramStep::Free => {}
        }
    }

    /// Closes the channel: removes all handlers from the tail to the head.
    pub(crate) fn close(&mut self) {
        while let Some(last) = self.present().last() {
            self.remove(*last);
        }
    }

    fn make(&mut self, spec: &HandlerSpec) -> u32 {
        let id = self.handlers.len() as u32;
        self.handlers.push(Handler {
            actor: ScriptedHandler::new(id, spec),
            held: VecDeque::new(),
            runs: false,
            removed: false,
            keeps_place: false,
            older: VecDeque::new(),
            newer: VecDeque::new(),
            stops: [false; 2],
        });
        id
    }

    fn make_from(&mut self, spec: usize) -> Option<u32> {
        let room = self.handlers.len() as u32 <= MAX_HANDLERS;
        room.then(|| self.make(&self.program.specs[spec % self.program.specs.len()]))
    }

    fn at(&mut self, id: u32) -> &mut Handler {
        &mut self.handlers[id as usize]
    }

    fn present(&self) -> Vec<u32> {
        let present = |id: &&u32| !self.handlers[**id as usize].removed;
        self.order.iter().filter(present).copied().collect()
    }

    /// Returns the handlers that edits may name.
    fn there(&self) -> Vec<u32> {
        self.present().into_iter().filter(|id| *id != SINK).collect()
    }

    fn place_of(&self, id: u32) -> usize {
        self.order.iter().position(|other| *other == id).expect("the handler is in the order")
    }

    // Events.

    fn deliver_from(&mut self, from: Origin, event: Event) {
        if let Origin::At(id) = from
            && !event.is_inbound()
            && !self.at(id).newer.is_empty()
        {
            return self.at(id).enqueue(event, false);
        }
        match self.next(from, event) {
            None => self.arrive(event),
            Some(id) if self.at(id).runs => {
                let handler = self.at(id);
                let for_it = !handler.removed && handler.wants(event);
                handler.enqueue(event, for_it);
            }
            Some(id) => {
                self.begin(id);
                self.deliver(id, event);
                self.finish(id);
            }
        }
    }

    fn next(&self, from: Origin, event: Event) -> Option<u32> {
        let stops = |id: &&u32| {
            let handler = &self.handlers[**id as usize];
            let stops = handler.wants(event) || handler.stops[usize::from(event.is_inbound())];
            if handler.removed { handler.keeps_place } else { stops }
        };
        let place = match from {
            Origin::At(id) => self.place_of(id),
            Origin::Head | Origin::Tail => 0,
        };
        match (event.is_inbound(), from) {
            (true, Origin::Head) => self.order.iter().find(stops),
            (true, _) => self.order[place + 1..].iter().find(stops),
            (false, Origin::Tail) => self.order.iter().rev().find(stops),
            (false, _) => self.order[..place].iter().rev().find(stops),
        }
        .copied()
    }

    fn arrive(&mut self, event: Event) {
        match event {
            Event::Write(number) => self.left.push(number),
            Event::Read(number) => self.tail.push(number),
            Event::User(_) | Event::Error | Event::Flush => {}
        }
    }

    fn begin(&mut self, id: u32) {
        let handler = self.at(id);
        handler.runs = true;
        let newer = std::mem::take(&mut handler.newer);
        handler.older.extend(newer);
    }

    fn deliver(&mut self, id: u32, event: Event) {
        self.log.push(LogEntry::Got(id, event));
        if id == SINK {
            return; // The sink consumes the event.
        }
        let (passed, reaction) = self.at(id).actor.prepare(event);
        let fine = perform(passed, &reaction, &mut RunningHandler { model: self, id });
        if !fine && !matches!(event, Event::Write(_)) {
            // The handler's own error method is called first and passes the error on.
            self.log.push(LogEntry::Got(id, Event::Error));
            self.deliver_from(Origin::At(id), Event::Error);
        }
    }

    /// Ends a call: delivers the events that arrived during the call, then completes a pending removal.
    fn finish(&mut self, id: u32) {
        let mut told = false;
        loop {
            while let Some((event, for_it)) = self.take_waiting(id) {
                if for_it && !told {
                    self.deliver(id, event);
                } else {
                    self.deliver_from(Origin::At(id), event);
                }
            }
            if !self.at(id).removed || told {
                break;
            }
            told = true;
            self.log.push(LogEntry::Removed(id));
            self.write_held(id);
            if let Some(number) = self.at(id).actor.take_kept() {
                self.deliver_from(Origin::At(id), Event::Read(number));
            }
        }
        (self.at(id).runs, self.at(id).stops) = (false, [false; 2]);
        if told {
            self.order.retain(|other| *other != id);
        }
    }

    fn take_waiting(&mut self, id: u32) -> Option<(Event, bool)> {
        self.begin(id);
        self.at(id).older.pop_front()
    }

    fn write_held(&mut self, id: u32) {
        while let Some(number) = self.at(id).held.pop_front() {
            self.deliver_from(Origin::At(id), Event::Write(number));
        }
    }

    fn write(&mut self, from: Origin) {
        self.written += 1;
        self.deliver_from(from, Event::Write(self.written));
    }

    fn fire(&mut self, from: Origin) {
        self.fired += 1;
        self.deliver_from(from, Event::User(self.fired));
    }

    // Edits.

    fn edit(&mut self, edit: ResolvedEdit) {
        match edit {
            ResolvedEdit::AddFirst(spec) => self.add(0, spec),
            ResolvedEdit::AddBefore(at, spec) => self.add(self.place_of(at), spec),
            ResolvedEdit::AddAfter(at, spec) => self.add(self.place_of(at) + 1, spec),
            ResolvedEdit::Remove(at) => self.remove(at),
            ResolvedEdit::Replace(at, spec) => {
                let before = self.handlers.len();
                self.add(self.place_of(at) + 1, spec);
                if self.handlers.len() > before {
                    self.remove(at);
                }
            }
        }
    }

    fn add(&mut self, place: usize, spec: usize) {
        if let Some(id) = self.make_from(spec) {
            self.order.insert(place, id);
            self.log.push(LogEntry::Added(id));
        }
    }

    fn remove(&mut self, id: u32) {
        let handler = self.at(id);
        handler.removed = true;
        handler.keeps_place = !handler.older.is_empty() || !handler.newer.is_empty();
        if handler.runs {
            self.overtaken |= self.at(id).actor.has_kept();
        } else {
            handler.runs = true;
            self.finish(id);
        }
    }
}

/// A handler of the model during a call.
struct RunningHandler<'m, 'a> {
    model: &'m mut Model<'a>,
    id: u32,
}

impl HandlerPosition for RunningHandler<'_, '_> {
    fn pass_on(&mut self, event: Event) {
        let holds = self.model.at(self.id).actor.holds;
        match event {
            Event::Write(number) if holds => {
                return self.model.at(self.id).held.push_back(number);
            }
            Event::Flush => self.model.write_held(self.id),
            _ => {}
        }
        self.model.deliver_from(Origin::At(self.id), event);
    }

    fn act(&mut self, act: Action) {
        match act {
            Action::Write => self.model.write(Origin::At(self.id)),
            Action::WriteByChannel | Action::WriteByPipeline => self.model.write(Origin::Tail),
            Action::Flush => self.model.deliver_from(Origin::At(self.id), Event::Flush),
            Action::FlushByChannel => self.model.deliver_from(Origin::Tail, Event::Flush),
            Action::FireOnward => self.model.fire(Origin::At(self.id)),
            Action::FireFromHead => self.model.fire(Origin::Head),
            Action::Edit(edit) => {
                let known = resolve(edit, Some(self.id), &self.model.there());
                known.into_iter().for_each(|known| self.model.edit(known));
            }
        }
    }
}
