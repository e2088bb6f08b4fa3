//! What the handles of a group share, and what each child knows of it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::engine::current::ExecutorId;
use crate::engine::shared_half::Shared;
use crate::error::{Error, absorb};
use crate::executor::EventExecutor;
use crate::group::builder::Siblings;
use crate::group::children::Children;
use crate::group::chooser::{Choice, Chooser, RoundRobin};
use crate::group::termination::GroupEnd;
use crate::lifecycle::lease::Lease;
use crate::promise::SharedFuture;
use crate::raw::origin::Origin;
use crate::report::guard::report_to;
use crate::report::{Fault, UserCode};

/// What the handles of a group share. Holds no lease: it may outlive the last user handle.
pub(crate) struct Members<X: Send + 'static> {
    pub(crate) children: Children<X>,
    /// What further children are made with, if there may be any.
    pub(crate) siblings: Option<Siblings>,
    chooser: Box<dyn Chooser>,
    fallback: RoundRobin,
    pub(crate) termination: SharedFuture<()>,
    lease: Mutex<Weak<Lease>>,
    group_id: ExecutorId,
    pub(crate) end: Arc<GroupEnd>,
    pub(crate) attachment: Option<Arc<dyn Any + Send + Sync>>,
}

/// What a group is made of besides its first children.
pub(crate) struct GroupParts {
    pub(crate) chooser: Box<dyn Chooser>,
    pub(crate) siblings: Option<Siblings>,
    pub(crate) attachment: Option<Arc<dyn Any + Send + Sync>>,
}

impl<X: Send + 'static> Members<X> {
    /// What there is to share of these; at least one. They are there as long as there are handles: the
    /// lease keeps them.
    pub(crate) fn of(
        children: Vec<EventExecutor<X>>,
        parts: GroupParts,
    ) -> (Arc<Self>, Arc<Lease>) {
        let shared: Vec<_> = children.iter().map(|child| child.shared().clone()).collect();
        let group_id = ExecutorId::next();
        let (end, termination) = GroupEnd::new(children.iter().map(EventExecutor::id), group_id);
        let children_of_group = match parts.siblings {
            None => Children::Fixed(shared),
            Some(_) => Children::growing(shared),
        };
        let members = Arc::new(Members {
            termination,
            children: children_of_group,
            siblings: parts.siblings,
            chooser: parts.chooser,
            fallback: RoundRobin::default(),
            lease: Mutex::new(Weak::new()),
            group_id,
            end: Arc::new(end),
            attachment: parts.attachment,
        });
        let ending = members.clone();
        let lease = Arc::new(Lease::new(move || ending.shut_down_when_empty()));
        *members.lease.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&lease);
        for child in children {
            members.join(child);
        }
        (members, lease)
    }

    /// Makes an executor that is listed already a child.
    pub(crate) fn join(self: &Arc<Self>, child: EventExecutor<X>) {
        let (group, end) = (Arc::downgrade(self), self.end.clone());
        let membership = Membership { group, group_id: self.group_id, end };
        child.join_group(membership, self.weak_lease());
    }

    pub(crate) fn weak_lease(&self) -> Weak<Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All children there will ever be.
    pub(crate) fn last_children(&self) -> Vec<Arc<Shared<X>>> {
        self.children.close();
        self.children.to_vec()
    }

    /// The last user handle is gone.
    fn shut_down_when_empty(&self) {
        for child in self.last_children() {
            child.shut_down_when_empty();
        }
    }

    pub(crate) fn choose(&self, key: Option<u64>) -> usize {
        let children = self.children.len();
        let load = |child: usize| {
            self.children.look(|all| all.get(child).map_or(usize::MAX, |child| child.load()))
        };
        let choice = Choice::new(children, &load, key);
        let chosen = catch_unwind(AssertUnwindSafe(|| self.chooser.choose(&choice)));
        let message = match chosen {
            Ok(at) if at < children => return at,
            Ok(at) => format!("chose child {at} of {children}"),
            Err(payload) => absorb(payload),
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

/// What a child knows of its group.
pub(crate) struct Membership<X: Send + 'static> {
    group: Weak<Members<X>>,
    group_id: ExecutorId,
    end: Arc<GroupEnd>,
}

impl<X: Send + 'static> Clone for Membership<X> {
    fn clone(&self) -> Self {
        let Self { group, group_id, end } = self;
        Self { group: group.clone(), group_id: *group_id, end: end.clone() }
    }
}

impl<X: Send + 'static> Membership<X> {
    pub(crate) fn group(&self) -> Option<Arc<Members<X>>> {
        self.group.upgrade()
    }

    pub(crate) fn group_id(&self) -> ExecutorId {
        self.group_id
    }

    /// The child has terminated.
    pub(crate) fn child_ended(&self, child: ExecutorId, cause: Option<&Error>) {
        self.end.child_ended(child, cause);
    }
}
