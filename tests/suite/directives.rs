//! What single directives come to: the plan, the tree order, the addresses, and numbers that a wrong reading of one would
//! change.

use crate::generate;
use crate::runs;

use std::fmt::Write;

use fangorn::{
    Forest, Predictor,
    cpu::{Program, Rows},
    forest::{Node, Tree},
    plan::{
        Dialect, LoweredForest, Map, Op, PackedNode, Plan, Remainder, Request, Walk,
        cpu::{Cpu, Statement, Sum},
        cube::Cube,
        lower,
    },
    schedule::{Device, Gpu, Schedule},
};
use generate::{Case, Kind, forest_of};
use proptest::{prelude::*, test_runner::Config};

fn lowered_for(device: Device, forest: &Forest, text: &str) -> LoweredForest {
    let schedule = Schedule::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let request = Request { device, threads: 2, ..Request::cpu() };
    lower(forest, &schedule, request).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn lowered(forest: &Forest, text: &str) -> LoweredForest {
    lowered_for(Device::Cpu, forest, text)
}

fn kernel_for(device: Device, forest: &Forest, text: &str) -> Plan<Cube> {
    lowered_for(device, forest, text).cube_plan().expect("a kernel").clone()
}

fn plan(forest: &Forest, text: &str) -> Plan<Cpu> {
    lowered(forest, text).cpu_plan().expect("a program").clone()
}

/// The straight-line steps of each walk, and what follows them.
fn steps<D: Dialect>(plan: &Plan<D>) -> Vec<(u32, Remainder)> {
    plan.walks().map(|Walk { steps, rest, .. }| (*steps, *rest)).collect()
}

/// How often each loop's body is written out.
fn copies(plan: &Plan<Cpu>) -> Vec<(String, Option<u32>)> {
    let of = |op: &&Op<Cpu>| match op {
        Op::Loop(l) => {
            let count = if let Map::Unrolled { count } = l.map { Some(count) } else { None };
            Some((l.var.clone(), count))
        }
        _ => None,
    };
    plan.ops().iter().filter_map(of).collect()
}

/// Depths of a tree's leaves, found here.
fn leaves(tree: &Tree) -> Vec<u32> {
    let mut found = Vec::new();
    let mut open = vec![(0u32, 0u32)];
    while let Some((node, depth)) = open.pop() {
        match tree.nodes[node as usize] {
            Node::Split { left, right, .. } => open.extend([(left, depth + 1), (right, depth + 1)]),
            Node::Leaf { .. } => found.push(depth),
        }
    }
    found
}

fn deepest(tree: &Tree) -> u32 {
    leaves(tree).into_iter().max().expect("a leaf")
}

fn first_leaf(tree: &Tree) -> u32 {
    leaves(tree).into_iter().min().expect("a leaf")
}

const MIXED: &str = "depth 2, depth 1, 2 x depth 2, depth 4, depth 1; features 3";

#[test]
fn specialize_gives_each_depth_group_a_straight_line_walk() {
    let forest = forest_of(MIXED);
    // Serial: a loop for each group, one after the other.
    let serial = plan(&forest, "sort(depth)\nreorder(tree, batch)\nspecialize(tree)\nunrollWalk(batch)");
    assert_eq!(
        steps(&serial),
        [(1, Remainder::Nothing), (2, Remainder::Nothing), (4, Remainder::Nothing)],
        "{serial}"
    );
    let text = serial.to_string();
    for line in ["for tree_0 ", "for tree_1 ", "for tree_2 "] {
        assert!(text.contains(line), "{line} in {text}");
    }
    // Two trees of depth 1, three of depth 2, one of depth 4.
    for ends in [["0 .. min(", "2) step 1"], ["2 .. min(", "5) step 1"], ["5 .. min(", "6) step 1"]] {
        assert!(text.lines().any(|l| ends.iter().all(|e| l.contains(e))), "{ends:?} in {text}");
    }
    // Unsorted, neighbours of a depth share code and no others do.
    let unsorted = plan(&forest, "reorder(tree, batch)\nspecialize(tree)\nunrollWalk(batch)");
    let depths: Vec<u32> = steps(&unsorted).into_iter().map(|(n, _)| n).collect();
    assert_eq!(depths, [2, 1, 2, 4, 1], "{unsorted}");
    // Without it there is one walk, as deep as the deepest.
    let one = plan(&forest, "sort(depth)\nreorder(tree, batch)\nunrollWalk(batch)");
    assert_eq!(steps(&one), [(4, Remainder::Nothing)]);
}

/// More groups than a plan may have walks: one walk takes as many steps as the table says of each tree.
#[test]
fn specialize_past_the_limit_reads_the_table() {
    let forest = forest_of(&format!("{}depth 1; features 3", "chain 2, depth 3, ".repeat(140)));
    for layout in ["layout(sparse)", "layout(array)", "layout(reorg)", "tileNodes(4, uniform)"] {
        let text = format!("reorder(tree, batch)\nspecialize(tree)\nunrollWalk(batch)\n{layout}");
        let lowered = lowered(&forest, &text);
        let plan = lowered.cpu_plan().expect("a program");
        assert_eq!(steps(plan), [(0, Remainder::Counted)], "{plan}");
        assert!(lowered.notes()[0].to_string().contains("specialize(tree)"), "{:?}", lowered.notes());
        let schedule = Schedule::parse(&text).expect("a schedule");
        assert_eq!(runs::on_cpu(&Case::new(forest.clone(), schedule, 33, 3), 2), Ok(true), "{layout}");
    }
}

#[test]
fn specialize_gives_parallel_iterations_cases() {
    let forest = forest_of(MIXED);
    let tiles =
        "sort(depth)\ntile(tree, t0, t1, 2)\nreorder(t0, batch, t1)\nunrollWalk(t1)\nspecialize(t0)\n";
    let cpu = plan(&forest, &format!("{tiles}parallel(t0)"));
    let gpu_text = format!("{tiles}gpuDimension(batch, grid.x)\ngpuDimension(t0, block.x)");
    let gpu = kernel_for(Device::PORTABLE_GPU, &forest, &gpu_text);
    for (text, steps) in [(cpu.to_string(), steps(&cpu)), (gpu.to_string(), steps(&gpu))] {
        // Trees of depth 1, 1 | 2, 2 | 2, 4: the offset of t0 says which.
        assert!(text.contains("case r0 < 2:") && text.contains("case r0 < 4:"), "{text}");
        assert!(text.contains("otherwise:"), "{text}");
        assert_eq!(
            steps,
            [(1, Remainder::Nothing), (2, Remainder::Nothing), (4, Remainder::Nothing)],
            "{text}"
        );
    }
    // Iterations with the same code share it.
    let same = plan(&forest_of("6 x depth 2"), &format!("{tiles}parallel(t0)"));
    assert_eq!(steps(&same), [(2, Remainder::Nothing)], "{same}");
}

#[test]
fn peeled_steps_end_at_the_first_leaf() {
    let forest = forest_of("2 x depth 3, 3 x chain 3, depth 5; features 3");
    let peel = |n: u32| {
        steps(&plan(
            &forest,
            &format!("sort(first_leaf)\nsplit(tree, a, b, 3)\npeelWalk(a, {n})\npeelWalk(b, {n})"),
        ))
    };
    // Chains have a leaf below their root; of the others the first is at depth 3.
    assert_eq!(peel(0), [(0, Remainder::UntilLeaf); 2]);
    assert_eq!(peel(1), [(1, Remainder::UntilLeaf); 2]);
    assert_eq!(peel(2), [(1, Remainder::UntilLeaf), (2, Remainder::UntilLeaf)]);
    assert_eq!(peel(9), [(1, Remainder::UntilLeaf), (3, Remainder::UntilLeaf)]);
    // The other directive goes on past leaves, which hold.
    let unrolled =
        steps(&plan(&forest, "sort(first_leaf)\nsplit(tree, a, b, 3)\nunrollWalk(a, 9)\nunrollWalk(b, 9)"));
    assert_eq!(unrolled, [(3, Remainder::Nothing), (5, Remainder::Nothing)]);
}

proptest! {
    #![proptest_config(Config { cases: 500, failure_persistence: None, ..Config::default() })]

    /// However trees are grouped: a walk that is peeled takes no step past the first leaf of any tree it visits.
    #[test]
    fn no_peeled_step_is_past_a_leaf(case in generate::case(Kind::Any), steps in 0..9u32) {
        let said: Vec<String> = case
            .schedule
            .directives
            .iter()
            .map(ToString::to_string)
            // A step of a tile is several of a walk's, and without a profile no leaf is likely.
            .filter(|d| {
                let others = ["unrollWalk", "peelWalk", "pad", "layout", "tileNodes"];
                !others.iter().any(|name| d.starts_with(name)) && !d.contains("likely_leaf")
            })
            .collect();
        // Peels every innermost loop.
        let nest = Schedule::parse(&said.join("\n")).expect("a schedule").nest().expect("loops");
        let mut names: Vec<String> =
            nest.loops().iter().filter(|l| l.body.is_empty()).map(|l| l.var.name.clone()).collect();
        names.sort();
        names.dedup();
        // A name that is not innermost everywhere can't be peeled by itself.
        names.retain(|n| nest.loops().iter().all(|l| l.var.name != *n || l.body.is_empty()));
        let peels: Vec<String> = names.iter().map(|n| format!("peelWalk({n}, {steps})")).collect();
        let lowered = lowered(&case.forest, &format!("{}\n{}", said.join("\n"), peels.join("\n")));
        let visited = lowered.loops().trees_of_walks(case.forest.trees.len() as u32, 2);
        let walks = self::steps(lowered.cpu_plan().expect("a program"));
        prop_assert_eq!(walks.len(), visited.len());
        for ((taken, _), visited) in walks.into_iter().zip(visited) {
            let all = || (0..case.forest.trees.len() as u32).collect();
            let trees = visited.unwrap_or_else(all);
            let first = trees.iter().map(|k| first_leaf(&case.forest.trees[lowered.order()[*k as usize] as usize])).min();
            prop_assert!(taken <= steps.min(first.unwrap_or(0)), "{taken} steps, the first leaf is at {first:?}");
        }
    }
}

#[test]
fn pad_makes_walks_complete_where_it_is_allowed_to() {
    // 7 nodes; 6 more put every leaf at depth 3.
    let forest = forest_of("chain 3; features 2");
    for layout in ["sparse", "array", "reorg"] {
        let padded = |percent: u32| {
            steps(&plan(&forest, &format!("pad({percent})\npeelWalk(tree, 9)\nlayout({layout})")))
        };
        assert_eq!(padded(85), [(1, Remainder::UntilLeaf)], "{layout}");
        assert_eq!(padded(86), [(3, Remainder::Nothing)], "{layout}");
    }
    // Whether or not a walk makes use of it, the leaves lie there, those of no use beside each step down included.
    let nodes = |text: &str| {
        let lowered = lowered(&forest, text);
        let nodes = &lowered.packed().nodes;
        (nodes.len(), nodes.iter().filter(|n| matches!(n, PackedNode::Through { .. })).count())
    };
    assert_eq!((nodes("pad(85)"), nodes("pad(86)")), ((7, 0), (13, 3)));
    assert_eq!((nodes("layout(array)"), nodes("layout(array)\npad(86)")), ((15, 0), (15, 3)));
    // 10 percent where nothing is said.
    assert_eq!(plan(&forest, "pad()\npeelWalk(tree, 9)"), plan(&forest, "pad(10)\npeelWalk(tree, 9)"));
    // Walks of padded and of other trees are two.
    let both = forest_of("2 x chain 3, 2 x depth 3; features 2");
    let split = |pad: &str| {
        steps(&plan(&both, &format!("{pad}split(tree, a, b, 2)\npeelWalk(a, 3)\npeelWalk(b, 3)")))
    };
    assert_eq!(split(""), [(1, Remainder::UntilLeaf), (3, Remainder::Nothing)]);
    assert_eq!(split("pad(100)\n"), [(3, Remainder::Nothing); 2]);
}

#[test]
fn unroll_writes_a_loop_out() {
    let forest = forest_of("8 x depth 2; features 2");
    let named = |copies: &[(&str, Option<u32>)]| {
        copies.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>()
    };
    let tiles = "tile(tree, t0, t1, 4)\n";
    assert_eq!(copies(&plan(&forest, tiles)), named(&[("batch", None), ("t0", None), ("t1", None)]));
    let inner = plan(&forest, &format!("{tiles}unroll(t1)"));
    assert_eq!(copies(&inner), named(&[("batch", None), ("t0", None), ("t1", Some(4))]));
    assert!(inner.to_string().contains("4 times for t1 "), "{inner}");
    // The forest says how often: 8 trees in tiles of 4.
    let both = plan(&forest, &format!("{tiles}unroll(t0)\nunroll(t1)"));
    assert_eq!(copies(&both), named(&[("batch", None), ("t0", Some(2)), ("t1", Some(4))]));
    assert_eq!(copies(&plan(&forest, "unroll(tree)")), named(&[("batch", None), ("tree", Some(8))]));
}

/// Margins on the CPU as bits.
fn margins(forest: &Forest, text: &str, threads: usize) -> Vec<u32> {
    let schedule = Schedule::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let predictor =
        Predictor::builder(forest).schedule(schedule.clone()).threads(threads).build().expect("a predictor");
    let data = generate::rows(forest, 65, 5);
    let rows = Rows::new(&data, forest.features.len()).expect("rows");
    predictor.margins(&rows).expect("margins").into_iter().map(f32::to_bits).collect()
}

/// Leaves of a line are eighths, whose sums are exact in any order: every reduction gives the same bits.
#[test]
fn reductions_add_up_the_same() {
    for outputs in ["", "; outputs 3", "; outputs 19; vector"] {
        let forest = forest_of(&format!("21 x depth 2, 4 x chain 4; features 3{outputs}"));
        let tiles = "tile(tree, t0, t1, 7)\ntile(t1, t2, t3, 3)\nreorder(t0, t2, batch, t3)\n";
        let expected = margins(&forest, "", 1);
        for threads in [1, 2] {
            for loops in ["parallel(t0)", "parallel(t2)", "parallel(t0)\nparallel(t2)"] {
                let with = |marks: &str| margins(&forest, &format!("{tiles}{loops}\n{marks}"), threads);
                for width in [1, 2, 4, 8, 16] {
                    let marks = format!("vectorReduce(t0, {width})\nvectorReduce(t2, {width})");
                    assert_eq!(with(&marks), expected, "{loops}, by {width}, {threads} threads{outputs}");
                }
                for marks in [
                    "",
                    "atomicReduce(t0)",
                    "atomicReduce(t2)",
                    "atomicReduce(t0)\natomicReduce(t2)",
                    "atomicReduce(t0)\nvectorReduce(t2, 4)",
                    "vectorReduce(t0, 4)\natomicReduce(t2)",
                ] {
                    assert_eq!(with(marks), expected, "{loops}\n{marks}, {threads} threads{outputs}");
                }
            }
            // Rows that are reduced in two parts, and rows that lie apart.
            for nest in [
                "tile(tree, t0, t1, 7)\nreorder(t0, batch, t1)\nsplit(batch, x, y, 20)\nparallel(t0)",
                "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, 7)\nreorder(t0, b1, b0, t1)\nparallel(t0)",
                "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, 7)\nreorder(b0, t0, b1, t1)\nparallel(b0)\nparallel(t0)",
            ] {
                assert_eq!(margins(&forest, nest, threads), expected, "{nest}, {threads} threads{outputs}");
            }
        }
    }
}

/// Tiles of `trees/2`, `trees/3` and so on: only a call knows their sizes, and a run has room for 64.
#[test]
fn a_program_has_room_for_64_sizes_that_only_a_call_knows() {
    let forest = forest_of("150 x depth 1; features 2");
    let mut seen = Vec::new();
    for sizes in 50..70u32 {
        // Loops over two trees each stand side by side. The end of each is a size, and so is the tile of most.
        let (loops, tiles) = (sizes.div_ceil(2), sizes / 2);
        let mut text = String::new();
        let mut rest = "tree".to_owned();
        for k in 0..loops {
            writeln!(text, "split({rest}, a{k}, b{k}, 2)").expect("a string");
            if k < tiles {
                writeln!(text, "tile(a{k}, c{k}, d{k}, trees/{})", k + 2).expect("a string");
            }
            rest = format!("b{k}");
        }
        let lowered = lowered(&forest, &text);
        let found = lowered.cpu_plan().expect("a program").sizes.len();
        match Program::new(&forest, &lowered, 1) {
            Ok(program) => {
                assert!(found <= 64, "{found} sizes");
                let values = generate::rows(&forest, 3, 5);
                let mut out = vec![0.0; 3];
                let rows = Rows::new(&values, 2).expect("rows");
                program.margins(&rows, program.leaves(), &mut out).expect("margins");
                let expected = Predictor::builder(&forest).build().expect("a predictor").margins(&rows);
                assert_eq!(out, expected.expect("margins"), "{found} sizes");
            }
            Err(refused) => {
                assert!(found > 64, "{found} sizes: {refused}");
                assert!(refused.to_string().contains("at most 64"), "{refused}");
            }
        }
        seen.push(found);
    }
    assert!(seen.contains(&64) && seen.contains(&65), "{seen:?}");
}

#[test]
fn reductions_are_in_the_plan() {
    let forest = forest_of("21 x depth 2; features 3");
    let tiles = "tile(tree, t0, t1, 7)\nparallel(t0)\n";
    let staged = plan(&forest, tiles);
    assert_eq!(staged.own.partials.len(), 1);
    let vector = plan(&forest, &format!("{tiles}vectorReduce(t0, 8)"));
    let widths: Vec<u32> = vector
        .ops()
        .iter()
        .filter_map(|op| match op {
            Op::Own(Statement::ReduceDimension { vector, .. }) => Some(*vector),
            _ => None,
        })
        .collect();
    assert_eq!(widths, [8], "{vector}");
    let atomic = plan(&forest, &format!("{tiles}atomicReduce(t0)"));
    let into = |plan: &Plan<Cpu>| plan.walks().map(|w| w.own.into).collect::<Vec<Sum>>();
    assert!(atomic.own.partials.is_empty(), "{atomic}");
    assert_eq!(into(&atomic), [Sum::Result { atomic: true }], "{atomic}");
    // Atomic inside, staged outside: the copies of the outer loop are added to atomically.
    let inner = "tile(tree, t0, t1, 7)\ntile(t1, t2, t3, 2)\nparallel(t0)\nparallel(t2)\natomicReduce(t2)";
    let inner = plan(&forest, inner);
    assert_eq!(inner.own.partials.len(), 1, "{inner}");
    assert_eq!(inner.own.partials[0].len(), 1, "{inner}");
    assert_eq!(into(&inner), [Sum::Partial { buffer: 0, atomic: true }], "{inner}");
    // A GPU that can, and one that can't.
    let text = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\natomicReduce(tree)";
    let able = Device::Gpu(Gpu { atomic_add: true, ..Gpu::PORTABLE });
    assert!(kernel_for(able, &forest, text).is_atomic());
    let unable = kernel_for(Device::PORTABLE_GPU, &forest, text);
    assert!(!unable.is_atomic() && unable.own.partials.len() == 1);
}

#[test]
fn trees_are_sorted_as_said() {
    let forest = forest_of("chain 3, depth 2, depth 0, chain 4, depth 2, chain 3, depth 1; features 2");
    let order = |by: &str| lowered(&forest, &format!("sort({by})")).order().to_vec();
    let sorted = |key: &dyn Fn(&Tree) -> (u32, u32)| {
        let mut order: Vec<u32> = (0..forest.trees.len() as u32).collect();
        order.sort_by_key(|t| key(&forest.trees[*t as usize]));
        order
    };
    assert_eq!(lowered(&forest, "").order(), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(order("depth"), sorted(&|t| (deepest(t), 0)));
    assert_eq!(order("depth"), [2, 6, 1, 4, 0, 5, 3]);
    assert_eq!(order("first_leaf"), sorted(&|t| (first_leaf(t), deepest(t))));
    assert_eq!(order("first_leaf"), [2, 6, 0, 5, 3, 1, 4]);
    // Of one shape side by side: both trees of depth 2, both chains of 3.
    let by = order("structure");
    let together = |a: u32, b: u32| {
        let position = |t: u32| by.iter().position(|o| *o == t).expect("a tree");
        position(a).abs_diff(position(b)) == 1
    };
    assert!(together(1, 4) && together(0, 5), "{by:?}");
}

/// Node `i` of the tree at position `t` of `n`, in level order: in `layout(reorg)` at `i n + t`, in `layout(array)` at
/// its offset in the tree's own run.
#[test]
fn full_trees_lie_where_they_are_said_to() {
    let forest = forest_of("depth 3, chain 3, depth 1, chain 2; features 5");
    let n = forest.trees.len();
    for layout in ["reorg", "array"] {
        let lowered = lowered(&forest, &format!("sort(first_leaf)\nlayout({layout})"));
        let packed = lowered.packed();
        let mut run = 0;
        for (t, tree) in lowered.order().iter().map(|t| &forest.trees[*t as usize]).enumerate() {
            let address = |i: usize| if layout == "reorg" { i * n + t } else { run + i };
            assert_eq!(packed.roots[t] as usize, address(0), "{layout}");
            let mut open = vec![(0u32, 0usize)];
            while let Some((node, i)) = open.pop() {
                match (tree.nodes[node as usize], &packed.nodes[address(i)]) {
                    (Node::Split { feature, left, right, .. }, PackedNode::Split { feature: found, .. }) => {
                        assert_eq!(feature, *found, "{layout}, tree {t}, node {i}");
                        open.extend([(left, 2 * i + 1), (right, 2 * i + 2)]);
                    }
                    (Node::Leaf { slot }, PackedNode::Leaf { slot: found }) => {
                        assert_eq!(slot, *found, "{layout}, tree {t}, node {i}");
                    }
                    (node, found) => panic!("{layout}, tree {t}, node {i}: {found:?} for {node:?}"),
                }
            }
            run += (2usize << deepest(tree)) - 1;
        }
        let nodes = if layout == "reorg" { n * 15 } else { run };
        assert_eq!(packed.nodes.len(), nodes, "{layout}");
    }
}

#[test]
fn caches_stand_where_they_are_said_to() {
    let forest = forest_of("20 x depth 3; features 4");
    let text = "tile(batch, b0, b1, 16)\ntile(tree, t0, t1, 5)\nreorder(b0, t0, b1, t1)\ngpuDimension(b0, grid.x)\n\
                gpuDimension(b1, block.x)\n";
    let gpu = |marks: &str| kernel_for(Device::PORTABLE_GPU, &forest, &format!("{text}{marks}")).own;
    let none = gpu("");
    assert_eq!((none.cached_rows, none.cached_trees), (None, None));
    let rows = gpu("cache(b0)");
    assert_eq!((rows.cached_rows, rows.cached_trees), (Some(16), None));
    let trees = gpu("cache(t0)");
    assert_eq!((trees.cached_rows, trees.cached_trees.map(|c| c.trees)), (None, Some(5)));
    let both = gpu("cache(b0)\ncache(t0)");
    assert_eq!((both.cached_rows, both.cached_trees.map(|c| c.trees)), (Some(16), Some(5)));
    let both = kernel_for(Device::PORTABLE_GPU, &forest, &format!("{text}cache(b0)\ncache(t0)")).to_string();
    assert!(both.contains("rows and trees cached"), "{both}");
    let cpu = plan(&forest, &format!("{text}cache(b0)\ncache(t0)")).to_string();
    assert!(cpu.contains("cacheRows") && cpu.contains("cacheTrees"), "{cpu}");
}

/// A cube that walks a group of trees caches the columns of those, whose indices in the cache its nodes then name.
#[test]
fn rows_are_cached_for_the_trees_of_a_cube() {
    let forest = forest_of("12 x depth 2; features 36");
    let of = |marks: &str| {
        let text =
            format!("tile(batch, b0, b1, 16)\n{marks}\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)");
        kernel_for(Device::PORTABLE_GPU, &forest, &text)
    };
    let groups = "tile(tree, t0, t1, 4)\nreorder(t0, b0, b1, t1)\ngpuDimension(t0, grid.y)\ncache(b0)";
    let (all, grouped) = (of("cache(b0)"), of(groups));
    assert_eq!((all.own.column_group, all.own.features, all.cached_keys()), (None, 36, 16 * 36), "{all}");
    // Three splits a tree, each on a column of its own.
    assert_eq!(
        (grouped.own.column_group, grouped.own.features, grouped.cached_keys()),
        (Some(4), 12, 16 * 12)
    );
    assert!(grouped.to_string().contains("keys[used 12 of each 4 trees, 16]"), "{grouped}");
    // A last group of one tree.
    assert_eq!(of(&groups.replace("t1, 4", "t1, 11")).own.column_group, Some(11));
    // Where a loop begins between two groups, a cache's trees are those of no one group.
    let text = "tile(batch, b0, b1, 16)\nreorder(tree, b0, b1)\nsplit(tree, ta, tb, 3)\ntile(tb, t0, t1, 4)\n\
                reorder(t0, t1.b0, t1.b1, t1)\ncache(t0.b0)\ngpuDimension(ta.b1, block.x)\n\
                gpuDimension(t0.b1, block.x)";
    let plan = kernel_for(Device::PORTABLE_GPU, &forest, text);
    assert!(plan.own.cached_rows.is_some() && plan.own.column_group.is_none(), "{plan}");
}

/// Each node of `layout(depth_first)` is followed by its left child, and names its right one.
#[test]
fn depth_first_nodes_lie_beside_their_left_child() {
    let forest = forest_of("depth 3, chain 3, depth 0, chain 2; features 5");
    let lowered = lowered(&forest, "sort(first_leaf)\nlayout(depth_first)");
    let packed = lowered.packed();
    let mut next = 0;
    for (t, tree) in lowered.order().iter().map(|t| &forest.trees[*t as usize]).enumerate() {
        assert_eq!(packed.roots[t], next);
        // What is laid out in preorder, and whom it is right child of.
        let mut open = vec![(0u32, None::<u32>)];
        while let Some((node, above)) = open.pop() {
            if let Some(PackedNode::Split { link, .. }) = above.map(|a| packed.nodes[a as usize]) {
                assert_eq!(link, next, "tree {t}");
            }
            match (tree.nodes[node as usize], packed.nodes[next as usize]) {
                (Node::Split { left, right, feature, .. }, PackedNode::Split { feature: found, .. }) => {
                    assert_eq!(feature, found, "tree {t}");
                    open.extend([(right, Some(next)), (left, None)]);
                }
                (Node::Leaf { slot }, PackedNode::Leaf { slot: found }) => assert_eq!(slot, found),
                (node, found) => panic!("tree {t}, address {next}: {found:?} for {node:?}"),
            }
            next += 1;
        }
    }
    assert_eq!(packed.nodes.len() as u32, next);
}

/// What is drawn of these directives matters: most that a draw has change its plan or its notes.
#[test]
fn directives_are_not_ignored() {
    let forest = forest_of(MIXED);
    let base = "tile(batch, b0, b1, 8)\ntile(tree, t0, t1, 2)\nreorder(b0, t0, b1, t1)\nparallel(t0)\nunrollWalk(t1)\n";
    let plain = plan(&forest, base);
    for mark in [
        "unroll(t1)",
        "unroll(b1)",
        "specialize(t0)",
        "cache(b0)",
        "cache(t0)",
        "interleave(t1)",
        "unrollWalk(t1, 1)",
        "atomicReduce(t0)",
        "vectorReduce(t0, 4)",
        "layout(array)",
        "layout(reorg)",
        "layout(depth_first)",
        "gpuDimension(b0, grid.x)",
        "parallel(b0)",
    ] {
        assert_ne!(plan(&forest, &format!("{base}{mark}")), plain, "{mark}");
    }
    let case = |text: &str| Case::new(forest.clone(), Schedule::parse(text).expect("a schedule"), 9, 3);
    for by in ["depth", "first_leaf", "structure"] {
        let [sorted, unsorted] =
            [format!("sort({by})\n{base}"), base.to_owned()].map(|t| runs::recorded(&case(&t), 2));
        assert_ne!(sorted, unsorted, "sort({by})");
    }
}
