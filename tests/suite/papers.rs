//! The schedules of the two papers: every listing as it is printed, and what their prose describes, written out. Each is
//! run and held against the reference and the loop nest; the draft's loop orders are held against loops written here.
//!
//! SilvanForge is the paper of SOSP '24, the draft is "Treebeard: schedules and reductions".

use crate::generate;
use crate::runs;

use fangorn::{
    Error, Forest,
    plan::lower,
    schedule::{Axis, Device, FewRows, GpuDim, Schedule, Size},
};
use generate::{Case, forest_of};

fn parse(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

const GRID_X: GpuDim = GpuDim::Grid(Axis::X);
const BLOCK_X: GpuDim = GpuDim::Block(Axis::X);

/// SilvanForge, section 3.2: XGBoost.
const XGBOOST: &str = "
tile(batch, b0, b1, CHUNK_SIZE)
reorder(b0, tree, b1)
parallel(b0)
";

/// SilvanForge, section 3.2: Tahoe's direct method.
const TAHOE_DIRECT: &str = "
1 tile(batch, b0, b1, ROWS_PER_TB)
2 reorder(b0, b1, tree)
3 gpuDimension(b0, grid.x)
4 gpuDimension(b1, block.x)
";

/// SilvanForge, section 3.2: Tahoe's shared data strategy.
const TAHOE_SHARED_DATA: &str = "
1 reorder(batch, tree)
2 gpuDimension(batch, grid.x)
3 gpuDimension(tree, block.x)
4 cache(batch)
";

/// SilvanForge, section 5.
const SECTION_5: &str = "
tile(tree, t0, t1, N_t/2);

reorder(t0, t1, batch);

3 parallel(t0);
";

/// The draft, section 3.1: a tree for all rows, then the next.
const A_TREE_FOR_ALL_ROWS: &str = "
1 reorder (tree , batch)
";

/// The draft, section 3.1: two trees at a time over the whole batch.
const TWO_TREES: &str = "
1 tile (tree , t0 , t1 , 2)
2 reorder (t0 , batch , t1)
";

/// The draft, section 3.1: the same for four rows at a time.
const FOUR_ROWS_TWO_TREES: &str = "
1 tile (batch , b0 , b1 , 4)
2 tile (tree , t0 , t1 , 2)
3 reorder (b0 , t0 , b1 , t1)
";

/// The draft, section 4.2.
const ROWS_OF_AN_ITERATION: &str = "
1 IndexVar i0, i1, t0, t1;
2 auto& batch = schedule.GetBatchIndex();
3 auto& tree = schedule.GetTreeIndex();
4 schedule.Tile(batch, i0, i1, batch_size/2);
5 schedule.Tile(tree, t0, t1, N_t/2);
6 schedule.Reorder({i0, t0, t1, i1});
7 schedule.Parallel(t0);
8 schedule.Parallel(i0);
";

/// Every listing, and what it says.
fn listings() -> [(&'static str, Schedule); 8] {
    let new = Schedule::new;
    [
        (XGBOOST, new().tile("batch", "b0", "b1", 64u32).reorder(["b0", "tree", "b1"]).parallel("b0")),
        (
            TAHOE_DIRECT,
            new()
                .tile("batch", "b0", "b1", 64u32)
                .reorder(["b0", "b1", "tree"])
                .gpu_dimension("b0", GRID_X)
                .gpu_dimension("b1", BLOCK_X),
        ),
        (
            TAHOE_SHARED_DATA,
            new()
                .reorder(["batch", "tree"])
                .gpu_dimension("batch", GRID_X)
                .gpu_dimension("tree", BLOCK_X)
                .cache("batch"),
        ),
        (
            SECTION_5,
            new().tile("tree", "t0", "t1", Size::Trees / 2).reorder(["t0", "t1", "batch"]).parallel("t0"),
        ),
        (A_TREE_FOR_ALL_ROWS, new().reorder(["tree", "batch"])),
        (TWO_TREES, new().tile("tree", "t0", "t1", 2u32).reorder(["t0", "batch", "t1"])),
        (
            FOUR_ROWS_TWO_TREES,
            new()
                .tile("batch", "b0", "b1", 4u32)
                .tile("tree", "t0", "t1", 2u32)
                .reorder(["b0", "t0", "b1", "t1"]),
        ),
        (
            ROWS_OF_AN_ITERATION,
            new()
                .tile("batch", "i0", "i1", Size::Batch / 2)
                .tile("tree", "t0", "t1", Size::Trees / 2)
                .reorder(["i0", "t0", "t1", "i1"])
                .parallel("t0")
                .parallel("i0"),
        ),
    ]
}

#[test]
fn listings_parse_as_printed() {
    for (text, expected) in listings() {
        assert_eq!(parse(text), expected, "{text}");
    }
}

/// What the papers describe without printing its schedule.
const PROSE: [(&str, &str); 17] = [
    // SilvanForge, section 2, figure 1b: a tree at a time for all rows, walks unrolled for each depth.
    (
        "one tree at a time, depth by depth",
        "reorder(tree, batch); split(tree, t0, t1, 2); unrollWalk(t0.batch, 1); unrollWalk(t1.batch, 2)",
    ),
    // Figure 1c: a row a thread block, trees over its threads, walks unrolled for each depth.
    (
        "a row a block",
        "tile(tree, t0, t1, 2); reorder(batch, t1, t0); split(t0, t0a, t0b, 1); gpuDimension(batch, grid.x);
         gpuDimension(t1, block.x); unrollWalk(t0a, 1); unrollWalk(t0b, 2)",
    ),
    // Section 3.2, "the rest can be encoded similarly": the forest in every block's shared memory, a thread a row.
    (
        "tahoe's shared forest",
        "tile(batch, b0, b1, ROWS_PER_TB); tile(tree, t0, t1, N_t); reorder(b0, t0, b1, t1); gpuDimension(b0, grid.x);
         gpuDimension(b1, block.x); cache(t0)",
    ),
    // Some trees of the forest in each block's shared memory; what the blocks find is added up.
    (
        "tahoe's shared partial forest",
        "tile(batch, b0, b1, ROWS_PER_TB); tile(tree, t0, t1, N_t/4); reorder(b0, t0, b1, t1);
         gpuDimension(b0, grid.x); gpuDimension(t0, grid.y); gpuDimension(b1, block.x); cache(t0)",
    ),
    // Related work and section 6: the forest's trees over a block's threads, nodes interleaved, sums in shared memory.
    (
        "rapids fil",
        "tile(batch, b0, b1, 4); reorder(b0, tree, b1); gpuDimension(b0, grid.x); gpuDimension(tree, block.x);
         cache(b0); sharedReduce(tree); layout(reorg)",
    ),
    // Treebeard: a tree for all rows of a chunk, its walks of eight rows together.
    (
        "one tree at a time",
        "tile(batch, b0, b1, 64); tile(b1, b2, b3, 8); reorder(b0, tree, b2, b3); parallel(b0); interleave(b3);
         unrollWalk(b3); pad(200)",
    ),
    // Treebeard: all trees for a row, the walks of eight trees together.
    (
        "one row at a time",
        "tile(batch, b0, b1, 64); tile(tree, t0, t1, 8); parallel(b0); interleave(t1); unrollWalk(t1); sort(depth)",
    ),
    // Section 4: trees reordered and padded, and the loop split, so that each loop has code of its own.
    (
        "padded depth groups",
        "sort(depth); pad(200); split(tree, shallow, deep, 17); split(deep, middle, deepest, 16); unrollWalk(shallow);
         unrollWalk(middle); unrollWalk(deepest); layout(array)",
    ),
    // Sections 5 and 4 of the two: trees over blocks and over threads, added up stage by stage.
    (
        "a hierarchical reduction",
        "tile(batch, b0, b1, 16); tile(tree, t0, t1, N_t/3); tile(t1, t2, t3, 3); reorder(b0, t0, b1, t2, t3);
         gpuDimension(b0, grid.x); gpuDimension(t0, grid.y); gpuDimension(b1, block.x); gpuDimension(t2, block.y);
         sharedReduce(t2)",
    ),
    (
        "two conflicting loops",
        "tile(tree, i0, i12, N_t/2); tile(i12, i1, i2, N_t/4); reorder(i0, i1, i2, batch); parallel(i0); parallel(i1);
         vectorReduce(i1, 4)",
    ),
    (
        "atomic additions",
        "tile(tree, t0, t1, N_t/2); tile(batch, b0, b1, 32); reorder(t0, b0, b1, t1); gpuDimension(t0, grid.y);
         gpuDimension(b0, grid.x); gpuDimension(b1, block.x); atomicReduce(t0)",
    ),
    // Treebeard, section 3.2: steps above the first leaf without a test for one.
    (
        "peeled walks",
        "sort(first_leaf); tile(batch, b0, b1, 16); reorder(b0, tree, b1); split(tree, early, late, 18);
         peelWalk(early.b1, 1); peelWalk(late.b1, 2)",
    ),
    // The draft, section 3.1: "useful while parallelizing across trees and these trees have different depths".
    (
        "code of its own for parallel tiles of trees",
        "sort(depth); tile(tree, t0, t1, N_t/4); reorder(t0, batch, t1); parallel(t0); specialize(t0); unrollWalk(t1)",
    ),
    (
        "code of its own on a gpu",
        "sort(depth); tile(batch, b0, b1, 32); reorder(b0, b1, tree); gpuDimension(b0, grid.x); gpuDimension(b1, block.x);
         specialize(tree); unrollWalk(tree)",
    ),
    // The draft, section 3.1: "this can be specified on either batch or tree loops".
    (
        "trees cached",
        "tile(batch, b0, b1, 32); tile(tree, t0, t1, 5); reorder(t0, b0, b1, t1); cache(t0); parallel(b0)",
    ),
    // Section 8, algorithm 1: 32 rows a block, 2 a thread, trees over 10 threads.
    (
        "the template",
        "tile(batch, b0, b1, 32); tile(b1, b2, b3, 2); tile(tree, t0, t1, N_t/10); reorder(b0, b2, t0, t1, b3);
         gpuDimension(b0, grid.x); gpuDimension(b2, block.x); gpuDimension(t0, block.y); cache(b0); interleave(b3);
         unrollWalk(b3); sharedReduce(t0); layout(reorg)",
    ),
    (
        "the template with trees in shared memory",
        "tile(batch, b0, b1, 8); tile(tree, t0, t1, 4); tile(t1, t2, t3, 2); reorder(b0, t0, b1, t2, t3);
         gpuDimension(b0, grid.x); gpuDimension(b1, block.x); gpuDimension(t2, block.y); cache(b0); cache(t0);
         unroll(t3); sharedReduce(t2); layout(sparse)",
    ),
];

/// All schedules of the papers by name.
fn schedules() -> Vec<(String, Schedule)> {
    let listed = listings().into_iter().map(|(text, schedule)| (text.to_owned(), schedule));
    let described = PROSE
        .iter()
        .map(|(name, text)| ((*name).to_owned(), parse(&text.replace("; ", "\n").replace(';', "\n"))));
    listed.chain(described).collect()
}

/// The motivating example; trees of several depths and outputs; leaves that are vectors.
fn forests() -> [Forest; 4] {
    [
        forest_of("2 x depth 1, 2 x depth 2; features 3"),
        forest_of("5 x depth 3, chain 6, 10 x depth 2, depth 0, 17 x chain 3; features 4"),
        forest_of("13 x depth 2, 6 x chain 4, 30 x depth 1; features 7; outputs 3"),
        forest_of("9 x depth 4, 8 x chain 2; features 5; outputs 4; vector"),
    ]
}

const BATCHES: [usize; 6] = [0, 1, 2, 63, 65, 130];

/// Every schedule on every forest and batch.
fn each(check: impl Fn(&Case) -> Result<(), String>) {
    for (name, schedule) in schedules() {
        for (forest, batch) in forests().iter().flat_map(|f| BATCHES.map(|b| (f, b))) {
            let case = Case::new(forest.clone(), schedule.clone(), batch, 3);
            if let Err(what) = check(&case) {
                panic!("{name}: {what}\n{}", case.to_text());
            }
        }
    }
}

#[test]
fn they_run_on_the_cpu() {
    each(|case| {
        for threads in [1, 2] {
            assert!(runs::on_cpu(case, threads)?, "refused");
        }
        Ok(())
    });
}

#[test]
#[cfg(feature = "cube")]
fn they_run_on_the_gpu() {
    let Some(client) = runs::gpu::client() else { return };
    each(|case| {
        // Three kernels each: the forest of the example, and one with vector leaves.
        if case.schedule.is_mapped() && case.batch == 65 && case.forest.trees.len() < 20 {
            assert_ne!(runs::gpu::on_gpu(&client, case)?, runs::gpu::Ran::TooLarge);
        }
        Ok(())
    });
}

/// Mapped ones are carried out as they stand by the portable GPU, but for what it lacks.
#[test]
fn the_portable_gpu_carries_them_out() {
    each(|case| {
        if !case.schedule.is_mapped() || case.batch > 0 {
            return Ok(());
        }
        let lowered = lower(&case.forest, &case.schedule, runs::request(Device::PORTABLE_GPU, 1));
        let lowered = lowered.map_err(|e| e.to_string())?;
        match lowered.notes().iter().find(|n| !n.directive.starts_with("atomicReduce")) {
            Some(note) => Err(note.to_string()),
            None => Ok(()),
        }
    });
}

/// The walks of one worker, in order, of 5 rows and 5 trees.
fn walks(text: &str) -> Vec<(u32, u32)> {
    let case = Case::new(forest_of("5 x depth 1"), parse(text).few_rows(FewRows::Walk), 5, 3);
    runs::recorded(&case, 1).expect("a run").in_order()
}

/// What the draft says of its loop orders, as loops in Rust.
#[test]
fn loop_orders_are_those_of_the_prose() {
    let all = |rows: std::ops::Range<u32>, trees: std::ops::Range<u32>| {
        rows.flat_map(move |r| trees.clone().map(move |t| (r, t))).collect::<Vec<_>>()
    };
    assert_eq!(walks(""), all(0..5, 0..5));
    let a_tree_for_all_rows: Vec<_> = (0..5).flat_map(|t| (0..5).map(move |r| (r, t))).collect();
    assert_eq!(walks(A_TREE_FOR_ALL_ROWS), a_tree_for_all_rows);
    let pairs = [0..2, 2..4, 4..5];
    let two_trees: Vec<_> = pairs.iter().flat_map(|trees| all(0..5, trees.clone())).collect();
    assert_eq!(walks(TWO_TREES), two_trees);
    let four_rows: Vec<_> = [0..4, 4..5]
        .into_iter()
        .flat_map(|rows| pairs.clone().map(|trees| all(rows.clone(), trees)).concat())
        .collect();
    assert_eq!(walks(FOUR_ROWS_TWO_TREES), four_rows);
}

/// Twenty schedules copied from papers with an error, and the directive or line that the message names.
const WRONG: [(&str, &[&str]); 20] = [
    ("tile(batch, b0, b1)", &["line 1", "tile(variable, outer, inner, size)"]),
    ("tile(batch, b0, b1, CHUNK)", &["line 1", "`CHUNK` is no size"]),
    ("tile(batch, b0, b1, 64\nreorder(b0, tree, b1)", &["line 1", "`tile(` is not closed"]),
    ("tile(batch, b0, b1, 64)\nreorder(b0, tree, b2)", &["directive 2 `reorder(b0, tree, b2)`", "`b2`"]),
    ("tile(batch, b0, b1, 64)\nreorder(b0, tree)", &["directive 2 `reorder(b0, tree)`", "perfect nest"]),
    ("tile(batch, b0, b1, 64)\nparallel(batch)", &["directive 2 `parallel(batch)`", "b0, b1, tree"]),
    ("parallel(b0)\ntile(batch, b0, b1, 64)", &["directive 1 `parallel(b0)`", "there is no loop `b0`"]),
    ("gpuDimension(batch, grid.x)\nparallel(batch)", &["directive 2 `parallel(batch)`", "mapped already"]),
    ("gpuDimension(batch, thread.x)", &["line 1", "`thread.x` is no GPU dimension"]),
    (
        "gpuDimension(batch, block.x)\ngpuDimension(tree, block.x)",
        &["directive 2 `gpuDimension(tree, block.x)`", "another dimension"],
    ),
    ("split(tree, t0, t0, 2)", &["directive 1 `split(tree, t0, t0, 2)`", "two names"]),
    (
        "parallel(tree)\nsplit(tree, t0, t1, 2)",
        &["directive 2 `split(tree, t0, t1, 2)`", "tile and split first"],
    ),
    ("interleave(tree)\nunrollWalk(tree)", &["directive 1 `interleave(tree)`", "no constant extent"]),
    ("unrollWalk(batch, 2)", &["directive 1 `unrollWalk(batch, 2)`", "not an innermost loop"]),
    ("peelWalk(batch, 2)", &["directive 1 `peelWalk(batch, 2)`", "not an innermost loop"]),
    ("unroll(batch)", &["directive 1 `unroll(batch)`", "unroll the inner loop"]),
    ("atomicReduce(batch)", &["directive 1 `atomicReduce(batch)`", "a loop over trees"]),
    ("sharedReduce(batch)", &["directive 1 `sharedReduce(batch)`", "a loop over trees"]),
    ("vectorReduce(tree, 5)", &["line 1", "`5` is no vector width"]),
    (
        "tile(tree, t0, t1, 4)\ninterleave(t1)\nspecialize(t1)",
        &["directive 3 `specialize(t1)`", "a loop outside it"],
    ),
];

#[test]
fn wrong_ones_are_refused_by_name() {
    let forest = &forests()[1];
    for (text, phrases) in WRONG {
        let lowered = Schedule::parse(text)
            .map_err(Error::from)
            .and_then(|s| lower(forest, &s, runs::request(Device::Cpu, 2)));
        let message = match lowered {
            Ok(_) => panic!("not refused:\n{text}"),
            Err(Error::Internal(e)) => panic!("a defect: {e}\n{text}"),
            Err(e) => e.to_string(),
        };
        for phrase in phrases {
            assert!(message.contains(phrase), "`{phrase}` is not in: {message}\n{text}");
        }
    }
}
