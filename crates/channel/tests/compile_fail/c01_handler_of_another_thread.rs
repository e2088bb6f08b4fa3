//! A handler that is not `Send` is made on its loop: an initialiser from elsewhere cannot bring one.

use std::rc::Rc;

use waterwheel_channel::{Handler, NewChannel};

struct Local(Rc<u8>);

impl Handler for Local {}

fn with_handler(new: NewChannel, handler: Local) -> NewChannel {
    new.initialiser(move |edit| {
        edit.add_last("local", handler)?;
        Ok(())
    })
}

fn main() {}
