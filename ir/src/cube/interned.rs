//! A plan as a launch hands it on.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::{Cube, EpiloguePlace};
use crate::Plan;

/// A plan shared by reference whose hash and comparison cost a stored id, not a walk: what a launch hands to cubecl.
#[derive(Clone)]
pub struct PlanRef(Arc<InternedPlan>);

struct InternedPlan {
    id: u64,
    facts: Facts,
    plan: Plan<Cube>,
}

/// What every launch asks of a plan, looked up once.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// [`Plan::sums_once`].
    pub sums_once: bool,
    /// [`Plan::is_atomic`].
    pub is_atomic: bool,
    /// [`Plan::place`].
    pub place: EpiloguePlace,
}

impl PlanRef {
    /// Stores the plan with its content's hash.
    pub fn new(plan: Plan<Cube>) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        plan.hash(&mut hasher);
        let facts = Facts { sums_once: plan.sums_once(), is_atomic: plan.is_atomic(), place: plan.place() };
        Self(Arc::new(InternedPlan { id: hasher.finish(), facts, plan }))
    }

    /// The content's hash.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// What a launch asks of it.
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
        // Equal ids of different plans would launch the wrong kernel, so the walk is made then, and only then.
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
