//! A plan that launches share by reference.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{Cube, EpilogueSite};
use crate::Plan;

/// A plan that is shared by reference, as launches hand it to cubecl. Its hash is a stored id. Two plans are
/// compared by their ids, and in full only if the ids are equal.
#[derive(Clone)]
pub struct PlanRef(Arc<InternedPlan>);

struct InternedPlan {
    id: u64,
    facts: Facts,
    plan: Plan<Cube>,
}

/// Facts of a plan that every launch needs, computed once.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The result of [`Plan::sums_once`].
    pub sums_once: bool,
    /// The result of [`Plan::is_atomic`].
    pub is_atomic: bool,
    /// The result of [`Plan::epilogue_site`].
    pub epilogue_site: EpilogueSite,
}

impl PlanRef {
    /// Stores the plan with the hash of its content.
    pub fn new(plan: Plan<Cube>) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        plan.hash(&mut hasher);
        let facts = Facts {
            sums_once: plan.sums_once(),
            is_atomic: plan.is_atomic(),
            epilogue_site: plan.epilogue_site(),
        };
        Self(Arc::new(InternedPlan { id: hasher.finish(), facts, plan }))
    }

    /// Returns the hash of the plan's content.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Returns the facts that every launch needs.
    pub fn facts(&self) -> Facts {
        self.0.facts
    }
}

impl std::ops::Deref for PlanRef {
    type Target = Plan<Cube>;
    fn deref(&self) -> &Plan<Cube> {
        &self.0.plan
    }
}

impl PartialEq for PlanRef {
    fn eq(&self, other: &Self) -> bool {
        // Different plans may have equal ids, and taking one for the other would launch the wrong kernel. So
        // plans with equal ids are compared in full.
        Arc::ptr_eq(&self.0, &other.0) || (self.id() == other.id() && **self == **other)
    }
}

impl Eq for PlanRef {}

impl Hash for PlanRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for PlanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan#{:016x}", self.id())
    }
}
