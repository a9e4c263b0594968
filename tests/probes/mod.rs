//! Values that ask every split of a forest what it does with them.

use fangorn::{
    Forest,
    cpu::Row,
    forest::{Node, Predicate},
};

/// Numbers at which something changes that is no threshold: zeros, denormals, infinities, ends of categories.
pub const EDGES: [f64; 24] = [
    f64::NAN,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    5e-324,
    1e-35,
    -1e-35,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f32::MAX as f64,
    f32::MIN as f64,
    1e300,
    -1e300,
    1e30,
    -0.5,
    -1.0,
    -1.5,
    0.5,
    1.0,
    2.7,
    16_777_215.0,
    16_777_216.0,
    1.2e-38,
];

/// A type of rows under test.
pub trait Value: Row {
    fn of(x: f64) -> Self;
    fn near(self) -> [Self; 3];
}
impl Value for f32 {
    fn of(x: f64) -> Self {
        x as f32
    }
    fn near(self) -> [Self; 3] {
        [self.next_down(), self, self.next_up()]
    }
}
impl Value for f64 {
    fn of(x: f64) -> Self {
        x
    }
    fn near(self) -> [Self; 3] {
        [self.next_down(), self, self.next_up()]
    }
}

/// Values of each feature: each edge, and then, by their bits, each number its splits name with both neighbours, and the
/// categories of its sets.
pub fn pools<T: Value>(forest: &Forest) -> Vec<Vec<T>> {
    let mut pools: Vec<Vec<T>> = vec![EDGES.iter().map(|x| T::of(*x)).collect(); forest.features.len()];
    let mut sets = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        let Node::Split { feature, predicate, .. } = *node else { continue };
        match predicate {
            Predicate::Less { threshold: t }
            | Predicate::LessZeroAside { threshold: t }
            | Predicate::Equal { value: t } => pools[feature as usize].extend(T::of(t.0).near()),
            Predicate::InSet { set, .. } => sets[feature as usize].push(set),
            Predicate::Always => {}
        }
    }
    for (pool, mut sets) in pools.iter_mut().zip(sets) {
        sets.sort_unstable();
        sets.dedup();
        for set in sets.iter().map(|s| &forest.sets[*s as usize]).take(40) {
            let codes = set.members().take(20).chain([32 * set.words.len() as u32]);
            pool.extend(codes.flat_map(|c| [0.0, 0.25, -1.0].map(|off| T::of(f64::from(c) + off))));
        }
        pool[EDGES.len()..].sort_unstable_by_key(bits);
        pool.dedup_by_key(|x| bits(x));
    }
    pools
}

fn bits<T: Value>(x: &T) -> u64 {
    (*x).into().to_bits()
}

/// Rows in which each feature takes its values from the top down; shorter columns begin anew.
pub fn probes<T: Value>(pools: &[Vec<T>]) -> Vec<T> {
    let rows = pools.iter().map(Vec::len).max().unwrap_or(1);
    (0..rows).flat_map(|r| pools.iter().map(move |pool| pool[r % pool.len()])).collect()
}

/// Rows of [`probes`] to ask a split: all of a short pool; of a long one the edges, the split's own values, and one in
/// some.
pub fn telling<T: Value>(pool: &[T], predicate: Predicate) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..pool.len()).collect();
    if let (Predicate::Less { threshold }, true) = (predicate, pool.len() > 600) {
        rows.retain(|r| *r < EDGES.len() || r % (pool.len() / 100) == 0);
        let find = |x: T| pool[EDGES.len()..].binary_search_by_key(&bits(&x), bits).ok();
        rows.extend(T::of(threshold.0).near().into_iter().filter_map(find).map(|at| EDGES.len() + at));
    }
    rows
}
