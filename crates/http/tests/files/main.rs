//! Files as answers (H08), with a real folder.

mod conditions;
mod confinement;
mod folder;
mod messages;
mod options;
mod paths;
mod ranges;
mod serving;
