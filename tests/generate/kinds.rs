//! Forests and schedules that together have every kind: of predicates, transforms, magnitudes and mappings.

use fangorn::{
    Forest,
    forest::{Aggregate, CategoryRule, CompareType, MOST_CATEGORIES, Predicate, Real, Side, Transform},
    schedule::{Preset, Schedule},
};

/// Trees of one split of column 0 each: every predicate, either side for what is missing and for what a set names.
pub fn predicates(compare: CompareType) -> Forest {
    let mut forest = Forest::builder(1, 1).compare(compare);
    let mut asks = Vec::new();
    for t in [0.0, 1e-45, -1e-45, 0.1f64, -3.5, 1e-30, f64::INFINITY, f64::NEG_INFINITY, 16_777_216.0] {
        let t = compare.cast(t);
        asks.extend([compare.less(t), compare.at_most(t), Predicate::Equal { value: Real(t) }]);
        if t.abs() > 1e-34 {
            asks.push(Predicate::LessZeroAside { threshold: Real(t) });
        }
    }
    for rule in [CategoryRule::NotNegative, CategoryRule::Truncated, CategoryRule::Whole] {
        for members in [vec![], vec![0], vec![1, 2, 37], vec![0, 31, 32, MOST_CATEGORIES - 1]] {
            let set = forest.set(members, rule);
            asks.extend([Side::Left, Side::Right].map(|inside| Predicate::InSet { set, inside }));
        }
    }
    for (i, ask) in asks.into_iter().flat_map(|ask| [(0, ask), (1, ask)]) {
        let mut tree = forest.tree(0);
        tree.split(0, ask, [Side::Left, Side::Right][i], 1, 2);
        tree.leaf(1, &[0.5]);
        tree.leaf(2, &[0.25]);
    }
    forest.build().expect("a forest that verifies")
}

/// Numbers at and beside the thresholds of [`predicates`].
pub fn edges() -> Vec<f32> {
    let near = |x: f32| [x.next_down(), x, x.next_up()];
    let edges =
        [0.0, -0.0, 0.1, -3.5, 1e-30, 1e-35, -1e-35, -1.0, -0.5, 1.0, 2.0, 2.7, 37.0, 31.0, 32.0, 33.0, 64.0];
    let far = [f32::INFINITY, f32::NEG_INFINITY, 16_777_215.0, 16_777_216.0, 1e30, f32::MAX, 1e-45, -1e-45];
    edges.into_iter().chain(far).flat_map(near).chain([f32::NAN, -f32::NAN]).collect()
}

/// Seven trees of four leaves over two columns, leaves of either sign.
pub fn small(transform: Transform, aggregate: Aggregate, vectors: bool, outputs: u32) -> Forest {
    let mut forest = Forest::builder(2, outputs)
        .base_score((0..outputs).map(|o| f64::from(o) * 0.25))
        .transform(transform)
        .aggregate(aggregate)
        .scale(if transform == Transform::Probit { 0.02 } else { 0.75 });
    for t in 0..7u32 {
        let mut tree = if vectors { forest.vector_tree() } else { forest.tree(t % outputs) };
        tree.split(0, CompareType::F32.less(f64::from(t) / 7.0), Side::Left, 1, 2);
        tree.split(1, CompareType::F32.less(f64::from(t) / 8.0), Side::Right, 3, 4);
        tree.split(1, CompareType::F32.at_most(0.5), Side::Left, 5, 6);
        for leaf in 3..7 {
            let value = |o: u32| {
                f64::from((t * 5 + leaf * 3 + o * 2) % 11)
                    - if transform == Transform::Probit { 0.0 } else { 4.5 }
            };
            let values: Vec<f64> = (0..if vectors { outputs } else { 1 }).map(value).collect();
            tree.leaf(leaf, &values);
        }
    }
    forest.build().expect("a forest that verifies")
}

/// Rows at and between the thresholds of [`small`].
pub fn small_rows() -> Vec<f32> {
    (0..128).flat_map(|r| [(r % 11) as f32 / 10.0, (r / 11) as f32 / 11.0]).collect()
}

/// Stumps with leaves of every magnitude, each half of them the other's opposite but for the last bit; and 16 rows.
pub fn stumps(library: &str, seed: u64) -> (Forest, Vec<f32>) {
    let mut state = seed;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ (state >> 29)
    };
    let mut value = || {
        let exponent = [1023, 1023, 1000, 1050, 880, 1100, 1, 0][(random() % 8) as usize] + random() % 40;
        f64::from_bits((random() & (1 << 63 | ((1 << 52) - 1))) | exponent << 52)
    };
    let base = value();
    let mut forest = Forest::builder(4, 1).producer(library, "1", "regression").base_score([base]);
    let mut last = 0.0f64;
    for t in 0..96 {
        let mut tree = forest.tree(0);
        tree.split(t % 4, CompareType::F32.less(0.5), Side::Left, 1, 2);
        let left = if t % 3 == 2 { -last.next_up() } else { value() };
        last = left;
        tree.leaf(1, &[left]);
        tree.leaf(2, &[value()]);
    }
    let rows = (0..16 * 4).map(|i| f32::from(u8::from(i >> (2 + i % 4) & 1 == 1))).collect();
    (forest.build().expect("a forest"), rows)
}

/// Schedules that the presets do not reach: trees over the grid, strides, splits, two block axes, lanes of rows.
pub const SCHEDULES: [(&str, &str); 11] = [
    (
        "trees over the grid",
        "tile(batch, b0, b1, 32)\ntile(tree, t0, t1, trees/3)\nreorder(b0, t0, b1, t1)\ngpuDimension(b0, grid.x)\ngpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\nlayout(array)",
    ),
    (
        "trees over grid and block",
        "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, 7)\ntile(t1, t2, t3, 2)\nreorder(b0, t0, b1, t2, t3)\ngpuDimension(b0, grid.x)\ngpuDimension(t0, grid.y)\ngpuDimension(b1, block.x)\ngpuDimension(t2, block.y)\nsharedReduce(t2)",
    ),
    (
        "block trees without shared sums",
        "tile(batch, b0, b1, 16)\ntile(tree, t0, t1, trees/4)\nreorder(b0, b1, t0, t1)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\ngpuDimension(t0, block.y)",
    ),
    (
        "strided trees, depth groups",
        "sort(depth)\ntile(tree, t0, t1, 4)\nreorder(batch, t1, t0)\nsplit(t0, ta, tb, 2)\ngpuDimension(batch, grid.x)\ngpuDimension(t1, block.x)\nunrollWalk(ta)\nunrollWalk(tb)\nlayout(array)\nsharedReduce(t1)",
    ),
    (
        "strip-mined rows",
        "tile(batch, b0, b1, 1000)\nreorder(b0, b1, tree)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\nunrollWalk(tree, 2)",
    ),
    (
        "tree outermost",
        "reorder(tree, batch)\ntile(batch, b0, b1, 64)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)",
    ),
    (
        "rows split",
        "split(batch, ba, bb, 20)\ntile(ba, a0, a1, 8)\ntile(bb, c0, c1, 8)\ngpuDimension(a0, grid.x)\ngpuDimension(c0, grid.x)\ngpuDimension(a1, block.x)\ngpuDimension(c1, block.x)\ncache(a0)\ncache(c0)",
    ),
    (
        "lanes of rows",
        "tile(batch, b0, b1, 24)\ntile(b1, b2, b3, 3)\nreorder(b0, b2, tree, b3)\ngpuDimension(b0, grid.x)\ngpuDimension(b2, block.x)\ninterleave(b3)\nunrollWalk(b3)",
    ),
    (
        "serial trees round shared ones",
        "tile(tree, t0, t1, 8)\ngpuDimension(batch, grid.x)\ngpuDimension(t1, block.x)\nsharedReduce(t1)",
    ),
    (
        "strided serial trees round shared ones",
        "tile(tree, v1, v2, 3)\nreorder(v2, v1)\ntile(v1, v3, v4, trees/2)\nreorder(v2, batch)\ngpuDimension(batch, grid.x)\ngpuDimension(v4, block.x)\nsharedReduce(v4)",
    ),
    (
        "cached, shared, lanes of trees",
        "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, trees/2)\ntile(t1, t2, t3, 3)\nreorder(b0, b1, t0, t2, t3)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\ngpuDimension(t0, block.y)\ncache(b0)\nsharedReduce(t0)\ninterleave(t3)\nlayout(array)",
    ),
];

/// Schedules that keep sums in registers, in shared memory, in global copies, in the result, and added to atomically.
pub fn schedules_of_sums(forest: &Forest) -> Vec<(String, Schedule)> {
    let preset = |p: Preset| (p.name().to_owned(), p.schedule(forest, true));
    let mut all = [Preset::Default, Preset::TahoeDirect, Preset::RapidsFil].map(preset).to_vec();
    for text in [
        "tile(tree, t0, t1, 7); reorder(t0, batch, t1); gpuDimension(t0, grid.y); gpuDimension(batch, grid.x)",
        "tile(tree, t0, t1, 5); tile(batch, b0, b1, 8); reorder(b0, t0, b1, t1); gpuDimension(b0, grid.x)
         gpuDimension(t0, grid.y); gpuDimension(b1, block.x); atomicReduce(t0); ranks(auto)",
    ] {
        let text = text.replace("; ", "\n");
        all.push((text.clone(), Schedule::parse(&text).expect("a schedule")));
    }
    all
}
