//! Estimates whether a forest takes less time as walks, or as the three matrix products that it can become.

use super::{Estimate, ForestFacts, GraphTarget, Machine, Term, Work};

/// Costs of a forest that is computed as matrix products (CMLCompiler, section 3.3). All but `batch` are for one row.
///
/// `cargo run --release -p fangorn-benches -- matrices` times random forests as walks and as products on this machine,
/// and fits these numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForestProducts {
    /// Seconds of a batch, however few rows it has.
    pub batch: f64,
    /// Seconds of a split: its column is gathered, compared with its threshold, and the answer becomes a number.
    pub split: f64,
    /// Seconds of a leaf: the number of splits that agree with it is compared, and the answer becomes a number.
    pub leaf: f64,
    /// Seconds of an element of the matrices, from splits to leaves and from leaves to outputs.
    pub element: f64,
}

/// The costs of a forest as matrix products on the CPU. They are lower bounds, so that no estimate is above the time
/// that products take. On a busy machine with AVX2, a build without the last optimisations took 7.9 µs for a batch, 64
/// ns for a leaf and its split together, and 0.19 ns for an element. Walks take less time even than these lower bounds.
pub const FOREST_PRODUCTS: ForestProducts =
    ForestProducts { batch: 5e-6, split: 6e-9, leaf: 3e-9, element: 0.04e-9 };

impl ForestProducts {
    /// Estimates the time of a batch of `rows` rows of a forest with `outputs` sums.
    pub fn estimate(&self, facts: &ForestFacts, outputs: usize, rows: usize) -> Estimate {
        let [rows, outputs, splits] = [rows, outputs, facts.splits].map(|count| count as f64);
        let leaves = (facts.splits + facts.trees) as f64;
        let term = |what, cost, count, each| Term { what, cost, count, each };
        Estimate {
            terms: vec![
                term("operators of a batch", "batch", 1.0, self.batch),
                term("answers of splits", "split", rows * splits, self.split),
                term("leaves that all splits agree with", "leaf", rows * leaves, self.leaf),
                term("elements of matrices", "element", rows * leaves * (splits + outputs), self.element),
            ],
        }
    }
}

/// The two ways to compute a forest, walks and matrix products, with their estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestChoice {
    /// The fastest of the ways to walk or blend the forest.
    pub walk: (Work, Estimate),
    /// The estimate of matrix products; `None` for a target without costs of products.
    pub products: Option<Estimate>,
}

impl ForestChoice {
    /// Returns whether products take less time than the walk. It is false without costs of products.
    pub fn products_pay(&self) -> bool {
        let (_, walk) = &self.walk;
        self.products.as_ref().is_some_and(|products| products.seconds() < walk.seconds())
    }
}

impl GraphTarget {
    /// Returns the costs of a forest as matrix products. It is `None` for devices, where nobody has measured them, so
    /// forests are walked there.
    pub fn forest_products(self) -> Option<&'static ForestProducts> {
        match self {
            Self::Cpu => Some(&FOREST_PRODUCTS),
            Self::Device => None,
        }
    }

    /// Estimates walks and matrix products of a forest with `outputs` sums, for a batch of `rows` rows.
    ///
    /// ```
    /// use fangorn::cost::{ForestFacts, GraphTarget, RankColumns, ReachedSplits};
    ///
    /// let facts = ForestFacts {
    ///     trees: 10,
    ///     splits: 70,
    ///     set_splits: 0,
    ///     leaf_depth: 3.0,
    ///     tree_depth: 3.0,
    ///     row_columns: 5,
    ///     columns: 5,
    ///     category_columns: 0,
    ///     rank_columns: RankColumns { thresholds: 5, levels: 40, questions: 0 },
    ///     reached: ReachedSplits::new((0..3).flat_map(|depth| vec![0.5f64.powi(depth); 10 << depth])),
    ///     blends: true,
    /// };
    /// assert!(!GraphTarget::Cpu.forest_choice(&facts, 1, 256).products_pay());
    /// ```
    pub fn forest_choice(self, facts: &ForestFacts, outputs: usize, rows: usize) -> ForestChoice {
        let machine = Machine::here();
        let of = |work: Work| Some((work, machine.estimate(facts, work, rows)?));
        let shorter = |a: (Work, Estimate), b: (Work, Estimate)| {
            if b.1.seconds() < a.1.seconds() { b } else { a }
        };
        let walk = Work::ALL.into_iter().filter_map(of).reduce(shorter);
        ForestChoice {
            walk: walk.unwrap_or((Work::RowWalks, Estimate { terms: Vec::new() })),
            products: self.forest_products().map(|costs| costs.estimate(facts, outputs, rows)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{RankColumns, ReachedSplits};

    fn facts(trees: usize, depth: i32) -> ForestFacts {
        ForestFacts {
            trees,
            splits: trees * ((1 << depth) - 1),
            set_splits: 0,
            leaf_depth: f64::from(depth),
            tree_depth: f64::from(depth),
            row_columns: 20,
            columns: 20,
            category_columns: 0,
            rank_columns: RankColumns { thresholds: 20, levels: 160, questions: 0 },
            reached: ReachedSplits::new(
                (0..depth).flat_map(|depth| vec![0.5f64.powi(depth); trees << depth]),
            ),
            blends: true,
        }
    }

    /// Walks win on CPUs whatever the forest is, from a stump on, and on targets without costs.
    #[test]
    fn forests_are_walked_on_cpus_and_on_devices() {
        for trees in [1, 10, 100, 1000] {
            for depth in [1, 2, 4, 8] {
                for rows in [1, 64, 256, 4096] {
                    for target in GraphTarget::ALL {
                        let choice = target.forest_choice(&facts(trees, depth), 1, rows);
                        assert!(
                            !choice.products_pay(),
                            "{trees} trees, depth {depth}, {rows} rows: {choice:?}"
                        );
                        assert_eq!(choice.products.is_some(), target == GraphTarget::Cpu);
                    }
                }
            }
        }
    }

    /// Where elements cost nothing, a forest of many columns is products.
    #[test]
    fn products_are_chosen_where_they_take_less_time() {
        let facts = facts(100, 2);
        let mut choice = GraphTarget::Cpu.forest_choice(&facts, 1, 256);
        let free = ForestProducts { batch: 0.0, split: 0.0, leaf: 0.0, element: 1e-15 };
        choice.products = Some(free.estimate(&facts, 1, 256));
        assert!(choice.products_pay(), "{choice:?}");
    }
}
