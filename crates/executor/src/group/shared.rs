//! The state that the handles of a group share, and the membership that each child holds.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::engine::current::ExecutorId;
use crate::engine::shared_half::SharedHalf;
use crate::error::{Error, take_panic_message};
use crate::executor::EventExecutor;
use crate::group::builder::ChildTemplate;
use crate::group::children::GroupChildren;
use crate::group::chooser::{Choice, Chooser, RoundRobin};
use crate::group::termination::GroupTermination;
use crate::lifecycle::lease::HandleLease;
use crate::promise::SharedFuture;
use crate::raw::origin::Origin;
use crate::report::guard::report_to;
use crate::report::{Fault, UserCode};

/// The state shared by the handles of a group. Holds no lease, so it may outlive the last user handle.
pub(crate) struct GroupShared<X: Send + 'static> {
    pub(crate) children: GroupChildren<X>,
    /// The properties of further children, if the group grows.
    pub(crate) template: Option<ChildTemplate>,
    chooser: Box<dyn Chooser>,
    fallback: RoundRobin,
    pub(crate) termination: SharedFuture<()>,
    lease: Mutex<Weak<HandleLease>>,
    group_id: ExecutorId,
    pub(crate) group_termination: Arc<GroupTermination>,
    pub(crate) attachment: Option<Arc<dyn Any + Send + Sync>>,
}

/// The parts of a group besides its first children.
pub(crate) struct GroupParts {
    pub(crate) chooser: Box<dyn Chooser>,
    pub(crate) template: Option<ChildTemplate>,
    pub(crate) attachment: Option<Arc<dyn Any + Send + Sync>>,
}

impl<X: Send + 'static> GroupShared<X> {
    /// Makes the shared part of a group of these children, at least one, and the lease that keeps them alive.
    pub(crate) fn of(
        children: Vec<EventExecutor<X>>,
        parts: GroupParts,
    ) -> (Arc<Self>, Arc<HandleLease>) {
        let shared: Vec<_> = children.iter().map(|child| child.shared().clone()).collect();
        let group_id = ExecutorId::next();
        let (group_termination, termination) =
            GroupTermination::new(children.iter().map(EventExecutor::id), group_id);
        let children_of_group = match parts.template {
            None => GroupChildren::Fixed(shared),
            Some(_) => GroupChildren::growing(shared),
        };
        let shared = Arc::new(GroupShared {
            termination,
            children: children_of_group,
            template: parts.template,
            chooser: parts.chooser,
            fallback: RoundRobin::default(),
            lease: Mutex::new(Weak::new()),
            group_id,
            group_termination: Arc::new(group_termination),
            attachment: parts.attachment,
        });
        let ending = shared.clone();
        let lease = Arc::new(HandleLease::new(move || ending.shut_down_when_empty()));
        *shared.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&lease);
        for child in children {
            shared.adopt(child);
        }
        (shared, lease)
    }

    /// Gives a listed child its membership and the lease of the group.
    pub(crate) fn adopt(self: &Arc<Self>, child: EventExecutor<X>) {
        let (group, group_termination) = (Arc::downgrade(self), self.group_termination.clone());
        let membership = GroupMembership { group, group_id: self.group_id, group_termination };
        child.join_group(membership, self.weak_lease());
    }

    pub(crate) fn weak_lease(&self) -> Weak<HandleLease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the group to new children, and returns the final list of children.
    pub(crate) fn close_and_list(&self) -> Vec<Arc<SharedHalf<X>>> {
        self.children.close();
        self.children.to_vec()
    }

    /// Ends all children as soon as their queues are empty: the last user handle was dropped.
    fn shut_down_when_empty(&self) {
        for child in self.close_and_list() {
            child.shut_down_when_empty();
        }
    }

    pub(crate) fn choose(&self, key: Option<u64>) -> usize {
        let children = self.children.len();
        let load = |child: usize| {
            self.children.with_all(|all| all.get(child).map_or(usize::MAX, |child| child.load()))
        };
        let choice = Choice::new(children, &load, key);
        let chosen = catch_unwind(AssertUnwindSafe(|| self.chooser.choose(&choice)));
        let message = match chosen {
            Ok(at) if at < children => return at,
            Ok(at) => format!("chose child {at} of {children}"),
            Err(payload) => take_panic_message(payload),
        };
        self.report_chooser(message);
        self.fallback.choose(&choice)
    }

    #[cold]
    fn report_chooser(&self, message: String) {
        if let Some(child) = self.children.get(0) {
            let (what, origin) = (UserCode::Chooser, Origin::labelled("chooser"));
            let fault = Fault::Panicked { what, origin, message };
            report_to(&*child.reporter, &child.name, fault);
        }
    }
}

/// The membership of a child in its group.
pub(crate) struct GroupMembership<X: Send + 'static> {
    group: Weak<GroupShared<X>>,
    group_id: ExecutorId,
    group_termination: Arc<GroupTermination>,
}

impl<X: Send + 'static> Clone for GroupMembership<X> {
    fn clone(&self) -> Self {
        let Self { group, group_id, group_termination } = self;
        Self {
            group: group.clone(),
            group_id: *group_id,
            group_termination: group_termination.clone(),
        }
    }
}

impl<X: Send + 'static> GroupMembership<X> {
    pub(crate) fn group(&self) -> Option<Arc<GroupShared<X>>> {
        self.group.upgrade()
    }

    pub(crate) fn group_id(&self) -> ExecutorId {
        self.group_id
    }

    /// Records that the child has terminated.
    pub(crate) fn on_child_terminated(&self, child: ExecutorId, cause: Option<&Error>) {
        self.group_termination.on_child_terminated(child, cause);
    }
}
