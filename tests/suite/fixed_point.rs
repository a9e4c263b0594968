//! The exact sum's arithmetic: units, words, the one rounding, and the bound, against slow exact oracles.

use crate::support;

use fangorn::{
    Forest,
    forest::{Aggregate, CompareType, Side},
    sum::{Contract, FixedPoint, SumError},
};
use proptest::{collection::vec, prelude::*, sample::select};
use support::exact_sum;

/// A tree for each pair: its two leaves, both for output `t % bases`.
fn forest(leaves: &[[f64; 2]], bases: &[f64]) -> Forest {
    let outputs = bases.len() as u32;
    let mut forest = Forest::builder(1, outputs).base_score(bases.iter().copied());
    for (t, [left, right]) in leaves.iter().enumerate() {
        let mut tree = forest.tree(t as u32 % outputs);
        tree.split(0, CompareType::F32.at_most(0.0), Side::Left, 1, 2);
        tree.leaf(1, &[*left]);
        tree.leaf(2, &[*right]);
    }
    forest.build().expect("a forest")
}

/// Numbers of every magnitude and sign, denormals and zeros among them.
fn number() -> impl Strategy<Value = f64> {
    let spread = (-1.0..1.0f64, -126..127i32).prop_map(|(m, e)| m * 2f64.powi(e));
    let single = any::<u32>().prop_map(|bits| f64::from(f32::from_bits(bits)));
    let denormal = (0u32..1 << 23).prop_map(|bits| f64::from(f32::from_bits(bits)));
    let near = -1.0..1.0f64;
    let odd = select(vec![0.0, -0.0, 1e-38, -1e38, 1e38, 5e-324, f64::MAX, -f64::MAX, 2.5, 0.1]);
    prop_oneof![spread, single, denormal, near, odd].prop_filter("finite", |v| v.is_finite())
}

/// Forests whose numbers are all of about one magnitude, or of any.
fn pairs() -> impl Strategy<Value = (Vec<[f64; 2]>, Vec<f64>)> {
    let any = (vec([number(), number()], 0..40), vec(number(), 1..4));
    let similar = (vec([-1.0..1.0f64, -1.0..1.0f64], 1..300), vec(-1.0..1.0f64, 1..3), -60..60i32);
    let similar = similar.prop_map(|(leaves, bases, e)| {
        let by = 2f64.powi(e);
        (leaves.iter().map(|l| l.map(|v| v * by)).collect(), bases.iter().map(|v| v * by).collect())
    });
    prop_oneof![any, similar]
}

/// `value x 2^s` as it would be without rounding, in units of `2^-40` for those numbers that need no more.
fn at_40_bits(value: f64, s: i32) -> i128 {
    (value * 2f64.powi(s / 2) * 2f64.powi(s - s / 2) * 2f64.powi(40)) as i128
}

/// A whole number's nearest one of 24 binary digits, ties to the even one, by its digits.
fn rounded(total: i64) -> f64 {
    let m = total.unsigned_abs();
    let dropped = (64 - m.leading_zeros()).saturating_sub(24);
    let (kept, rest) = (m >> dropped, m & ((1 << dropped) - 1));
    let up = match (rest * 2).cmp(&(1 << dropped)) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => kept % 2,
        std::cmp::Ordering::Greater => 1,
    };
    total.signum() as f64 * (kept + up) as f64 * 2f64.powi(dropped as i32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_is_the_nearest_number_of_units((leaves, bases) in pairs()) {
        let forest = forest(&leaves, &bases);
        let fixed = FixedPoint::new(&forest).expect("fixed point");
        let room = 1i128 << (30 + fixed.low_bits());
        for (o, s) in fixed.exponents().iter().enumerate() {
            let own = |t: &usize| t % bases.len() == o;
            let trees = || (0..leaves.len()).filter(own);
            let values = trees().flat_map(|t| [0, 1].map(|i| (fixed.leaves()[2 * t + i], leaves[t][i])));
            for (whole, value) in values.chain([(fixed.base()[o], bases[o])]) {
                let off = (i128::from(whole) << 40) - at_40_bits(value, *s);
                prop_assert!(off.abs() <= 1 << 39, "{value:e} is {whole} x 2^-{s}");
            }
            // No sum of leaves, one a tree, gets past the room, and a finer unit would leave no spare bit.
            let largest = |t: usize| fixed.leaves()[2 * t].abs().max(fixed.leaves()[2 * t + 1].abs());
            let total = trees().map(|t| i128::from(largest(t))).sum::<i128>() + i128::from(fixed.base()[o].abs());
            prop_assert!(total < room, "{total} of {room}");
            let full = total + leaves.len() as i128 + 1 >= room / 4;
            prop_assert!(full || *s == 126, "{total} of {room} at 2^-{s}: the unit could be finer");
        }
    }

    #[test]
    fn words_added_in_any_order_are_the_sum(
        (leaves, bases) in pairs(),
        sides in vec(0..2usize, 300),
        order in vec(any::<u32>(), 301),
    ) {
        let fixed = FixedPoint::new(&forest(&leaves, &bases)).expect("fixed point");
        for o in 0..bases.len() {
            let mut values = vec![(order[300], fixed.base()[o])];
            let trees = (o..leaves.len()).step_by(bases.len());
            values.extend(trees.map(|t| (order[t], fixed.leaves()[2 * t + sides[t]])));
            values.sort();
            let words = values.iter().map(|(_, v)| fixed.split(*v)).fold([0u32; 2], |sum, v| {
                // The sum of the low words never carries. That of the high words wraps in two's complement.
                [sum[0].checked_add(v[0]).expect("room for the lows"), sum[1].wrapping_add(v[1])]
            });
            prop_assert_eq!(fixed.join(words), values.iter().map(|(_, v)| v).sum::<i64>());
        }
    }

    #[test]
    fn a_total_is_rounded_to_the_nearest(
        e in -140..200i32,
        total in prop_oneof![
            any::<i64>().prop_map(|v| v >> 3),
            (any::<i32>(), 0..29u32).prop_map(|(v, by)| i64::from(v) << by),
            // Totals halfway between two floats, and one unit below and above.
            ((1i64 << 23)..(1 << 24), 0..35u32, -1..2i64).prop_map(|(v, by, d)| ((2 * v + 1) << by) + d),
        ],
    ) {
        let fixed = FixedPoint::new(&forest(&[[2f64.powi(e), 0.0]], &[0.0])).expect("fixed point");
        let s = fixed.exponents()[0];
        prop_assert_eq!(s, (59 - e).min(126));
        for total in [total, -total] {
            let found = f64::from(fixed.round(total, 0));
            let expected = rounded(total) * 2f64.powi(-s);
            let expected = if expected.abs() >= 2f64.powi(128) { expected * f64::INFINITY } else { expected };
            prop_assert!(found == expected, "{total} x 2^-{s} is {expected:e}, not {found:e}");
        }
    }

    #[test]
    fn a_margin_is_within_its_bound((leaves, bases) in pairs(), sides in vec(0..2usize, 300)) {
        let fixed = FixedPoint::new(&forest(&leaves, &bases)).expect("fixed point");
        for (o, bound) in fixed.bound().into_iter().enumerate() {
            let trees = || (o..leaves.len()).step_by(bases.len());
            let total = trees().map(|t| fixed.leaves()[2 * t + sides[t]]).sum::<i64>() + fixed.base()[o];
            let margin = fixed.round(total, o);
            let real = || trees().map(|t| leaves[t][sides[t]]).chain([bases[o]]);
            // `exact_sum` is no reference for sums beyond the largest f64.
            let magnitude: f64 = real().map(f64::abs).sum();
            if !margin.is_finite() || magnitude > 1e300 {
                continue;
            }
            let off = exact_sum(real().chain([-f64::from(margin)])).abs();
            let rounded = 1.0 + 1e-12;
            prop_assert!(off <= fixed.error(o, margin) * rounded, "{margin:e} is off by {off:e}");
            prop_assert!(fixed.error(o, margin) <= bound * rounded, "{margin:e} may be off by more than {bound:e}");
        }
    }
}

#[test]
fn units_follow_the_range() {
    // A sum has two values, a leaf value and a base score, of at most 1.5 together. So the low word has 31 bits.
    let fixed = FixedPoint::new(&forest(&[[1.0, -0.25]], &[0.5])).expect("fixed point");
    assert_eq!((fixed.low_bits(), fixed.exponents()), (31, &[59][..]));
    assert_eq!((fixed.leaves(), fixed.base()), (&[1 << 59, -1 << 57][..], &[1 << 58][..]));
    assert_eq!(fixed.split(-1), [(1 << 31) - 1, u32::MAX]);
    assert_eq!(fixed.join([(1 << 31) - 1, u32::MAX]), -1);
    // Each output has its own unit. The output with the most trees determines the number of low bits.
    let fixed =
        FixedPoint::new(&forest(&[[1.0; 2], [1e-40; 2], [4.0; 2]], &[0.0, 0.0])).expect("fixed point");
    assert_eq!((fixed.low_bits(), fixed.exponents()), (30, &[56, 126][..]));
    // If all values are zero, the unit is the finest, and the margin is +0.
    let fixed = FixedPoint::new(&forest(&[], &[-0.0])).expect("fixed point");
    assert_eq!((fixed.low_bits(), fixed.exponents(), fixed.base()), (31, &[126][..], &[0][..]));
    assert_eq!(fixed.round(0, 0).to_bits(), 0);
}

#[test]
fn margins_past_the_largest_float_are_infinite() {
    let fixed =
        FixedPoint::new(&forest(&[[f64::MAX, -f64::MAX], [f64::MAX, 3e38]], &[0.0])).expect("fixed point");
    let [a, b, c, _] = fixed.leaves() else { panic!("four leaves") };
    assert_eq!([fixed.round(a + c, 0), fixed.round(*b, 0)], [f32::INFINITY, f32::NEG_INFINITY]);
    // The largest leaf values cancel without an overflow.
    assert_eq!(fixed.round(b + c, 0), 0.0);
    let fixed = FixedPoint::new(&forest(&[[f64::from(f32::MAX); 2]], &[0.0])).expect("fixed point");
    assert_eq!(fixed.round(fixed.leaves()[0], 0), f32::MAX);
}

#[test]
fn refuses_by_name() {
    let mut broken = forest(&[[1.0, 2.0]], &[0.0]);
    broken.leaf_values[1] = f64::NAN.into();
    let error = FixedPoint::new(&broken).expect_err("a leaf that is no number");
    assert!(error.to_string().contains("leaf_values: value 1 is NaN"), "{error}");
    let mut broken = forest(&[[1.0, 2.0]], &[0.0]);
    broken.base_score[0] = f64::INFINITY.into();
    let error = FixedPoint::new(&broken).expect_err("an infinite base score");
    assert!(error.to_string().contains("base_score: value 0 is inf"), "{error}");
    let least = Forest::builder(1, 1).aggregate(Aggregate::Min).build().expect("a forest");
    assert_eq!(FixedPoint::new(&least), Err(SumError::Aggregate(Aggregate::Min)));
}

#[test]
fn contracts_have_names() {
    for contract in Contract::ALL {
        assert_eq!(Contract::parse(&contract.to_string()), Some(contract));
    }
    assert_eq!(Contract::ALL.map(Contract::name), ["any", "tree", "exact"]);
    assert_eq!(Contract::parse("Exact"), None);
}
