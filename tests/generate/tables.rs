//! Tables as people have them, with forests as they are grown on such tables: columns of every kind side by side, some values
//! missing, thresholds few or thousands, trees of every shape.

use fangorn::{
    Forest,
    forest::{CategoryRule, CategorySet, CompareType, Predicate, Real, Side},
};

use super::{
    Seeded,
    grow::{Growing, assemble},
};

/// What a column's values are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Normal,
    HeavyTailed,
    Whole,
    TwoValues,
    Constant,
    /// A tiny spread on a large offset.
    Offset,
    MostlyZero,
    /// Codes from 0 on.
    Category,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::HeavyTailed,
        Self::Whole,
        Self::TwoValues,
        Self::Constant,
        Self::Offset,
        Self::MostlyZero,
        Self::Category,
    ];
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub kind: Kind,
    /// Of a hundred values, how many are missing.
    pub missing: usize,
    /// Codes of a category.
    pub codes: u32,
    /// Thresholds that splits take, at most.
    pub thresholds: usize,
    /// Whether missing values go right; otherwise each split has a side of its own.
    pub side: Option<Side>,
    seed: u64,
}

/// A table's columns, a forest grown on it, and rows of it.
pub struct Table {
    pub columns: Vec<Column>,
    pub forest: Forest,
    pub rows: Vec<f64>,
    pub count: usize,
}

fn unit(random: &mut Seeded) -> f64 {
    random.below(1 << 30) as f64 / f64::from(1 << 30)
}

fn normal(random: &mut Seeded) -> f64 {
    (0..6).map(|_| unit(random)).sum::<f64>() * 1.4 - 4.2
}

impl Column {
    fn draw(random: &mut Seeded) -> Self {
        let kinds = [0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7];
        let few = [0, 1, 2, 5, 12, 40];
        Self {
            kind: Kind::ALL[kinds[random.below(kinds.len())]],
            missing: [0, 0, 5, 20, 50][random.below(5)],
            codes: [2, 3, 7, 20, 31, 32, 33, 200, 254, 255, 256, 300, 1000][random.below(13)],
            thresholds: match random.below(3) {
                0 => few[random.below(few.len())],
                1 => 60 + random.below(195),
                _ => 255 + random.below(3) * 900,
            },
            side: [None, Some(Side::Left), Some(Side::Right)][random.below(3)],
            seed: random.next() % (1 << 40),
        }
    }

    /// A value of the column, which may be missing.
    fn value(&self, random: &mut Seeded) -> f64 {
        if random.below(100) < self.missing {
            return f64::NAN;
        }
        self.present(random)
    }

    fn present(&self, random: &mut Seeded) -> f64 {
        let scale = 10f64.powi((self.seed % 7) as i32 - 3);
        match self.kind {
            Kind::Normal => normal(random) * scale,
            Kind::HeavyTailed => {
                let tail = (1.0 - unit(random)).powf(-1.5) * scale;
                if random.below(2) == 0 { tail } else { -tail }
            }
            Kind::Whole => random.below(2 + (self.seed % 900) as usize) as f64 - (self.seed % 40) as f64,
            Kind::TwoValues => [self.seed as f64 % 3.0, -1.5][random.below(2)],
            Kind::Constant => scale,
            Kind::Offset => 40_000.0 + normal(random) * 0.03,
            Kind::MostlyZero if random.below(10) > 0 => 0.0,
            Kind::MostlyZero => normal(random).abs() * scale,
            Kind::Category => {
                // Some codes are much more frequent than others.
                let share = unit(random) * unit(random);
                (share * f64::from(self.codes)).floor()
            }
        }
    }

    /// A value that no table has, but that is asked about all the same.
    fn odd(&self, threshold: Option<f64>, random: &mut Seeded) -> f64 {
        let odd = [
            f64::NAN,
            0.0,
            -0.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e-45,
            -1e-45,
            -0.5,
            -1.0,
            2.7,
            16_777_216.0,
            1e30,
        ];
        let threshold = threshold.filter(|_| random.below(2) == 0);
        match threshold {
            Some(t) if self.kind == Kind::Category => t,
            Some(t) => {
                [t, f64::from((t as f32).next_up()), f64::from((t as f32).next_down())][random.below(3)]
            }
            None if self.kind == Kind::Category => {
                let end = f64::from(self.codes);
                [end - 1.0, end, end + 31.0, 0.5][random.below(4)]
            }
            None => odd[random.below(odd.len())],
        }
    }
}

/// How trees are shaped.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// All leaves as deep, or nearly.
    Level(u32),
    /// Any leaf is split next.
    LeafWise(usize),
    /// The last leaf is split next.
    Chain(usize),
}

impl Table {
    /// A table of so many rows with a forest whose walks through them take no more than so many steps.
    pub fn draw(seed: u64, rows: usize, steps: usize) -> Self {
        let mut random = Seeded(seed);
        let width = match random.below(6) {
            0 => 1 + random.below(4),
            1 => 12 + random.below(9),
            2 => 28 + random.below(9),
            3 => 100 + random.below(201),
            _ => 5 + random.below(60),
        };
        let columns: Vec<Column> = (0..width).map(|_| Column::draw(&mut random)).collect();
        // Where categories are left out, or questions of any kind, other engines serve.
        let columns = match random.below(3) {
            0 => columns
                .into_iter()
                .map(|c| if c.kind == Kind::Category { Column { kind: Kind::Whole, ..c } } else { c })
                .collect(),
            // One among the others, at any index of a group.
            1 => {
                let one = random.below(width);
                let kind = |(i, c): (usize, Column)| match (i == one, c.kind) {
                    (true, _) => Column { kind: Kind::Category, ..c },
                    (false, Kind::Category) => Column { kind: Kind::Normal, ..c },
                    _ => c,
                };
                columns.into_iter().enumerate().map(kind).collect()
            }
            _ => columns,
        };
        let train = 300;
        let data: Vec<f64> = (0..train * width).map(|i| columns[i % width].value(&mut random)).collect();
        let forest = grow(&columns, &data, &mut random, steps / rows.max(1));
        let asked: Vec<Vec<f64>> = asked(&forest);
        // Rows as the table has them, and every third with values at which a decision changes.
        let mut all = Vec::with_capacity(rows * width);
        for r in 0..rows {
            for (column, asked) in columns.iter().zip(&asked) {
                let odd = r % 3 == 1 && random.below(3) == 0;
                let threshold = (!asked.is_empty()).then(|| asked[random.below(asked.len())]);
                all.push(if odd { column.odd(threshold, &mut random) } else { column.value(&mut random) });
            }
        }
        Self { columns, forest, rows: all, count: rows }
    }
}

/// By column the numbers that its splits compare with, and members of its sets.
fn asked(forest: &Forest) -> Vec<Vec<f64>> {
    let mut asked = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|tree| &tree.nodes) {
        let fangorn::forest::Node::Split { feature, predicate, .. } = *node else { continue };
        match predicate {
            Predicate::Less { threshold } => asked[feature as usize].push(threshold.0),
            Predicate::InSet { set, .. } => {
                asked[feature as usize].extend(forest.sets[set as usize].members().take(2).map(f64::from));
            }
            _ => {}
        }
    }
    asked
}

/// Trees on a table, whose walks are no more than so many steps a row.
fn grow(columns: &[Column], data: &[f64], random: &mut Seeded, steps: usize) -> Forest {
    let width = columns.len();
    let shape = match random.below(8) {
        0 => Shape::Level(1 + random.below(2) as u32),
        1..=3 => Shape::Level(3 + random.below(6) as u32),
        4..=5 => Shape::LeafWise(15 + random.below(100)),
        6 => Shape::LeafWise(250 + random.below(50)),
        _ => Shape::Chain(3 + random.below(20)),
    };
    let deep = match shape {
        Shape::Level(depth) => depth as usize,
        Shape::LeafWise(leaves) => leaves.ilog2() as usize + 2,
        Shape::Chain(length) => length,
    };
    let trees = (steps / deep.max(1)).clamp(1, 5 + random.below(150));
    let compare = if random.below(3) == 0 { CompareType::F64 } else { CompareType::F32 };
    let rule = [CategoryRule::NotNegative, CategoryRule::Truncated, CategoryRule::Whole][random.below(3)];
    let pools: Vec<Vec<f64>> = (0..width).map(|c| pool(columns, data, c, compare, random)).collect();
    let mut sets: Vec<CategorySet> = Vec::new();
    let mut grown = Vec::new();
    for _ in 0..trees {
        let mut tree = Growing::new();
        // The table's rows at each node.
        let mut here: Vec<Vec<u32>> = vec![(0..(data.len() / width) as u32).collect()];
        let wanted = match shape {
            Shape::Level(depth) => (1usize << depth) - 1,
            Shape::LeafWise(leaves) => leaves - 1,
            Shape::Chain(length) => length,
        };
        for next in 0..wanted {
            let leaves = tree.leaves();
            let leaf = match shape {
                Shape::Level(_) => leaves[0],
                Shape::LeafWise(_) => leaves[random.below(leaves.len())],
                Shape::Chain(_) => leaves[(leaves.len() - 1).saturating_sub(next % 2)],
            };
            let c = random.below(width);
            let column = &columns[c];
            let rows = std::mem::take(&mut here[leaf]);
            let predicate = match column.kind {
                Kind::Category if random.below(8) > 0 => {
                    let members: Vec<u32> = (0..column.codes).filter(|_| random.below(3) == 0).collect();
                    // Some splits ask for the same set again.
                    if sets.is_empty() || random.below(3) > 0 {
                        sets.push(CategorySet::new(members, rule));
                    }
                    let set = match random.below(3) {
                        0 => random.below(sets.len()),
                        _ => sets.len() - 1,
                    };
                    let inside = if random.below(2) == 0 { Side::Left } else { Side::Right };
                    Predicate::InSet { set: set as u32, inside }
                }
                _ if pools[c].is_empty() => {
                    here[leaf] = rows;
                    continue;
                }
                _ => {
                    // The pool's threshold that is nearest to a row of this node.
                    let value = rows.get(random.below(rows.len())).map(|r| data[*r as usize * width + c]);
                    let at = value.filter(|v| !v.is_nan()).map(|v| pools[c].partition_point(|t| *t <= v));
                    let at = at.unwrap_or_else(|| random.below(pools[c].len())).min(pools[c].len() - 1);
                    Predicate::Less { threshold: Real(pools[c][at]) }
                }
            };
            let missing = column.side.unwrap_or([Side::Left, Side::Right][random.below(2)]);
            tree.split(leaf, c as u32, predicate, missing);
            let (left, right) = rows.into_iter().partition(|r| {
                let value = data[*r as usize * width + c];
                match predicate {
                    _ if value.is_nan() => missing == Side::Left,
                    Predicate::Less { threshold } => value < threshold.0,
                    Predicate::InSet { set, inside } => {
                        sets[set as usize].contains(value as u32) == (inside == Side::Left)
                    }
                    _ => true,
                }
            });
            here.extend([left, right]);
        }
        grown.push(tree.nodes);
    }
    let outputs = [1, 1, 1, 3, 7][random.below(5)];
    let values: Vec<f32> = (0..257).map(|_| normal(random) as f32 * 0.1).collect();
    let forest = assemble(grown, width as u32, outputs, false, sets, |i| values[i % values.len()], None);
    let forest = Forest { compare, ..forest };
    forest.verify().expect("a grown forest keeps the rules");
    forest
}

/// The thresholds that splits of a column take: as many as it may have, where its values are.
fn pool(columns: &[Column], data: &[f64], c: usize, compare: CompareType, random: &mut Seeded) -> Vec<f64> {
    let column = &columns[c];
    let own: Vec<f64> = data.iter().skip(c).step_by(columns.len()).copied().filter(|v| !v.is_nan()).collect();
    let mut pool = Vec::new();
    for _ in 0..column.thresholds {
        let value = match own.len() {
            0 => continue,
            // More thresholds than the table has values.
            n if column.thresholds > n => column.present(random),
            n => own[random.below(n)],
        };
        // On a value, as XGBoost's histograms have it, or between two, as the others do.
        let value = if random.below(2) == 0 { value } else { value + column.present(random).abs() * 1e-3 };
        pool.push(match compare {
            CompareType::F32 => f64::from(value as f32),
            CompareType::F64 => value,
        });
    }
    pool.sort_by(f64::total_cmp);
    pool.dedup();
    pool
}
