//! Editing a pipeline: several changes as one, checked before any of them takes effect.
//!
//! ```text
//!   edit ──► changes are staged: new slots are linked, but no event stops at them yet
//!              │
//!              ├─ the closure fails, or the types do not fit ──► every change is undone
//!              └─ the types fit ──► in the order of the changes: on_added of new handlers, on_removed of removed ones
//! ```

use std::any::type_name;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use super::lookup::At;
use super::name::Name;
use super::slot::{HandlerInfo, SlotState};
use super::slot_list::{HEAD, SlotId, TAIL};
use crate::channel::core::ChannelCore;
use crate::channel::handle::Channel;
use crate::pipeline::error::PipelineError;
use crate::pipeline::event_set::Events;
use crate::pipeline::handler::Handler;
use crate::pipeline::typed::type_check::{TransportTypes, TypeMismatch, check};

/// Changes to a pipeline that take effect together, or not at all.
///
/// A channel initialiser receives an `Edit`; later changes use
/// [`Pipeline::edit`](crate::Pipeline::edit). Message types are checked once, at the end, so that a
/// pipeline may be assembled in several steps that fit only together.
///
/// ```
/// use waterwheel_channel::{Ctx, Handler, HandlerResult, Msg};
/// # struct Compressor; impl Handler for Compressor {}
/// # struct NextProtocol; impl Handler for NextProtocol {}
///
/// /// Hands its channel over to another protocol.
/// struct Upgrade;
///
/// impl Handler for Upgrade {
///     fn on_read(&mut self, ctx: &Ctx<'_>, msg: Msg) -> HandlerResult {
///         ctx.pipeline().edit(|edit| {
///             edit.add_first("compressor", Compressor)?;
///             edit.replace(ctx.slot(), "next", NextProtocol)
///         })?;
///         ctx.fire_read(msg); // Reaches the handler that replaced this one.
///         Ok(())
///     }
/// }
/// ```
pub struct Edit<'a> {
    core: &'a Rc<ChannelCore>,
    changes: EditChanges,
}

/// One change of an edit. Stores slot ids instead of indices, because handlers that run during the commit may change
/// the pipeline, too.
#[derive(Clone, Copy, Debug)]
enum EditChange {
    /// The handler of this slot was added.
    Added(SlotId),
    /// The handler of this slot is removed when the edit is applied.
    Removed(SlotId),
}

/// The changes of an edit, in order. An edit of one handler, the common case, allocates nothing here.
#[derive(Default)]
struct EditChanges {
    first: Option<EditChange>,
    rest: VecDeque<EditChange>,
}

impl EditChanges {
    fn push(&mut self, change: EditChange) {
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(change);
        } else {
            self.rest.push_back(change);
        }
    }

    fn pop_front(&mut self) -> Option<EditChange> {
        self.first.take().or_else(|| self.rest.pop_front())
    }

    fn pop_back(&mut self) -> Option<EditChange> {
        self.rest.pop_back().or_else(|| self.first.take())
    }
}

impl<'a> Edit<'a> {
    /// Calls `f` with an edit, and commits it.
    pub(crate) fn perform<R, E: From<PipelineError>>(
        core: &'a Rc<ChannelCore>,
        f: impl FnOnce(&mut Edit<'_>) -> Result<R, E>,
    ) -> Result<R, E> {
        if !core.can_be_edited() {
            return Err(PipelineError::Closed.into());
        }
        // If `f` fails or panics, the destructor of the edit rolls back.
        let mut edit = Edit { core, changes: EditChanges::default() };
        let result = f(&mut edit)?;
        edit.commit()?;
        Ok(result)
    }

    /// Adds a handler at the front, next to the transport.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use.
    pub fn add_first(
        &mut self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.insert(HEAD, name.into(), handler)
    }

    /// Adds a handler at the back.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use.
    pub fn add_last(
        &mut self,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        let last = self.core.pipeline.slots.borrow().at(TAIL).prev;
        self.insert(last, name.into(), handler)
    }

    /// Adds a handler before another one: nearer to the transport.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use, or the pipeline does not have the other handler.
    pub fn add_before<'b>(
        &mut self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        let at = self.find(at.into())?;
        let before = self.core.pipeline.slots.borrow().at(at).prev;
        self.insert(before, name.into(), handler)
    }

    /// Adds a handler after another one: further from the transport.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use, or the pipeline does not have the other handler.
    pub fn add_after<'b>(
        &mut self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        let at = self.find(at.into())?;
        self.insert(at, name.into(), handler)
    }

    /// Adds the two halves of a codec at the back, as `name/decoder` and `name/encoder`. They take two
    /// slots, so that a message written during decoding is encoded at once instead of waiting for the
    /// decoder to return.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use.
    pub fn add_codec(
        &mut self,
        name: impl Into<Name>,
        decoder: impl Handler,
        encoder: impl Handler,
    ) -> Result<(SlotId, SlotId), PipelineError> {
        let name = name.into();
        let decoder = self.add_last(name.clone().decoder(), decoder)?;
        let encoder = self.add_last(name.encoder(), encoder)?;
        Ok((decoder, encoder))
    }

    /// Removes a handler.
    ///
    /// # Errors
    /// [`PipelineError`]: the pipeline does not have this handler.
    pub fn remove<'b>(&mut self, at: impl Into<At<'b>>) -> Result<(), PipelineError> {
        let at = self.find(at.into())?;
        let mut slots = self.core.pipeline.slots.borrow_mut();
        let id = slots.id(at);
        if slots.at(at).state == SlotState::Staged {
            // This edit or an enclosing one added the handler, which never took part in the pipeline.
            drop(slots);
            self.remove_staged(id);
        } else {
            slots.at_mut(at).state = SlotState::Leaving;
            self.changes.push(EditChange::Removed(id));
        }
        Ok(())
    }

    /// Removes the two halves of a codec.
    ///
    /// # Errors
    /// [`PipelineError`]: the pipeline does not have this codec.
    pub fn remove_codec(&mut self, name: &str) -> Result<(), PipelineError> {
        self.remove(&*format!("{name}/decoder"))?;
        self.remove(&*format!("{name}/encoder"))
    }

    /// Replaces a handler by another one. Events that the old handler fires inward in its `on_removed` reach
    /// the new handler.
    ///
    /// # Errors
    /// [`PipelineError`]: the name is in use by a third handler, or the pipeline does not have the old
    /// one.
    pub fn replace<'b>(
        &mut self,
        at: impl Into<At<'b>>,
        name: impl Into<Name>,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        let old = self.find(at.into())?;
        let name = name.into();
        // The new handler may take the name of the old one.
        self.check_name(&name, Some(old))?;
        let new = self.insert_unchecked(old, name, handler);
        let old = self.core.pipeline.slots.borrow().id(old);
        self.remove(old)?;
        Ok(new)
    }

    /// Returns the names of the handlers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.core.handler_names()
    }

    /// Returns a handle to the channel that may be used on any thread.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.core.channel()
    }

    /// Removes a handler if the pipeline has it. Returns true if it was removed.
    ///
    /// # Errors
    /// [`PipelineError`], as for [`remove`](Self::remove); a missing handler is no error.
    pub fn remove_if_present<'b>(&mut self, at: impl Into<At<'b>>) -> Result<bool, PipelineError> {
        let at = at.into();
        let is_present = self.find(at).is_ok();
        if is_present {
            self.remove(at)?;
        }
        Ok(is_present)
    }

    fn find(&self, at: At<'_>) -> Result<u32, PipelineError> {
        self.core.find_handler(at)
    }

    fn insert(
        &mut self,
        after: u32,
        name: Name,
        handler: impl Handler,
    ) -> Result<SlotId, PipelineError> {
        self.check_name(&name, None)?;
        Ok(self.insert_unchecked(after, name, handler))
    }

    fn check_name(&self, name: &Name, except: Option<u32>) -> Result<(), PipelineError> {
        if !name.is_auto() && self.core.is_name_taken(name, except) {
            return Err(PipelineError::DuplicateName { name: name.to_string() });
        }
        Ok(())
    }

    fn insert_unchecked<H: Handler>(&mut self, after: u32, name: Name, handler: H) -> SlotId {
        let name = if name.is_auto() { self.core.generate_name(type_name::<H>()) } else { name };
        let info = HandlerInfo::new(name, &handler);
        let handler = self.core.box_handler(&info.name, handler);
        let mut slots = self.core.pipeline.slots.borrow_mut();
        let at = slots.insert(after, handler, info);
        let id = slots.id(at);
        self.changes.push(EditChange::Added(id));
        id
    }

    /// Checks the types, then applies the changes in order. Returns the first error of an `on_added`.
    fn commit(mut self) -> Result<(), PipelineError> {
        self.core.check_types()?;
        let mut outcome = Ok(());
        // One at a time: if a handler panics, the destructor undoes the rest.
        while let Some(change) = self.changes.pop_front() {
            match change {
                EditChange::Added(slot) => {
                    if let Err(error) = self.core.activate_slot(slot) {
                        outcome = outcome.and(Err(error));
                    }
                }
                EditChange::Removed(slot) => self.core.remove_slot_if_leaving(slot),
            }
        }
        outcome
    }

    /// Removes a slot again, if it is still staged.
    fn remove_staged(&self, slot: SlotId) {
        let mut slots = self.core.pipeline.slots.borrow_mut();
        let staged = slots.find_in_state(slot, SlotState::Staged);
        if let Some(at) = staged {
            let handler = slots.at_mut(at).handler.take();
            drop(slots);
            self.core.discard_slot(at, handler);
        }
    }
}

/// Undoes the changes that were not committed, the last one first.
impl Drop for Edit<'_> {
    fn drop(&mut self) {
        while let Some(change) = self.changes.pop_back() {
            match change {
                EditChange::Added(slot) => self.remove_staged(slot),
                EditChange::Removed(slot) => {
                    let mut slots = self.core.pipeline.slots.borrow_mut();
                    if let Some(at) = slots.find_in_state(slot, SlotState::Leaving) {
                        slots.at_mut(at).state = SlotState::Live;
                    }
                }
            }
        }
    }
}

impl ChannelCore {
    /// Checks that the message types of neighbouring handlers fit.
    fn check_types(&self) -> Result<(), TypeMismatch> {
        let slots = self.pipeline.slots.borrow();
        let infos = slots.present().filter_map(|at| slots.at(at).info());
        if !infos.clone().any(HandlerInfo::has_signature) {
            return Ok(()); // No handler declares types, so there is nothing to check.
        }
        let transport: TransportTypes = self.transport_types();
        check(transport, infos.map(|info| (&info.name as &dyn fmt::Display, info.signature())))
    }

    /// Makes a staged handler live, so that events stop at its slot, and calls its `on_added`.
    fn activate_slot(self: &Rc<Self>, slot: SlotId) -> Result<(), PipelineError> {
        let mut slots = self.pipeline.slots.borrow_mut();
        let staged = slots.find_in_state(slot, SlotState::Staged);
        let Some(at) = staged else {
            return Ok(()); // Removed by a handler that the same edit added.
        };
        let slot = slots.at_mut(at);
        slot.state = SlotState::Live;
        let stops_for = slot.info().map_or(Events::NONE, |info| info.interest);
        self.pipeline.add_stop_events(stops_for);
        slots.set_stops_for(at, stops_for);
        let Some(handler) = slots.at_mut(at).begin_call() else { return Ok(()) };
        drop(slots);
        let mut added = Ok(());
        self.call(at, handler, |handler, ctx| {
            added = handler.on_added(ctx).map_err(|cause| {
                // The name is read now: the slot may be gone afterwards.
                let name = ctx.core().name_of(at);
                // The handler is running, so `on_removed` follows when this call ends.
                ctx.core().remove_slot_if_present(at);
                PipelineError::NotAdded { name, cause }
            });
        });
        added
    }

    fn remove_slot_if_present(self: &Rc<Self>, at: u32) {
        let present = self.pipeline.slots.borrow().at(at).is_present();
        if present {
            self.remove_slot(at);
        }
    }

    fn remove_slot_if_leaving(self: &Rc<Self>, slot: SlotId) {
        let leaving = self.pipeline.slots.borrow().find_in_state(slot, SlotState::Leaving);
        if let Some(at) = leaving {
            self.remove_slot(at);
        }
    }

    /// Returns the slot to remove next when a channel closes: the last before the tail. A slot that is being removed
    /// already counts, so that its removal is awaited, unless `skips_lingering` is set.
    pub(crate) fn next_to_remove(&self) -> Option<SlotId> {
        let slots = self.pipeline.slots.borrow();
        let mut from_tail = slots.linked().rev();
        let skips_lingering = self.pipeline.skips_lingering.get();
        let last = from_tail.find(|at| !skips_lingering || slots.at(*at).is_present());
        last.map(|at| slots.id(at))
    }

    pub(crate) fn remove_handler_if_present(self: &Rc<Self>, slot: SlotId) {
        let found = self.pipeline.slots.borrow().find(slot);
        if let Some(at) = found {
            self.remove_slot_if_present(at);
        }
    }
}

impl fmt::Debug for Edit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Edit").field("names", &self.names()).finish_non_exhaustive()
    }
}
