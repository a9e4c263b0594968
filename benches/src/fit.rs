//! `fangorn-benches fit`: measures the costs of `fangorn::cost` again on this machine, except for those of
//! estimates, which `benches/experiments/fit_estimates.py` fits. Each measurement draws forests in which one cost
//! shows, and times one engine alone.

use std::{error::Error, hint::black_box, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Forest, Predictor,
    auto::RandomModel,
    check::SelfCheck,
    cost::{
        Blend, ColumnBlock, Hardware, LeafVectors, Machine, ROW_BLOCK, Ranking, Registers, RowOrBlock,
        SparseColumns, SparseRanking, TileCosts, Walk,
    },
    cpu::{Engine, Ranker, Rows},
    forest::{ForestBuilder, Predicate, Real, Side, Transform},
    ranks::{Choice, Ranks},
    schedule::{FewRows, Schedule},
    sparse::SparseMatrix,
};

use crate::{
    drawn::{Shape, THRESHOLDS, forest, forest_of_vectors, share, values},
    explained, memory,
    sparse_rows::number,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rows that one measurement goes through: so many that the branch predictor does not remember the last pass.
const ROWS: usize = 2048;
/// Seconds of one measurement.
const SECONDS: f64 = 0.4;
/// Trees of a drawn forest. Some measurements draw a multiple.
const TREES: usize = 128;
/// Columns of a column block.
const COLUMN_BLOCK: usize = 16;
/// Column blocks of a forest whose ranking is timed.
const COLUMN_BLOCKS: usize = 8;

/// The greatest width of a leaf whose way of adding up is asked for.
const MOST_OUTPUTS: usize = 1024;

const WALKS: &str =
    "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)\nunrollWalk(b1)\nlayout(sparse)";
const BLENDS: &str = "ranks(u8)\ntile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)\nlayout(sparse)";

/// Returns the steps of a row's walks as the default schedule counts them: the mean depth of a leaf, times
/// the trees.
fn steps_of(forest: &Forest) -> f64 {
    let stats = forest.stats();
    let steps: usize = stats.leaf_depths.iter().enumerate().map(|(depth, leaves)| depth * leaves).sum();
    steps as f64 * stats.trees as f64 / stats.leaves as f64
}

/// Returns the seconds of one call: the median of the fastest third of many calls, which take about
/// [`SECONDS`] together.
pub fn seconds(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::new();
    let begin = Instant::now();
    while times.len() < 9 || begin.elapsed().as_secs_f64() < SECONDS {
        let start = ThreadTime::now();
        call()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(times[times.len() / 6])
}

/// Returns the seconds that a row takes with a schedule, in batches of `batch` rows. Returns `None` if
/// another engine than `engine` serves them.
fn row(forest: &Forest, schedule: &str, batch: usize, engine: Engine) -> Result<Option<f64>> {
    let builder = Predictor::builder(forest).schedule(Schedule::parse(schedule)?).threads(1);
    let predictor = builder.check(SelfCheck::Off).build()?;
    if predictor.engines(batch)?.iter().any(|(by, _)| *by != engine) {
        return Ok(None);
    }
    let columns = forest.features.len();
    let values = values(ROWS, columns);
    let mut out = vec![0.0; batch * forest.outputs as usize];
    let all = seconds(|| {
        for rows in black_box(&values).chunks_exact(batch * columns) {
            predictor.margins_into(&Rows::new(rows, columns)?, &mut out)?;
        }
        Ok(())
    })?;
    Ok(Some(all / (ROWS / batch * batch) as f64))
}

/// Returns the seconds that one tree adds to a row, with one row a batch and a given engine for a few rows.
/// Returns `None` if another engine than `engine` serves the row. The time that a call takes besides its trees
/// cancels out: it is the same in both terms of a difference, of which one has twice as many trees.
fn few(columns: u32, shape: Shape, few: FewRows, engine: Engine) -> Result<Option<f64>> {
    let schedule = format!("{WALKS}\nfewRows({})", few.name());
    let time = |trees| row(&forest(trees, columns, shape)?, &schedule, 1, engine);
    Ok(time(2 * TREES)?.zip(time(TREES)?).map(|(more, fewer)| (more - fewer) / TREES as f64))
}

/// Returns the seconds that a step adds whose node or tile lies past half of the second cache, from a forest of full
/// trees of eight levels that is much larger. A walk takes `steps` of them through a tree, in `near` seconds if the
/// trees lie in the cache, and a tree has `bytes` bytes. Returns `old` if another engine than `engine` serves a row.
fn far(by: FewRows, engine: Engine, near: Option<f64>, [steps, bytes]: [f64; 2], old: f64) -> Result<f64> {
    const TREES: usize = 4096;
    let schedule = format!("{WALKS}\nfewRows({})", by.name());
    let tree = row(&forest(TREES, 16, Shape::Full(8))?, &schedule, 1, engine)?.map(|row| row / TREES as f64);
    let past = 1.0 - Machine::here().hardware.cache as f64 / 2.0 / (TREES as f64 * bytes);
    Ok(tree.zip(near).map_or(old, |(tree, near)| ((tree - near) / steps / past).max(0.0)))
}

fn walk(shipped: &Walk) -> Result<Walk> {
    const COLUMNS: u32 = 16;
    const DEPTH: u32 = 8;
    let steps = f64::from(DEPTH);
    let step = |few_rows, engine, old| {
        Ok::<_, Box<dyn Error>>(
            few(COLUMNS, Shape::Full(DEPTH), few_rows, engine)?.map_or(old, |tree| tree / steps),
        )
    };
    // A row block waits for the longest of its walks through a tree, so these trees differ in depth.
    let forest = forest(4 * TREES, 32 * COLUMNS, Shape::Grown(64))?;
    let with_leaf_tests = WALKS.replace("unrollWalk(b1)\n", "");
    let walks = format!("{with_leaf_tests}\nfewRows(walk)");
    let steps_of_all = steps_of(&forest);
    // The smallest batch for which a row block costs less than its rows one by one.
    let least = (shipped.block / shipped.one).round().clamp(1.0, ROW_BLOCK as f64) as usize;
    let by_vectors = match row(&forest, &walks, least, Engine::Vectors)? {
        Some(row) => Some(row),
        None => row(&forest, &walks, least, Engine::Walks)?,
    };
    Ok(Walk {
        one: step(FewRows::Rows, Engine::WalksByRow, shipped.one)?,
        block: by_vectors.map_or(shipped.block, |row| row / steps_of_all * least as f64),
        abreast: step(FewRows::Abreast, Engine::Abreast, shipped.abreast)?,
        far_abreast: far(
            FewRows::Abreast,
            Engine::Abreast,
            few(COLUMNS, Shape::Full(DEPTH), FewRows::Abreast, Engine::Abreast)?,
            // A node has eight bytes.
            [steps, f64::from((2 << DEPTH) - 1) * 8.0],
            shipped.far_abreast,
        )?,
        full: step(FewRows::Full, Engine::Full, shipped.full)?,
        tiles: tiles(&shipped.tiles)?,
    })
}

/// Returns the seconds of a step through tiles, of a row alone and of the smallest row block that takes less time.
fn tiles(shipped: &RowOrBlock) -> Result<RowOrBlock> {
    let forest = forest(TREES, 16, Shape::Grown(64))?;
    let schedule = format!("{}\ntileNodes(8, uniform)", WALKS.replace("unrollWalk(b1)\n", ""));
    let (least, steps) = (shipped.rows(), steps_of(&forest));
    let alone = row(&forest, &schedule, (least / 2).max(1), Engine::TilesByRow)?;
    let block = row(&forest, &schedule, least, Engine::Tiles)?;
    let seconds = |(row, block)| RowOrBlock { row: row / steps, block: block * least as f64 / steps };
    Ok(alone.zip(block).map_or(*shipped, seconds))
}

/// Measures the tiles of an engine in whose tables a full tree of eight levels has `bytes` bytes.
fn tile_costs(by: FewRows, engine: Engine, shipped: &TileCosts, bytes: usize) -> Result<TileCosts> {
    let tree = |columns, shape| few(columns, shape, by, engine);
    let mut new = *shipped;
    for ((first, next), columns) in new.first.iter_mut().zip(&mut new.next).zip([32, 64, 96, 128]) {
        // A walk goes through one tile in the first tree, and through two in the second.
        if let Some((one, two)) = tree(columns, Shape::Full(4))?.zip(tree(columns, Shape::Full(8))?) {
            (*first, *next) = (one, two - one);
        }
    }
    new.far = far(by, engine, tree(16, Shape::Full(8))?, [2.0, bytes as f64], new.far)?;
    Ok(new)
}

fn registers(shipped: &Registers) -> Result<Registers> {
    let tree = |columns, shape| few(columns, shape, FewRows::Registers, Engine::Registers);
    let mut new = *shipped;
    // A tree of eight levels has 17 tiles of four levels, or one of five and 32 of three.
    new.tile = tile_costs(FewRows::Registers, Engine::Registers, &shipped.tile, 17 * 128)?;
    new.mask_tile = tile_costs(FewRows::Masks, Engine::Masks, &shipped.mask_tile, 33 * 384)?;
    // Times a whole row block, in vectors, through trees of eight levels.
    let schedule = format!("{WALKS}\nfewRows({})", FewRows::Registers.name());
    let block = |trees| row(&forest(trees, 32, Shape::Full(8))?, &schedule, ROW_BLOCK, Engine::Vectors);
    if let (Some(alone), Some((more, fewer))) =
        (tree(32, Shape::Full(8))?, block(2 * TREES)?.zip(block(TREES)?))
    {
        let block = (more - fewer) / TREES as f64 * ROW_BLOCK as f64;
        new.tree_of_eight = RowOrBlock { row: alone, block };
    }
    if let Some(surprising) = tree(32, Shape::Surprising)? {
        new.tile.misprediction = 2.0 * (surprising - new.tile.first[0] - 1.5 * new.tile.next[0]).max(0.0);
        new.mask_tile.misprediction = new.tile.misprediction;
    }
    // A tree is one tile, with hardly an exception. Of four columns, one has categories, and a tile asks for it once.
    let one_tile = |sets| {
        let time = |trees| {
            let forest = RandomModel { trees, columns: 4, outputs: 1, deepest: 5, sets }.forest()?;
            row(&forest, &format!("{WALKS}\nfewRows({})", FewRows::Masks.name()), 1, Engine::Masks)
        };
        Ok::<_, Box<dyn Error>>(
            time(2 * TREES)?.zip(time(TREES)?).map(|(more, fewer)| (more - fewer) / TREES as f64),
        )
    };
    if let Some((asking, comparing)) = one_tile(4)?.zip(one_tile(0)?) {
        new.look_up = (asking - comparing).max(0.0);
    }
    // All walks go through three tiles, and keep an exit twice.
    if let Some(uneven) = tree(32, Shape::Uneven)? {
        new.kept = (uneven - new.tile.first[0] - 2.0 * new.tile.next[0]).max(0.0) / 2.0;
    }
    Ok(new)
}

fn blend() -> Result<Blend> {
    const COLUMNS: u32 = 16;
    // Ranking takes about as long for three times as many trees, so the difference leaves it out.
    let tree = |shape: Shape| {
        let time = |trees| {
            let row = row(&forest(trees, COLUMNS, shape)?, BLENDS, ROWS, Engine::Blends)?;
            row.ok_or_else(|| Box::<dyn Error>::from("trees are not blended"))
        };
        Ok::<_, Box<dyn Error>>((time(3 * TREES)? - time(TREES)?) * ROW_BLOCK as f64 / (2 * TREES) as f64)
    };
    let full = |depth| tree(Shape::Full(depth));
    let [one, two, three, six] = [full(1)?, full(2)?, full(3)?, full(6)?];
    // A one-sided tree has one group at the root, of one, two or three levels, above one group of three levels. A
    // full tree of six levels has eight groups of three levels below the root's group.
    let root_group = |levels| Ok::<_, Box<dyn Error>>((tree(Shape::OneSided(levels))? - three).max(0.0));
    let top = [root_group(1)?, root_group(2)?, root_group(3)?];
    let bottom = (six - three - top[2]) / 7.0;
    let rest = three - bottom;
    Ok(Blend {
        bottom: [(one - rest).max(0.0), (two - rest).max(0.0), bottom],
        seven: top[2],
        three: top[1],
        one: top[0],
    })
}

/// Returns the seconds that `together` rows take to become ranks. `add` adds the stumps that ask for the
/// ranks.
fn ranks(together: usize, columns: usize, add: impl FnOnce(&mut ForestBuilder)) -> Result<f64> {
    let mut builder = Forest::builder(columns, 1);
    add(&mut builder);
    let ranks = Ranks::new(&builder.build()?, Choice::U8)?;
    let (ranker, ranked) = (Ranker::new(&ranks), ranks.columns().len());
    let values = values(ROWS, columns);
    let rows = Rows::new(&values, columns)?;
    let mut out = vec![0u8; ROW_BLOCK * ranked];
    let all = seconds(|| {
        for first in (0..ROWS).step_by(together) {
            ranker.rank_strided(&black_box(&rows).slice(first, together), &mut out, [1, ROW_BLOCK])?;
        }
        Ok(())
    })?;
    Ok(all / (ROWS / together) as f64)
}

fn stump(builder: &mut ForestBuilder, feature: usize, predicate: Predicate) {
    let mut tree = builder.tree(0);
    tree.split(feature as u32, predicate, Side::Left, 1, 2);
    tree.leaf(1, &[1.0]);
    tree.leaf(2, &[2.0]);
}

fn ranking(shipped: &Ranking) -> Result<Ranking> {
    // Returns the seconds of a column block of `rows` rows. `columns` of its columns have `thresholds` thresholds each.
    let time = |rows: usize, columns: usize, thresholds: u32| {
        let all = ranks(rows, COLUMN_BLOCKS * COLUMN_BLOCK, |builder| {
            for feature in
                (0..COLUMN_BLOCKS * COLUMN_BLOCK).filter(|feature| feature % COLUMN_BLOCK < columns)
            {
                for k in 1..=thresholds {
                    let threshold = Real(share(k, thresholds + 1));
                    stump(builder, feature, Predicate::Less { threshold });
                }
            }
        })?;
        Ok::<_, Box<dyn Error>>(all / COLUMN_BLOCKS as f64)
    };
    let column_block = |columns, thresholds| time(ROW_BLOCK, columns, thresholds);
    let (six, four) = (column_block(COLUMN_BLOCK, 63)?, column_block(COLUMN_BLOCK, 15)?);
    let (block, alone) = (column_block(COLUMN_BLOCK, THRESHOLDS)?, time(1, COLUMN_BLOCK, THRESHOLDS)?);
    let new = Ranking {
        columns: RowOrBlock { row: alone, block },
        sparse: sparse(&shipped.sparse)?,
        column_block: None,
    };
    let Some(_) = shipped.column_block else { return Ok(new) };
    let level = (six - four) / (2 * COLUMN_BLOCK) as f64;
    let search = (six - column_block(1, 63)?) / (COLUMN_BLOCK - 1) as f64 - 6.0 * level;
    let copy = six - COLUMN_BLOCK as f64 * (search + 6.0 * level);
    let (all, single) = (column_block(COLUMN_BLOCK, 1)?, column_block(1, 1)?);
    let threshold = (all - single) / (COLUMN_BLOCK - 1) as f64;
    let column_block =
        ColumnBlock { copy, layer: single - threshold, threshold, search: search.max(0.0), level };
    Ok(Ranking { column_block: Some(column_block), ..new })
}

/// Returns the costs of ranking sparse rows, from a forest of a few thresholds in each column. Each batch has as many
/// elements for each column that the shipped costs choose the way that is timed. What the batches take besides is the
/// same in all of them.
fn sparse(shipped: &SparseRanking) -> Result<SparseRanking> {
    const COLUMNS: usize = 512;
    const THRESHOLDS: u32 = 7;
    let mut builder = Forest::builder(COLUMNS, 1);
    for feature in 0..COLUMNS {
        for k in 1..=THRESHOLDS {
            stump(&mut builder, feature, Predicate::Less { threshold: Real(share(k, THRESHOLDS + 1)) });
        }
    }
    let forest = builder.build()?;
    let schedule = Schedule::parse(BLENDS)?;
    let predictor =
        Predictor::builder(&forest).schedule(schedule).threads(1).check(SelfCheck::Off).build()?;
    // Returns the seconds of a row block that has about this many elements for each column, in drawn places: the
    // processor would learn places that repeat.
    let time = |of_each: f64| {
        let (mut offsets, mut columns, mut seed) = (vec![0], Vec::new(), 1);
        for _ in 0..ROWS {
            let here = (0..COLUMNS as u32).filter(|_| number(&mut seed) < of_each / ROW_BLOCK as f64);
            columns.extend(here);
            offsets.push(columns.len());
        }
        let drawn = values(columns.len(), 1);
        let matrix =
            SparseMatrix::new([ROWS, COLUMNS], offsets, columns, drawn).ok_or("columns that ascend")?;
        let all = seconds(|| {
            black_box(predictor.margins_of_sparse(black_box(&matrix), 0.0)?);
            Ok(())
        })?;
        Ok::<_, Box<dyn Error>>(all * ROW_BLOCK as f64 / ROWS as f64)
    };
    let line = |few: f64, many: f64| {
        let (less, more) = (time(few)?, time(many)?);
        let element = (more - less) / (many - few);
        Ok::<_, Box<dyn Error>>((element / COLUMNS as f64, less - element * few))
    };
    let (element, alone) = line(0.25, 0.75)?;
    let columns = |few, many| {
        let (element, all) = line(few, many)?;
        Ok::<_, Box<dyn Error>>(SparseColumns { column: (all - alone) / COLUMNS as f64, element })
    };
    let compresses = Ranker::new(&Ranks::new(&forest, Choice::U8)?).compresses::<f32>();
    Ok(SparseRanking {
        element,
        compressed: if compresses { columns(2.0, 8.0)? } else { shipped.compressed },
        written: columns(16.0, 32.0)?,
    })
}

/// Returns three times the seconds that it takes to wake a sleeping thread and to wait for it. With the
/// factor, a wake that takes longer than most still pays.
fn thread() -> Result<f64> {
    const TIMES: usize = 500;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        std::thread::sleep(std::time::Duration::from_micros(500));
        let start = Instant::now();
        pool.install(|| ());
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok(3.0 * times[TIMES / 2])
}

/// Returns the seconds of scaling or transforming the margin of a row.
fn margin() -> Result<f64> {
    let builder = Forest::builder(1, 1).transform(Transform::Sigmoid);
    let predictor = Predictor::builder(&builder.build()?).threads(1).check(SelfCheck::Off).build()?;
    let values = values(ROWS, 1);
    let rows = Rows::new(&values, 1)?;
    let mut out = vec![0.0; ROWS];
    let transformed = seconds(|| Ok(predictor.values_into(black_box(&rows), &mut out)?))?;
    let alone = seconds(|| Ok(predictor.margins_into(black_box(&rows), &mut out)?))?;
    Ok((transformed - alone).max(0.0) / ROWS as f64)
}

/// Returns the costs of adding up leaves that are vectors, from forests of a few widths. The shipped costs say which
/// widths are added as leaves are found, here by blends.
fn leaf_vectors(shipped: &LeafVectors) -> Result<LeafVectors> {
    // So few trees that a core's second cache holds wide leaves.
    const FEW_TREES: usize = 16;
    let wide = (2..=MOST_OUTPUTS)
        .find(|width| shipped.are_added_after_walks(*width))
        .unwrap_or(MOST_OUTPUTS)
        .clamp(4, MOST_OUTPUTS / 4);
    // Returns the seconds of a row and a tree.
    let time = |width: usize| {
        let forest = forest_of_vectors(FEW_TREES, 16, width as u32, Shape::Full(6))?;
        let row = row(&forest, BLENDS, 256, Engine::Blends)?;
        Ok::<_, Box<dyn Error>>(row.map(|row| row / FEW_TREES as f64))
    };
    let [a, b, c, d] = [wide / 4, wide / 2, 2 * wide, 4 * wide];
    let times = [time(a)?, time(b)?, time(c)?, time(d)?];
    let [Some(at_a), Some(at_b), Some(at_c), Some(at_d)] = times else { return Ok(*shipped) };
    let by_walks = (at_b - at_a) / (b - a) as f64;
    let after_walks = (at_d - at_c) / (d - c) as f64;
    // Both ways walk through the same trees.
    let slot = (at_c - after_walks * c as f64) - (at_a - by_walks * a as f64);
    Ok(LeafVectors { by_walks, after_walks, slot: slot.max(0.0) })
}

fn hardware(shipped: &Hardware) -> Result<Hardware> {
    // A multiplication waits three cycles for the one before it.
    const MULTIPLICATIONS: usize = 1 << 16;
    let clock = (0..64)
        .map(|_| {
            let start = Instant::now();
            let mut x = black_box(3u64);
            for _ in 0..MULTIPLICATIONS {
                x = x.wrapping_mul(x);
            }
            black_box(x);
            3.0 * MULTIPLICATIONS as f64 / start.elapsed().as_secs_f64()
        })
        .fold(0.0, f64::max);
    Ok(Hardware { clock, near_copy: memory::near_copy()?.unwrap_or(shipped.near_copy), ..*shipped })
}

/// Prints the costs that choices on this machine read, as shipped and as measured now, and then the measured
/// costs as Rust. A cost whose engine the machine lacks stays as shipped. The costs of walks of many rows
/// come from other forests than the costs of one row's walks.
pub fn fit() -> Result<()> {
    let shipped = Machine::here();
    eprintln!("about a minute; the machine should do nothing else");
    let new = Machine {
        name: "NAME, INSTRUCTION SET",
        hardware: hardware(&shipped.hardware)?,
        ways: Machine::shipped_here().ways,
        measured: false,
        walk: walk(&shipped.walk)?,
        registers: registers(&shipped.registers)?,
        blend: blend()?,
        ranking: ranking(&shipped.ranking)?,
        contributions: explained::costs()?,
        leaf_vectors: leaf_vectors(&shipped.leaf_vectors)?,
        writes: memory::writes()?,
        row: margin()?,
        thread: thread()?,
    };
    println!(
        "{:20} {:>10} {:>10} {:>6}   (shipped: {})",
        "seconds", "shipped", "measured", "ratio", shipped.name
    );
    for ((what, old), (_, new)) in costs(shipped).into_iter().zip(costs(&new)) {
        // A cost that this machine or its instruction set lacks stays as shipped.
        match new == old {
            true => println!("{what:20} {old:10.2e}          -"),
            false => println!("{what:20} {old:10.2e} {new:10.2e} {:6.2}", new / old),
        }
    }
    println!("\n{:20} {:>10} {:>10}", "rows and sizes", "shipped", "measured");
    let rows = |m: &Machine| {
        [
            ("copy, bytes", m.hardware.near_copy),
            ("rows of a task", (m.thread / m.row) as usize),
            ("walk.tiles", m.walk.tiles.rows()),
            ("registers", m.registers.tree_of_eight.rows()),
            ("ranking.columns", m.ranking.columns.rows()),
        ]
    };
    for ((what, old), (_, new)) in rows(shipped).into_iter().zip(rows(&new)) {
        println!("{what:20} {old:>10} {new:>10}");
    }
    if let Some(gather) = Machine::measured_gather() {
        println!("\na gather takes {gather:.2e} seconds; it is fast up to {:.2e}", shipped.hardware.gather);
    }
    println!("\n{new:#?}");
    Ok(())
}

fn costs(machine: &Machine) -> Vec<(&'static str, f64)> {
    let Machine {
        hardware,
        walk,
        registers,
        blend,
        ranking,
        contributions,
        leaf_vectors,
        writes,
        row,
        thread,
        ..
    } = machine;
    let mut all = vec![
        ("cycle", 1.0 / hardware.clock),
        ("walk.one", walk.one),
        ("walk.block", walk.block),
        ("walk.abreast", walk.abreast),
        ("walk.far abreast", walk.far_abreast),
        ("walk.full", walk.full),
        ("walk.tiles row", walk.tiles.row),
        ("walk.tiles block", walk.tiles.block),
        ("registers.row", registers.tree_of_eight.row),
        ("registers.block", registers.tree_of_eight.block),
        ("ranking.row", ranking.columns.row),
        ("ranking.block", ranking.columns.block),
        ("sparse.element", ranking.sparse.element),
        ("sparse.compressed c", ranking.sparse.compressed.column),
        ("sparse.compressed e", ranking.sparse.compressed.element),
        ("sparse.written c", ranking.sparse.written.column),
        ("sparse.written e", ranking.sparse.written.element),
        ("registers.first 32", registers.tile.first[0]),
        ("registers.first 64", registers.tile.first[1]),
        ("registers.first 96", registers.tile.first[2]),
        ("registers.first 128", registers.tile.first[3]),
        ("registers.next 32", registers.tile.next[0]),
        ("registers.next 64", registers.tile.next[1]),
        ("registers.next 96", registers.tile.next[2]),
        ("registers.next 128", registers.tile.next[3]),
        ("masks.first 32", registers.mask_tile.first[0]),
        ("masks.first 64", registers.mask_tile.first[1]),
        ("masks.first 96", registers.mask_tile.first[2]),
        ("masks.first 128", registers.mask_tile.first[3]),
        ("masks.next 32", registers.mask_tile.next[0]),
        ("masks.next 64", registers.mask_tile.next[1]),
        ("masks.next 96", registers.mask_tile.next[2]),
        ("masks.next 128", registers.mask_tile.next[3]),
        ("registers.far tile", registers.tile.far),
        ("masks.far tile", registers.mask_tile.far),
        ("registers.kept", registers.kept),
        ("masks.look-up", registers.look_up),
        ("registers.surprise", registers.tile.misprediction),
        ("masks.surprise", registers.mask_tile.misprediction),
        ("blend.bottom 1", blend.bottom[0]),
        ("blend.bottom 2", blend.bottom[1]),
        ("blend.bottom 3", blend.bottom[2]),
        ("blend.seven", blend.seven),
        ("blend.three", blend.three),
        ("blend.one", blend.one),
    ];
    if let Some(column_block) = &ranking.column_block {
        all.extend([
            ("ranking.copy", column_block.copy),
            ("ranking.layer", column_block.layer),
            ("ranking.threshold", column_block.threshold),
            ("ranking.search", column_block.search),
            ("ranking.level", column_block.level),
        ]);
    }
    all.extend(contributions.all());
    all.extend([
        ("leaves.by walks", leaf_vectors.by_walks),
        ("leaves.after walks", leaf_vectors.after_walks),
        ("leaves.slot", leaf_vectors.slot),
        ("writes.indexed", writes.indexed),
        ("writes.filled", writes.filled),
        ("row", *row),
    ]);
    all.push(("thread", *thread));
    all
}
