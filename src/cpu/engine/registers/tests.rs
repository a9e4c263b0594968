//! Compares tiles with the reference interpreter, by a walk without vectors.

use super::{InRegisters, LEAF, MaskTile, Masks, Tile, TileKind, build};
use crate::cost::Machine;
#[cfg(target_arch = "x86_64")]
use crate::cpu::{
    Rows,
    isa::{Isa, isa},
};
use crate::forest::{
    CategoryRule, CompareType, Covers, Forest, ForestBuilder, Predicate, Real, Side, reference,
};

/// Adds a tree of this many levels, full if `ends_together` and otherwise a chain. It reads at most `most` of
/// the columns. Unless `full`, some splits send every row left.
fn tree(forest: &mut ForestBuilder, levels: u32, ends_together: bool, full: bool, [columns, most]: [u32; 2]) {
    let mut tree = forest.tree(0);
    let mut next = 1u32;
    let mut open = std::collections::VecDeque::from([0u32]);
    let mut number = 0u32;
    while let Some(depth) = open.pop_front() {
        if depth == levels {
            tree.leaf(number, &[number as f64]);
        } else {
            let predicate = match number % 7 {
                6 if !full => Predicate::Always,
                n => CompareType::F32.less(f64::from(n)),
            };
            let missing = if number.is_multiple_of(3) { Side::Right } else { Side::Left };
            // The features are spread over the row, but no more of them than there is room for.
            let used = columns.min(most);
            let feature = number * 7 % used * (columns / used);
            tree.split(feature, predicate, missing, next, next + 1);
            next += 2;
            // A chain ends on one side.
            open.extend(if ends_together { [depth + 1; 2] } else { [levels, depth + 1] });
        }
        number += 1;
    }
}

fn forest(columns: u32) -> Forest {
    let mut forest = Forest::builder(columns as usize, 1).base_score([0.0]);
    for levels in [0, 1, 4, 5, 8, 9] {
        tree(&mut forest, levels, true, true, [columns, 120]);
        tree(&mut forest, levels, true, false, [columns, 120]);
    }
    for levels in [9, 30] {
        tree(&mut forest, levels, false, false, [columns, 120]);
    }
    forest.build().unwrap()
}

/// A kind of tiles, walked without vectors.
trait Walked: TileKind {
    /// Returns where a walk goes from the tile. `right` says which way it goes at a split: with the column's index, the
    /// threshold, and whether missing values go right.
    fn walked(&self, right: &dyn Fn(u8, f32, bool) -> bool) -> u16;
}

impl Walked for Tile {
    fn walked(&self, right: &dyn Fn(u8, f32, bool) -> bool) -> u16 {
        let mut index = 0;
        while index < 15 {
            let missing = self.missing >> index & 1 == 1;
            index = 2 * index + 1 + usize::from(right(self.columns[index], self.thresholds[index], missing));
        }
        self.exits[index - 15]
    }
}

impl Walked for MaskTile {
    fn walked(&self, right: &dyn Fn(u8, f32, bool) -> bool) -> u16 {
        let ruled_out = (0..32).filter(|index| {
            let missing = self.missing >> index & 1 == 1;
            right(self.columns[*index], self.thresholds[*index], missing)
        });
        let ruled_out = ruled_out.fold(0, |all, index| all | self.left[index]);
        self.exits[ruled_out.trailing_ones() as usize]
    }
}

/// Returns the leaf slot that a row reaches, and the number of tiles on its path.
fn walk<P: Walked>(few: &InRegisters<P>, position: usize, row: &[f32]) -> (u32, u32) {
    let tree = few.trees[position];
    let (mut exit, mut tiles) = (0, 0);
    while exit & LEAF == 0 {
        let right = |column: u8, threshold: f32, missing: bool| {
            let column = usize::from(column);
            let x = row[few.columns.as_ref().map_or(column, |columns| columns[column] as usize)];
            if x.is_nan() { missing } else { x >= threshold }
        };
        exit = few.tiles[tree.root as usize + usize::from(exit)].walked(&right);
        tiles += 1;
    }
    (tree.slots + u32::from(exit & !LEAF), tiles)
}

fn lead_where_splits_lead<P: Walked>() {
    let mut evens = 0;
    for columns in [1u32, 3, 128, 129, 500] {
        let forest = forest(columns);
        let order: Vec<u32> = (0..forest.trees.len() as u32).rev().collect();
        let few = build::build::<P>(&forest, &order, Machine::here()).expect("thresholds of few columns");
        for r in 0..200u32 {
            let value = |c: u32| match (r * 31 + c * 17) % 11 {
                9 => f32::NAN,
                10 => f32::INFINITY,
                n => n as f32 - 1.0 + if r % 2 == 0 { 0.0 } else { 0.5 },
            };
            let row: Vec<f32> = (0..columns).map(value).collect();
            let slots = reference::leaf_slots(&forest, &row);
            for (position, t) in order.iter().enumerate() {
                let (slot, tiles) = walk(&few, position, &row);
                assert_eq!(slot, slots[*t as usize]);
                let tree = few.trees[position];
                evens += u32::from(tree.ends_together && tree.tiles > 1);
                assert!(!tree.ends_together || tiles == tree.tiles);
            }
        }
    }
    assert!(evens > 0, "some trees are even, and of more than one tile");
}

#[test]
fn tiles_lead_where_splits_lead() {
    lead_where_splits_lead::<Tile>();
}

#[test]
fn tiles_of_any_shape_lead_where_splits_lead() {
    lead_where_splits_lead::<MaskTile>();
}

#[test]
fn what_has_no_room_is_left_to_other_walks() {
    let mut wide = Forest::builder(300, 1).base_score([0.0]);
    tree(&mut wide, 8, true, true, [300, 300]);
    let wide = wide.build().unwrap();
    assert!(wide.used_columns().len() > super::MOST_COLUMNS);
    assert!(build::build::<Tile>(&wide, &[0], Machine::here()).is_none());
    // The number of a leaf within its tree has 15 bits.
    for (more, fits) in [(0, true), (1, false)] {
        let mut large = Forest::builder(2, 1).base_score([0.0]);
        let mut tree = large.tree(0);
        let (splits, leaves) = ((1 << 15) - 1 + more, (1 << 15) + more);
        for n in 0..splits {
            tree.split(n % 2, CompareType::F32.less(f64::from(n)), Side::Left, 2 * n + 1, 2 * n + 2);
        }
        for n in 0..leaves {
            tree.leaf(splits + n, &[f64::from(n)]);
        }
        assert_eq!(
            build::build::<Tile>(&large.build().unwrap(), &[0], Machine::here()).is_some(),
            fits,
            "{leaves} leaves"
        );
    }
    let mut asking = Forest::builder(2, 1).base_score([0.0]);
    let mut asks = asking.tree(0);
    asks.split(0, Predicate::Equal { value: 3.0.into() }, Side::Left, 1, 2);
    asks.leaf(0, &[1.0]);
    asks.leaf(1, &[2.0]);
    let asking = asking.build().unwrap();
    assert!(build::build::<Tile>(&asking, &[0], Machine::here()).is_none());
    assert!(build::build::<MaskTile>(&asking, &[0], Machine::here()).is_none());
}

/// Compares the kernel, on a machine that has it, with the walk without vectors.
#[cfg(target_arch = "x86_64")]
fn kernels_lead_where_tiles_lead<P: Walked>() {
    use crate::cpu::{
        engine::walk::Span,
        sink::{SharedBuffer, SlotTable, Slots},
    };
    // More trees than a group holds, and not a whole number of groups.
    let mut stumps = Forest::builder(2, 1).base_score([0.0]);
    for _ in 0..130 {
        tree(&mut stumps, 1, true, true, [2, 2]);
    }
    let forests = [1u32, 32, 33, 64, 65, 96, 97, 128, 500].map(forest);
    for forest in forests.into_iter().chain([stumps.build().unwrap()]) {
        let columns = forest.features.len();
        let order: Vec<u32> = (0..forest.trees.len() as u32).collect();
        let Some(few) = InRegisters::<P>::new(&forest, &order) else { return };
        let (rows, trees) = (38, order.len());
        let value = |i: usize| match i * 29 % 13 {
            12 if !i.is_multiple_of(3) => f32::NAN,
            n => n as f32 - 2.0,
        };
        let mut data: Vec<f32> = (0..(rows - 1) * columns).map(value).collect();
        // In the last row, no value is missing but the first of each register.
        data.extend((0..columns).map(|c| if c.is_multiple_of(16) { f32::NAN } else { 3.0 }));
        let mut out = vec![u32::MAX; rows * trees];
        let sink = Slots { slots: SlotTable(&[]), out: SharedBuffer::new(&mut out), order: &order };
        let of_rows = Rows::new(&data, columns).unwrap();
        let all = |count| Span { start: 0, stride: 1, count };
        // SAFETY: the spans are all rows and all trees.
        unsafe { few.block(&of_rows, all(rows), all(trees), sink) };
        for (row, found) in data.chunks(columns).zip(out.chunks(trees)) {
            let walked: Vec<u32> = (0..trees).map(|position| walk(&few, position, row).0).collect();
            assert_eq!(found, walked, "{columns} columns");
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn registers_lead_where_tiles_lead() {
    kernels_lead_where_tiles_lead::<Tile>();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn masks_lead_where_tiles_lead() {
    kernels_lead_where_tiles_lead::<MaskTile>();
}

/// Returns the leaf slots of rows, by the kernel: a row's trees side by side.
#[cfg(target_arch = "x86_64")]
fn slots_of<P: TileKind, T: crate::cpu::Row>(few: &InRegisters<P>, rows: &Rows<'_, T>) -> Vec<u32> {
    use crate::cpu::{
        engine::walk::Span,
        sink::{SharedBuffer, SlotTable, Slots},
    };
    let trees = few.trees.len();
    let order: Vec<u32> = (0..trees as u32).collect();
    let mut out = vec![u32::MAX; rows.len() * trees];
    let sink = Slots { slots: SlotTable(&[]), out: SharedBuffer::new(&mut out), order: &order };
    let all = |count| Span { start: 0, stride: 1, count };
    // SAFETY: the spans are all rows and all trees.
    unsafe { few.block(rows, all(rows.len()), all(trees), sink) };
    out
}

/// Compares the kernel with the reference interpreter on rows of `f64` and of `f32`. Thresholds of a forest that compares
/// in `f64` lie between `f32` values, some several in one gap, and values lie around thresholds. If `asks`, some splits ask for
/// categories, also on columns of thresholds.
#[cfg(target_arch = "x86_64")]
fn doubles_lead_where_splits_lead<P: TileKind>(compare: CompareType, asks: bool) {
    let mut state = 1u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let gap = 0.1f64;
    let mut thresholds =
        vec![gap, gap.next_up(), gap.next_up().next_up(), -gap, 1e-35, 0.0, 1e300, 3.0, -7.5];
    thresholds.extend([-1e300, f64::INFINITY, f64::NEG_INFINITY]);
    thresholds.extend([f64::from(f32::MAX), f64::from(f32::MAX) * 1.5, 1_700_000_000.5, 1_700_000_001.0]);
    let mut values: Vec<f64> = thresholds.iter().flat_map(|t| [t.next_down(), *t, t.next_up()]).collect();
    values.extend(
        thresholds
            .iter()
            .flat_map(|t| [(*t as f32).next_down(), *t as f32, (*t as f32).next_up()].map(f64::from)),
    );
    values.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, -0.0]);
    values.extend([
        1e-40,
        -1e-40,
        -1e-310,
        5e-324,
        f64::from(f32::MIN_POSITIVE),
        f64::from(-f32::MIN_POSITIVE),
    ]);
    if asks {
        values.extend((0..80).map(|n| f64::from(n) / 2.0));
        values.extend([
            -0.5,
            -1.0,
            16_777_215.0,
            16_777_216.0,
            16_777_215.9,
            3.0f64.next_down(),
            3.0f64.next_up(),
        ]);
    }
    let mut rounded = 0;
    let rules = [CategoryRule::NotNegative, CategoryRule::Truncated, CategoryRule::Whole];
    for (case, columns) in [1usize, 16, 20, 33, 65, 97, 128, 300].into_iter().enumerate() {
        let mut forest = Forest::builder(columns, 1).base_score([0.0]).compare(compare);
        let mut sets = Vec::new();
        if asks {
            for _ in 0..6 {
                let members: Vec<u32> = (0..40).filter(|_| draw(3) == 0).collect();
                sets.push(forest.set(members, rules[case % 3]));
            }
            sets.push(forest.set([], rules[case % 3]));
        }
        for depth in [0u32, 1, 3, 4, 5, 7, 20, 40] {
            let mut tree = forest.tree(0);
            // Full trees up to seven levels, and chains.
            let (splits, is_chain) = if depth > 7 { (depth, true) } else { ((1 << depth) - 1, false) };
            for n in 0..splits {
                let side = |right: bool| if right { Side::Right } else { Side::Left };
                let predicate = match draw(12) {
                    0 => Predicate::Always,
                    1..5 if asks => {
                        Predicate::InSet { set: sets[draw(sets.len())], inside: side(draw(2) == 0) }
                    }
                    _ => compare.less(thresholds[draw(thresholds.len())]),
                };
                let below = if is_chain { [splits + 1 + n, n + 1] } else { [2 * n + 1, 2 * n + 2] };
                let used = columns.min(100);
                let feature = draw(used) * (columns / used);
                tree.split(feature as u32, predicate, side(draw(2) == 0), below[0], below[1]);
            }
            (splits..=2 * splits).for_each(|n| _ = tree.leaf(n, &[f64::from(n)]));
        }
        let forest = forest.build().expect("trees");
        let order: Vec<u32> = (0..forest.trees.len() as u32).collect();
        let Some(few) = InRegisters::<P>::new(&forest, &order) else {
            assert!(isa() < Isa::Avx512, "tiles serve the forest");
            return;
        };
        let exact = if compare == CompareType::F64 { few.tiles.len() * P::ENTRIES } else { 0 };
        assert_eq!(few.exact.len(), exact);
        assert_eq!(few.answers.columns.is_empty(), !asks);
        let (rows, trees) = (200, order.len());
        let mut data: Vec<f64> = (0..rows * columns).map(|_| values[draw(values.len())]).collect();
        // Rows that are `f32` values, with and without missing ones.
        let exact = |value: &mut f64| *value = if value.is_nan() { *value } else { f64::from(*value as f32) };
        data[..20 * columns].iter_mut().for_each(exact);
        data[..10 * columns].iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = 0.5);
        rounded +=
            data.iter().filter(|value| f64::from(**value as f32) != **value && !value.is_nan()).count();
        let found = slots_of(&few, &Rows::new(&data, columns).expect("rows"));
        let by_column: Vec<f64> = (0..data.len()).map(|at| data[at % rows * columns + at / rows]).collect();
        let by_column = Rows::strided(&by_column, [rows, columns], [1, rows]).expect("columns");
        assert_eq!(slots_of(&few, &by_column), found, "{columns} columns, column by column");
        let singles: Vec<f32> = data.iter().map(|value| *value as f32).collect();
        let found_of_singles = slots_of(&few, &Rows::new(&singles, columns).expect("rows"));
        for r in 0..rows {
            let (row, slots) = (r * columns..(r + 1) * columns, r * trees..(r + 1) * trees);
            let expected = reference::leaf_slots(&forest, &data[row.clone()]);
            assert_eq!(found[slots.clone()], expected, "{columns} columns, row {r}");
            let expected = reference::leaf_slots(&forest, &singles[row]);
            assert_eq!(found_of_singles[slots], expected, "{columns} columns, row {r} as f32");
        }
    }
    assert!(rounded > 1000, "many values are no `f32`");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn doubles_in_registers_lead_where_splits_lead() {
    CompareType::ALL.into_iter().for_each(|compare| doubles_lead_where_splits_lead::<Tile>(compare, false));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn doubles_by_masks_lead_where_splits_lead() {
    CompareType::ALL
        .into_iter()
        .for_each(|compare| doubles_lead_where_splits_lead::<MaskTile>(compare, false));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn categories_by_masks_lead_where_splits_lead() {
    CompareType::ALL
        .into_iter()
        .for_each(|compare| doubles_lead_where_splits_lead::<MaskTile>(compare, true));
}

/// A thread may take such `f32` for 0, so `f64` rows of the forest are left to other walks.
#[test]
fn thresholds_next_to_zero_are_not_rounded() {
    for (threshold, rounds) in [(1e-40, false), (-1e-310, false), (0.0, true), (1e-35, true)] {
        let mut forest = Forest::builder(1, 1).base_score([0.0]).compare(CompareType::F64);
        let mut tree = forest.tree(0);
        tree.split(0, CompareType::F64.less(threshold), Side::Left, 1, 2);
        tree.leaf(1, &[1.0]);
        tree.leaf(2, &[2.0]);
        let few =
            build::build::<Tile>(&forest.build().expect("a tree"), &[0], Machine::here()).expect("tiles");
        assert_eq!(!few.exact.is_empty(), rounds, "{threshold}");
    }
}

/// Tiles of four levels take no splits on categories. Tiles of any shape take them, but neither a column that is read by
/// two rules nor one of so many categories that the answers have no room.
#[test]
fn categories_that_have_no_answers_are_left_to_other_walks() {
    let able = |columns: [u32; 2], rules: [CategoryRule; 2], largest: u32| {
        let mut forest = Forest::builder(2, 1).base_score([0.0]);
        let sets = rules.map(|rule| forest.set([1, largest], rule));
        let mut tree = forest.tree(0);
        let asks = |set| Predicate::InSet { set, inside: Side::Left };
        tree.split(columns[0], asks(sets[0]), Side::Left, 1, 2);
        tree.split(columns[1], asks(sets[1]), Side::Right, 3, 4);
        (2..5).for_each(|node| _ = tree.leaf(node, &[f64::from(node)]));
        let forest = forest.build().expect("a tree");
        assert!(build::build::<Tile>(&forest, &[0], Machine::here()).is_none());
        build::build::<MaskTile>(&forest, &[0], Machine::here()).is_some()
    };
    let (whole, truncated) = (CategoryRule::Whole, CategoryRule::Truncated);
    assert!(able([0, 0], [whole; 2], 40));
    assert!(able([0, 1], [whole, truncated], 40));
    assert!(!able([0, 0], [whole, truncated], 40));
    assert!(!able([0, 1], [whole; 2], 1 << 21));
}

/// A split that no row reaches asks for a category. So there are no answers.
#[test]
fn dead_splits_on_categories_need_no_answers() {
    let mut forest = Forest::builder(2, 1).base_score([0.0]);
    let set = forest.set([1, 2], CategoryRule::Whole);
    let mut tree = forest.tree(0);
    tree.split(0, Predicate::Always, Side::Left, 1, 2);
    tree.split(1, CompareType::F32.less(1.0), Side::Left, 3, 4);
    tree.split(1, Predicate::InSet { set, inside: Side::Left }, Side::Left, 5, 6);
    (3..7).for_each(|node| _ = tree.leaf(node, &[f64::from(node)]));
    let forest = forest.build().expect("a tree");
    assert!(build::build::<Tile>(&forest, &[0], Machine::here()).is_some());
    let few = build::build::<MaskTile>(&forest, &[0], Machine::here()).expect("tiles");
    assert!(few.answers.columns.is_empty());
}

/// A chain of 31 splits is one tile of any shape, and one more split needs a second tile.
#[test]
fn a_tile_of_any_shape_has_31_splits() {
    let tiles = |splits: u32| {
        let mut forest = Forest::builder(1, 1);
        let mut tree = forest.tree(0);
        for n in 0..splits {
            tree.split(0, CompareType::F32.less(f64::from(n)), Side::Left, 2 * n + 1, 2 * n + 2);
            tree.leaf(2 * n + 1, &[f64::from(n)]);
        }
        tree.leaf(2 * splits, &[-1.0]);
        let few: Masks =
            build::build(&forest.build().expect("a chain"), &[0], Machine::here()).expect("tiles");
        few.tiles.len()
    };
    assert_eq!([0, 30, 31, 32, 62, 63].map(tiles), [1, 1, 1, 2, 2, 3]);
}

/// Two chains hang on the root. The root's tile has most of the chain to which the covers send most rows.
#[test]
fn a_tile_of_any_shape_takes_the_splits_that_most_rows_reach() {
    const LENGTH: u32 = 30;
    let at_first = |shares: [f64; 2]| {
        let mut forest = Forest::builder(1, 1);
        let mut tree = forest.tree(0);
        tree.split(0, CompareType::F32.less(0.5), Side::Left, 1, 1 + 2 * LENGTH + 1);
        let mut covers = vec![Real(1.0)];
        for (share, first) in shares.into_iter().zip([1, 2 + 2 * LENGTH]) {
            for n in 0..LENGTH {
                let split = first + 2 * n;
                tree.split(0, CompareType::F32.less(f64::from(n)), Side::Left, split + 1, split + 2);
                tree.leaf(split + 1, &[f64::from(n)]);
                let here = |n: u32| Real(share * f64::from(LENGTH + 1 - n) / f64::from(LENGTH + 1));
                covers.extend([here(n), Real(share / f64::from(LENGTH + 1))]);
            }
            tree.leaf(first + 2 * LENGTH, &[-share]);
            covers.push(Real(share / f64::from(LENGTH + 1)));
        }
        let mut forest = forest.build().expect("a tree");
        forest.covers = Some(Covers::new(vec![covers]).expect("sound covers"));
        let few: Masks = build::build(&forest, &[0], Machine::here()).expect("tiles");
        // In the root's tile, the splits to the left of the root, and those to its right. The root is split 0.
        let tile = &few.tiles[0];
        let left = tile.left.iter().skip(1).filter(|left| **left != 0 && **left & !tile.left[0] == 0).count();
        [left, tile.left.iter().filter(|left| **left != 0).count() - 1 - left]
    };
    assert_eq!(at_first([0.99, 0.01]), [30, 0]);
    assert_eq!(at_first([0.01, 0.99]), [0, 30]);
    assert_eq!(at_first([0.5, 0.5]), [15, 15]);
}

/// Walks branch where most of them go one way, which covers say. A leaf counts once, however many exits of its tile
/// lead to it.
#[test]
fn covers_decide_how_many_tiles_all_walks_go_through() {
    let tiles = |leaf_share: Option<f64>| {
        let mut forest = Forest::builder(1, 1);
        let mut tree = forest.tree(0);
        let split = |k: u32| CompareType::F32.less(f64::from(k));
        // A leaf below the root on the left, and a full subtree of five levels on the right.
        tree.split(0, split(0), Side::Left, 1, 2);
        tree.leaf(1, &[0.0]);
        for node in 2..33 {
            tree.split(0, split(node), Side::Left, 2 * node - 1, 2 * node);
        }
        for node in 33..65 {
            tree.leaf(node, &[1.0]);
        }
        let mut forest = forest.build().expect("a tree");
        forest.covers = leaf_share.map(|share| {
            let of_node = |node: u32| match node {
                0 => 1.0,
                1 => share,
                // The other rows spread evenly over each level.
                node => (1.0 - share) / f64::from(1u32 << (node - 1).ilog2()),
            };
            let covers = (0..65).map(|node| Real(of_node(node))).collect();
            Covers::new(vec![covers]).expect("sound covers")
        });
        build::build::<Tile>(&forest, &[0], Machine::here()).expect("tiles").trees[0].tiles
    };
    assert_eq!([None, Some(0.5), Some(0.99), Some(0.0)].map(tiles), [1, 2, 1, 1]);
}
