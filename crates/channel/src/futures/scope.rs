//! A set of futures on a loop that ends as one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use waterwheel_executor::Origin;

use super::join::LocalJoin;
use super::spawned::FutureWaker;
use crate::base::token::{Slab, Token};
use crate::event_loop::local_loop::LocalLoop;

/// A set of futures on one loop that [ends](Self::end) as one: for example with a channel, so that no future works for
/// a connection that is gone. Clones are handles of the same scope; not `Send`.
///
/// ```
/// use waterwheel_channel::driver::TaskOnly;
/// use waterwheel_channel::{EventLoopGroup, LocalLoop, TaskScope, sleep};
///
/// let group = EventLoopGroup::builder(TaskOnly).threads(1).build()?;
/// let ended = group.submit(|| {
///     let here = LocalLoop::current().expect("the task runs on a loop");
///     let scope = TaskScope::new(&here);
///     let task = scope.spawn(sleep(std::time::Duration::MAX));
///     scope.end();
///     task.is_done()
/// })?;
/// assert!(ended.join()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TaskScope {
    state: Rc<ScopeState>,
}

struct ScopeState {
    here: LocalLoop,
    /// The futures that have not completed. `None` while one is being added.
    tasks: RefCell<Slab<Option<Arc<FutureWaker>>>>,
    has_ended: Cell<bool>,
}

impl TaskScope {
    /// Creates a scope without futures.
    #[must_use]
    pub fn new(here: &LocalLoop) -> Self {
        let (tasks, has_ended) = (RefCell::default(), Cell::new(false));
        Self { state: Rc::new(ScopeState { here: here.clone(), tasks, has_ended }) }
    }

    /// Runs a future on the loop until it completes or the scope ends, as
    /// [`LocalLoop::spawn_local`] does. After the end of the scope the future is dropped at once, and awaiting the
    /// handle returns `Cancelled`.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(&self, future: F) -> LocalJoin<F::Output> {
        self.spawn_from(Origin::here(), future)
    }

    /// Runs a future like [`spawn`](Self::spawn); `origin` names it in reports.
    pub fn spawn_from<F: Future + 'static>(
        &self,
        origin: Origin,
        future: F,
    ) -> LocalJoin<F::Output> {
        let ScopeState { here, tasks, has_ended } = &*self.state;
        let token = tasks.borrow_mut().insert(None);
        let entry = ScopeEntry { scope: Rc::downgrade(&self.state), token };
        let task = async move {
            let _entry = entry;
            future.await
        };
        let join = here.futures().spawn_local(here, origin, task);
        if has_ended.get() {
            here.futures().abort(join.future_waker());
        } else if let Some(entry) = tasks.borrow_mut().get_mut(token) {
            *entry = Some(join.future_waker().clone());
        }
        join
    }

    /// Returns the number of futures that have not completed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.tasks.borrow().len()
    }

    /// True if every future has completed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the scope has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.has_ended.get()
    }

    /// Ends the scope: every future is polled once more, so that it can see what has ended, and is dropped if it does
    /// not complete. A future that calls this itself is dropped when its poll returns.
    pub fn end(&self) {
        let ScopeState { here, tasks, has_ended } = &*self.state;
        if has_ended.replace(true) {
            return;
        }
        let tokens: Vec<_> = tasks.borrow().tokens().collect();
        for token in tokens {
            let task = tasks.borrow_mut().get_mut(token).and_then(|task| task.clone());
            let Some(task) = task else { continue };
            here.futures().poll_now(here.sender(), &task);
            here.futures().abort(&task);
        }
    }
}

/// The place of a future in its scope, which the future carries.
struct ScopeEntry {
    scope: Weak<ScopeState>,
    token: Token,
}

impl Drop for ScopeEntry {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.upgrade() {
            let entry = scope.tasks.borrow_mut().remove(self.token);
            drop(entry);
        }
    }
}

impl fmt::Debug for TaskScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskScope")
            .field("len", &self.len())
            .field("has_ended", &self.has_ended())
            .finish()
    }
}
