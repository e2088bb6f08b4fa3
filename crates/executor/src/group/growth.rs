//! Growing groups: children that are added after the group was built.

use crate::executor::EventExecutor;
use crate::executor::builder::{BuildError, EventExecutorBuilder};
use crate::group::EventExecutorGroup;
use crate::group::builder;

impl<X: Send + 'static> EventExecutorGroup<X> {
    /// Adds a child to a group that was built as a [growing] one. `build` makes it from a builder with the
    /// group's properties; from then on it is a child like any other. If a child has terminated, the new one
    /// takes its place among the [children](Self::children).
    ///
    /// # Errors
    /// [`BuildError::GroupClosed`] if the group was not built to grow, or has stopped growing because of
    /// [`stop_growing`](Self::stop_growing), a shutdown, or its termination. [`BuildError::AlreadyInGroup`], or
    /// the error of `build`.
    ///
    /// [growing]: crate::EventExecutorGroupBuilder::growing
    ///
    /// ```
    /// use waterwheel_executor::{BuildError, EventExecutorBuilder, EventExecutorGroup};
    ///
    /// let group = EventExecutorGroup::builder().threads(1).name("crew").growing().build()?;
    /// let second = group.grow(EventExecutorBuilder::build)?;
    /// assert_eq!((second.name(), group.children().len()), ("crew-1", 2));
    /// assert_eq!(second.parent(), Some(group.clone()));
    /// group.stop_growing();
    /// assert_eq!(group.grow(EventExecutorBuilder::build), Err(BuildError::GroupClosed));
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn grow<E: From<BuildError>>(
        &self,
        build: impl FnOnce(EventExecutorBuilder) -> Result<EventExecutor<X>, E>,
    ) -> Result<EventExecutor<X>, E> {
        let group = self.shared();
        let Some(template) = &group.template else { return Err(BuildError::GroupClosed.into()) };
        let child = builder::ensure_new_child(build(template.next_builder())?, &[])?;
        let (shared, id) = (child.shared().clone(), child.id());
        let Some(at) = group.children.add(shared, || group.group_termination.add_child(id)) else {
            drop(child.shutdown());
            return Err(BuildError::GroupClosed.into());
        };
        group.adopt(child);
        Ok(self.child(at))
    }

    /// Refuses further children from now on. Changes nothing else.
    pub fn stop_growing(&self) {
        self.shared().children.close();
    }
}
