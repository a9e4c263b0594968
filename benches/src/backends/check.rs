//! Compares a backend's results with correct ones before anything is timed.

use fangorn::{Forest, forest::reference};

use crate::bounds;

/// Results of one batch on one backend.
pub struct Results {
    /// Leaf slots of the first rows, `rows x trees`.
    pub slots: Vec<u32>,
    /// Margins, `rows x outputs`.
    pub margins: Vec<f32>,
}

/// Computes results with the reference interpreter, which defines what is correct.
pub fn by_reference(forest: &Forest, rows: &[f32]) -> Results {
    let rows = || rows.chunks_exact(forest.features.len().max(1));
    Results {
        slots: rows().flat_map(|row| reference::leaf_slots(forest, row)).collect(),
        margins: rows().flat_map(|row| reference::margins(forest, row)).map(|m| m as f32).collect(),
    }
}

/// Says how `found` differs from `expected`, or returns `None`. Results differ if any leaf slot differs,
/// or if a margin is off by more than twice the error bound of an `f32` sum, since either sum may be off by
/// the bound. The bound is the row's own if `expected` has the row's leaf slots, otherwise the bound of any
/// row.
pub fn unlike(forest: &Forest, found: &Results, expected: &Results) -> Option<String> {
    let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
    let pairs = |a: usize, b: usize| (a != b).then(|| format!("{a} results, not {b}"));
    let lengths = pairs(found.slots.len(), expected.slots.len());
    if let Some(lengths) = lengths.or_else(|| pairs(found.margins.len(), expected.margins.len())) {
        return Some(lengths);
    }
    let others = found.slots.iter().zip(&expected.slots).filter(|(a, b)| a != b).count();
    if others > 0 {
        return Some(format!("{others} of {} leaves are others", found.slots.len()));
    }
    let of_any: Vec<f32> = forest.sum_bound().into_iter().map(|bound| bound as f32).collect();
    let (mut beyond, mut most) = (0, 0.0f32);
    for (r, (found, expected_row)) in
        found.margins.chunks(outputs).zip(expected.margins.chunks(outputs)).enumerate()
    {
        let bound = match expected.slots.get(r * trees..(r + 1) * trees) {
            Some(slots) => bounds::of_row(forest, slots.iter().copied()),
            None => of_any.clone(),
        };
        for ((a, b), bound) in found.iter().zip(expected_row).zip(bound) {
            let same = a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 2.0 * bound;
            if !same {
                beyond += 1;
                most = most.max((a - b).abs());
            }
        }
    }
    (beyond > 0).then(|| format!("{beyond} margins beyond a sum's bound, by up to {most:.3e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a forest of two trees with two leaves each and a base score of 1.
    fn forest() -> Forest {
        use fangorn::forest::{CompareType, Side};
        let mut forest = Forest::builder(1, 1).base_score([1.0]);
        for scale in [1.0, 2.0] {
            let mut tree = forest.tree(0);
            tree.split(0, CompareType::F32.less(0.5), Side::Left, 1, 2);
            tree.leaf(0, &[scale]);
            tree.leaf(0, &[-scale]);
        }
        forest.build().expect("a forest")
    }

    #[test]
    fn what_differs_is_said() {
        let forest = forest();
        let rows = [0.0, 1.0, f32::NAN];
        let expected = by_reference(&forest, &rows);
        let found = |change: &dyn Fn(&mut Results)| {
            let mut found = by_reference(&forest, &rows);
            change(&mut found);
            unlike(&forest, &found, &expected)
        };
        assert_eq!(found(&|_| ()), None);
        // A difference of rounding is within the bound. An error of 1e-5 is not.
        assert_eq!(found(&|r| r.margins[0] = r.margins[0].next_up()), None);
        assert!(found(&|r| r.margins[1] += 1e-5).is_some_and(|e| e.contains("1 margins")));
        assert!(found(&|r| r.margins[2] = f32::NAN).is_some());
        assert_eq!(found(&|r| r.slots[3] ^= 1).as_deref(), Some("1 of 6 leaves are others"));
        assert_eq!(found(&|r| r.margins.truncate(2)).as_deref(), Some("2 results, not 3"));
        // Rows whose leaf slots are unknown get the bound of any row.
        let fewer = Results { slots: expected.slots[..2].to_vec(), margins: expected.margins.clone() };
        let mut others = Results { slots: fewer.slots.clone(), margins: expected.margins.clone() };
        assert_eq!(unlike(&forest, &others, &fewer), None);
        others.margins[2] += 1e-5;
        assert!(unlike(&forest, &others, &fewer).is_some());
    }
}
