//! Groups that grow: children that are added after the group was built.

use crate::executor::EventExecutor;
use crate::executor::builder::{BuildError, EventExecutorBuilder};
use crate::group::EventExecutorGroup;
use crate::group::builder;

impl<X: Send + 'static> EventExecutorGroup<X> {
    /// Adds a child to a group that was built as a [growing] one. `build` makes it from a builder that is
    /// prepared as those of its siblings were; from then on it is a child like any other. If one has
    /// terminated the new one takes its place among the [children](Self::children).
    ///
    /// # Errors
    /// [`BuildError::GroupClosed`] if the group does not grow, or does no longer: because it was told to
    /// [stop](Self::stop_growing), is shutting down, or has terminated. [`BuildError::AlreadyInGroup`], or
    /// whatever `build` says.
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
        let members = self.members();
        let Some(siblings) = &members.siblings else { return Err(BuildError::GroupClosed.into()) };
        let child = builder::new(build(siblings.next())?, &[])?;
        let (shared, id) = (child.shared().clone(), child.id());
        let Some(at) = members.children.add(shared, || members.end.enter(id)) else {
            drop(child.shutdown());
            return Err(BuildError::GroupClosed.into());
        };
        members.join(child);
        Ok(self.child(at))
    }

    /// Whoever tries to add a child from now on is refused. Nothing else changes.
    pub fn stop_growing(&self) {
        self.members().children.close();
    }
}
