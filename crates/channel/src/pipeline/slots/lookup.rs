//! Finding handlers in a pipeline by name or by slot, and generating names.

use super::name::Name;
use super::slot_list::SlotId;
use crate::channel::core::ChannelCore;
use crate::pipeline::error::PipelineError;

/// Refers to a handler of a pipeline: by its name, or by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// The handler of this name.
    Name(&'a str),
    /// The handler in this slot.
    Slot(SlotId),
}

impl<'a> From<&'a str> for At<'a> {
    fn from(name: &'a str) -> Self {
        At::Name(name)
    }
}

impl From<SlotId> for At<'_> {
    fn from(slot: SlotId) -> Self {
        At::Slot(slot)
    }
}

impl ChannelCore {
    /// Returns the slot index of a handler, as an edit in progress sees the pipeline.
    pub(crate) fn find_handler(&self, at: At<'_>) -> Result<u32, PipelineError> {
        let slots = self.pipeline.slots.borrow();
        match at {
            At::Name(name) => slots.find_by_name(name).ok_or_else(|| PipelineError::UnknownName {
                name: name.to_owned(),
                present: match &*self.handler_names().join(", ") {
                    "" => String::from("none"),
                    names => names.to_owned(),
                },
            }),
            At::Slot(slot) => slots
                .find(slot)
                .filter(|at| slots.at(*at).is_present())
                .ok_or(PipelineError::UnknownSlot { slot }),
        }
    }

    pub(crate) fn handler_names(&self) -> Vec<String> {
        let slots = self.pipeline.slots.borrow();
        let name = |at| slots.at(at).info().map(|info| info.name.to_string());
        slots.present().filter_map(name).collect()
    }

    /// Returns the name of the handler in a slot; "channel" for the two ends.
    pub(crate) fn name_of(&self, at: u32) -> String {
        let slots = self.pipeline.slots.borrow();
        slots.at(at).info().map_or_else(|| String::from("channel"), |info| info.name.to_string())
    }

    /// True if a handler has this name, other than the one in the slot `except`.
    pub(super) fn is_name_taken(&self, name: &Name, except: Option<u32>) -> bool {
        let slots = self.pipeline.slots.borrow();
        let has_name = |at| slots.at(at).info().is_some_and(|info| info.name.has_same_text(name));
        slots.present().any(|at| Some(at) != except && has_name(at))
    }

    /// Returns a name made from the handler's type that no other handler has.
    pub(super) fn generate_name(&self, type_name: &str) -> Name {
        loop {
            let number = self.pipeline.generated_names.get();
            self.pipeline.generated_names.set(number + 1);
            let name = Name::of_type(type_name, number);
            if !self.is_name_taken(&name, None) {
                return name;
            }
        }
    }
}
