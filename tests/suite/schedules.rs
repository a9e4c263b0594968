//! The schedule language: both forms of a schedule, and what is said of a wrong one. `papers.rs` has the papers' listings.

use crate::generate;

use fangorn::{
    Error, Forest,
    plan::{Request, lower},
    schedule::{
        Architecture, Axis, Device, Directive, Evaluation, Gpu, GpuDim, LayoutKind, Schedule, Size, TreeOrder,
    },
};
use generate::{Kind, forest_of};
use proptest::{prelude::*, test_runner::Config};

fn parse(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn builder_and_text_say_the_same() {
    let built = Schedule::new()
        .sort(TreeOrder::Depth)
        .tile("batch", "b0", "b1", Size::Batch / Size::Threads)
        .tile("tree", "t0", "t1", Size::Trees / 3)
        .split("t1", "t2", "t3", 5u32)
        .reorder(["b0", "b1"])
        .gpu_dimension("b0", GpuDim::Grid(Axis::Z))
        .parallel("b1")
        .cache("b0")
        .interleave("t2")
        .unroll_walk("t2", None)
        .unroll_walk("t3", Some(4))
        .shared_reduce("t0")
        .layout(LayoutKind::Array);
    let text = "sort(depth)\ntile(batch, b0, b1, batch/threads)\ntile(tree, t0, t1, trees/3)\nsplit(t1, t2, t3, 5)\n\
                reorder(b0, b1)\ngpuDimension(b0, grid.z)\nparallel(b1)\ncache(b0)\ninterleave(t2)\nunrollWalk(t2)\n\
                unrollWalk(t3, 4)\nsharedReduce(t0)\nlayout(array)\n";
    assert_eq!(parse(text), built);
    assert_eq!(built.to_string(), text);
}

#[test]
fn comments_blank_lines_and_names_that_hide_numbers() {
    let text = "# a comment\n\n  parallel(batch) # and another\n10 cache(batch);\nunrollWalk(tree , 3)";
    let expected = Schedule::new().parallel("batch").cache("batch").unroll_walk("tree", Some(3));
    assert_eq!(parse(text), expected);
    let spelled = parse("tile(batch, x_1, _y, num_trees / N_batch)");
    assert_eq!(spelled, Schedule::new().tile("batch", "x_1", "_y", Size::Trees / Size::Batch));
}

proptest! {
    #![proptest_config(Config { cases: 2000, failure_persistence: None, ..Config::default() })]

    #[test]
    fn printed_schedules_read_back(schedule in generate::schedule(Kind::Any), mapped in generate::schedule(Kind::MappedLoop)) {
        for schedule in [schedule, mapped] {
            let read = Schedule::parse(&schedule.to_string());
            prop_assert_eq!(read.map_err(|e| e.to_string()), Ok(schedule));
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9(){},./; #\n_é-]{0,60}") {
        let _ = Schedule::parse(&text);
    }

    #[test]
    fn directives_with_anything_inside_are_read_or_refused(
        name in "tile|split|reorder|parallel|cache|unrollWalk|gpuDimension|Tile|layout|sort",
        inside in "[a-z0-9_./, {}-]{0,24}",
    ) {
        let _ = Schedule::parse(&format!("{name}({inside})"));
    }
}

/// The message for a text on a device, or what it became.
fn refusal(forest: &Forest, text: &str, device: Device) -> String {
    let request = Request { device, threads: 2, ..Request::cpu() };
    match Schedule::parse(text).map_err(Error::from).and_then(|schedule| lower(forest, &schedule, request)) {
        Ok(lowered) => panic!("not refused:\n{text}\n{}", lowered.plan()),
        Err(Error::Internal(e)) => panic!("a defect: {e}\n{text}"),
        Err(e) => e.to_string(),
    }
}

#[track_caller]
fn assert_refused(text: &str, device: Device, phrases: &[&str]) {
    let message = refusal(&forest_of("40 x depth 6; features 4"), text, device);
    for phrase in phrases {
        assert!(message.contains(phrase), "`{phrase}` is not in: {message}\n{text}");
    }
}

#[test]
fn unreadable_lines_are_named() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    cpu("parallel(batch)\nfuse(batch, tree)", &["line 2", "`fuse` is no directive", "tile, split, reorder"]);
    cpu("\n\nhello", &["line 3", "expected a directive", "tile(batch, b0, b1, 64)"]);
    cpu("tile(batch, b0, b1)", &["line 1", "expected `tile(variable, outer, inner, size)`", "3 argument"]);
    cpu("split(batch, b0, b1)", &["line 1", "expected `split(variable, first, second, iterations)`"]);
    cpu("reorder()", &["line 1", "expected `reorder(outermost, …, innermost)`", "0 argument"]);
    cpu("parallel(batch, tree)", &["line 1", "expected `parallel(variable)`", "2 argument"]);
    cpu("gpuDimension(batch)", &["line 1", "expected `gpuDimension(variable, grid.x)`"]);
    cpu("unrollWalk(tree, 1, 2)", &["line 1", "expected `unrollWalk(variable, steps)`", "3 argument"]);
    cpu("unrollWalk(tree, -1)", &["line 1", "`-1` is no number of steps"]);
    cpu("tile(batch, b0, b1, 0)", &["line 1", "a size is at least 1"]);
    cpu("tile(batch, b0, b1, batch/0)", &["line 1", "a size is at least 1"]);
    cpu("split(tree, t0, t1, 0)", &["line 1", "a size is at least 1"]);
    cpu("tile(batch, b0, b1, many)", &["line 1", "`many` is no size", "below 2^32, batch, trees, threads"]);
    cpu("tile(batch, b0, b1, 4294967296)", &["line 1", "`4294967296` is no size"]);
    cpu("tile(batch, 0b, b1, 4)", &["line 1", "`0b` is no name for a new variable"]);
    cpu("tile(batch, a.b, b1, 4)", &["line 1", "`a.b` is no name for a new variable"]);
    cpu("parallel(b-1)", &["line 1", "`b-1` is no variable's name"]);
    cpu(
        "gpuDimension(batch, grid.w)",
        &["line 1", "`grid.w` is no GPU dimension", "grid.x/y/z or block.x/y/z"],
    );
    cpu("layout(hashed)", &["line 1", "`hashed` is no layout", "array, sparse, reorg or depth_first"]);
    cpu("sort(size)", &["line 1", "`size` is no order", "depth, first_leaf, structure or likely_leaf"]);
    cpu("sort()", &["line 1", "expected `sort(depth)`"]);
    cpu("pad(some)", &["line 1", "`some` is no number of percent"]);
    cpu("vectorReduce(tree, 3)", &["line 1", "`3` is no vector width", "1, 2, 4, 8 or 16"]);
    cpu(
        "evaluate(tree, guess)",
        &["line 1", "`guess` is no way to evaluate", "walk, blend or blend(levels)"],
    );
    cpu("evaluate(tree, blend(9))", &["line 1, column 22", "`9` is no number of levels", "1 to 8"]);
    cpu("evaluate(tree, blend(0))", &["line 1", "`0` is no number of levels"]);
    cpu("evaluate(tree, blend(3)", &["line 1, column 1", "`evaluate(` is not closed"]);
    for of_nothing in
        [Schedule::new().tile("batch", "b0", "b1", 0), Schedule::new().split("tree", "t0", "t1", 0)]
    {
        let refused = of_nothing.nest().expect_err("no rows").to_string();
        assert!(refused.contains("directive 1") && refused.contains("at least 1"), "{refused}");
    }
    let top = Schedule::new().evaluate("tree", Evaluation::BlendTop(9));
    let refused =
        lower(&forest_of("depth 2; features 2"), &top, Request::cpu()).expect_err("9 levels").to_string();
    assert!(refused.contains("9 levels are not blended; write 1 to 8"), "{refused}");
    for width in [0, 3, 32] {
        let refused = Schedule::new().vector_reduce("tree", width).nest().expect_err("no width").to_string();
        assert!(refused.contains(&format!("{width} sums are not added up together")), "{refused}");
    }
    assert_eq!(
        parse("evaluate(tree, blend( 4 ))"),
        Schedule::new().evaluate("tree", Evaluation::BlendTop(4))
    );
    cpu("peelWalk(tree)", &["line 1", "expected `peelWalk(variable, steps)`"]);
    cpu("tile(batch, b0, b1, 4", &["line 1, column 1", "`tile(` is not closed"]);
}

#[test]
fn brackets_and_braces_come_in_pairs() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    cpu(
        "reorder({tree, batch)",
        &["line 1, column 9", "`{` is not closed", "end the arguments with `}`, or leave it out"],
    );
    cpu("reorder(tree, batch})", &["line 1, column 20", "`}` stands alone", "round all arguments, once"]);
    cpu("reorder({{tree, batch}})", &["line 1, column 10", "`{` stands alone"]);
    cpu("reorder({tree}, {batch})", &["line 1, column 14", "`}` stands alone"]);
    cpu("reorder({tree, batch}", &["line 1, column 1", "`reorder(` is not closed; end it with `)`"]);
    cpu("\n  parallel(batch))", &["line 2, column 18", "`)` stands after the directive"]);
    cpu("{parallel(batch)}", &["line 1, column 17", "`}` stands after the directive"]);
    assert_eq!(parse("Reorder( { tree , batch } ) ; ;"), Schedule::new().reorder(["tree", "batch"]));
    assert_eq!(parse("pad({})"), parse("pad()"));
}

#[test]
fn commas_stand_between_arguments_and_a_line_between_directives() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    cpu(
        "reorder(tree, batch,)",
        &["line 1, column 21", "an argument is missing here", "leave the comma out"],
    );
    cpu("reorder(,tree)", &["line 1, column 9", "an argument is missing here"]);
    cpu("tile(batch, , b1, 4)", &["line 1, column 12", "an argument is missing here"]);
    cpu("pad(,)", &["line 1, column 5", "an argument is missing here"]);
    cpu("reorder(tree batch)", &["line 1, column 9", "`tree batch` is no variable's name"]);
    cpu(
        "parallel(batch) cache(batch)",
        &["line 1, column 17", "`cache(batch)` stands after the directive", "write one directive a line"],
    );
    cpu("parallel(batch); cache(batch)", &["line 1, column 18", "write one directive a line"]);
    cpu("cache(é)", &["line 1, column 7", "`é` is no variable's name"]);
    cpu("1 2 cache(batch)", &["line 1, column 3", "`2 cache` is no directive"]);
    cpu("5", &["line 1, column 1", "expected a directive", "found `5`"]);
    cpu("peelWalk(tree, 90%%)", &["line 1, column 16", "`90%`"]);
    cpu(";", &["line 1, column 1", "expected a directive", "found `;`"]);
}

#[test]
fn numbers_are_whole_and_below_two_to_the_32() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    let tile = |size: &str| format!("tile(batch, b0, b1, {size})");
    for size in ["4294967296", "-4", "4.0", "1e3", "0x10", "4 4", "٤"] {
        cpu(&tile(size), &["line 1, column 21", &format!("`{size}` is no size: a number below 2^32")]);
    }
    cpu(&tile("trees/2/2"), &["line 1, column 27", "`2/2` is no size"]);
    cpu(&tile("/4"), &["line 1, column 21", "`` is no size"]);
    cpu(&tile("4/"), &["line 1, column 23", "`` is no size"]);
    cpu("unrollWalk(tree, 4294967296)", &["line 1, column 18", "no number of steps below 2^32"]);
    cpu("peelWalk(tree, two)", &["line 1, column 16", "`two` is no number of steps"]);
    cpu("pad(10%%)", &["line 1, column 5", "`10%` is no number of percent"]);
    cpu("vectorReduce(tree, 4294967300)", &["line 1, column 20", "no vector width"]);
    let most = Schedule::new().tile("batch", "b0", "b1", u32::MAX);
    assert_eq!(parse(&tile("4294967295")), most);
    assert_eq!(parse(&tile("+04294967295")), most);
    assert_eq!(parse("pad( 10 % )"), Schedule::new().pad(10));
}

/// The papers' declarations say nothing, so one that says something is no declaration.
#[test]
fn declarations_of_variables_hide_no_directive() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    cpu("auto b = schedule.Parallel(batch);", &["line 1, column 6", "a directive stands without `auto`"]);
    cpu("auto& tree = schedule.GetBatchIndex();", &["line 1, column 7", "the rows are `batch`"]);
    cpu("auto& rows = schedule.GetBatchIndex();", &["line 1, column 7", "the rows are `batch`"]);
    cpu("IndexVar b0 b1;", &["line 1, column 10", "expected `IndexVar b0, b1;`", "`b0 b1`"]);
    cpu("IndexVar b0, parallel(batch);", &["line 1, column 14", "`parallel(batch)`"]);
    let declared =
        "3 IndexVar b0, b1 ;\nauto batch = schedule.GetBatchIndex() ;\nauto& tree=schedule.GetTreeIndex()";
    assert_eq!(parse(declared), Schedule::new());
}

/// A loop is mapped once; other marks may be given again, and of two numbers the last counts.
#[test]
fn a_mark_given_twice_is_given_once() {
    let loops = |text: &str| parse(text).nest().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let tiled = "tile(tree, t0, t1, 4)\n";
    for mark in ["cache(t0)", "specialize(t0)", "unroll(t1)", "interleave(t1)", "unrollWalk(t1)"] {
        assert_eq!(loops(&format!("{tiled}{mark}\n{mark}")), loops(&format!("{tiled}{mark}")), "{mark}");
    }
    for mark in ["atomicReduce(t0)", "sharedReduce(t0)"] {
        assert_eq!(loops(&format!("{tiled}{mark}\n{mark}")), loops(&format!("{tiled}{mark}")), "{mark}");
    }
    for (first, last) in [
        ("unrollWalk(t1, 2)", "unrollWalk(t1, 5)"),
        ("unrollWalk(t1, 2)", "unrollWalk(t1)"),
        ("peelWalk(t1, 5)", "peelWalk(t1, 2)"),
        ("vectorReduce(t0, 8)", "vectorReduce(t0, 4)"),
    ] {
        assert_eq!(loops(&format!("{tiled}{first}\n{last}")), loops(&format!("{tiled}{last}")), "{first}");
        assert_ne!(loops(&format!("{tiled}{first}")), loops(&format!("{tiled}{last}")), "{first}");
    }
    for mapping in ["parallel(t0)", "gpuDimension(t0, grid.x)"] {
        assert_refused(&format!("{tiled}{mapping}\n{mapping}"), Device::Cpu, &["mapped already", "once"]);
    }
}

#[test]
fn contradictions_are_named_with_a_remedy() {
    let cpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::Cpu, phrases);
    cpu(
        "parallel(batch)\nparallel(rows)",
        &["directive 2 `parallel(rows)`", "there is no loop `rows`", "the loops are batch, tree"],
    );
    cpu("tile(batch, b0, b1, 8)\nparallel(batch)", &["directive 2", "no loop `batch`", "b0, b1, tree"]);
    cpu("split(tree, t0, t1, 2)\nparallel(t0.batch)", &["directive 2", "there is no loop `t0.batch`"]);
    // Both loops over the batch have a loop over the trees, which is named once.
    cpu("split(batch, b0, b1, 5)\nparallel(rows)", &["directive 2", "the loops are b0, tree, b1"]);
    cpu(
        "tile(batch, b0, b1, 8)\nreorder(b0, tree)",
        &["directive 2 `reorder(b0, tree)`", "not one perfect nest", "name all loops"],
    );
    cpu(
        "split(tree, t0, t1, 2)\nreorder(t0, batch)",
        &["directive 2", "not one perfect nest", "from the outermost to the innermost"],
    );
    cpu("reorder(batch, batch)", &["directive 1", "not one perfect nest"]);
    cpu(
        "tile(batch, b0, tree, 8)",
        &["directive 1", "there is a loop `tree` already", "choose another name"],
    );
    cpu("tile(batch, b, b, 8)", &["directive 1", "`b` names two new loops", "give them two names"]);
    cpu(
        "interleave(tree)",
        &[
            "directive 1",
            "`tree` has no constant extent",
            "tile(tree, outer, inner, 4)",
            "interleave the inner",
        ],
    );
    cpu(
        "tile(tree, t0, t1, 65)\ninterleave(t1)",
        &["directive 2", "`t1` has 65 iterations", "interleave 1 to 64"],
    );
    cpu("interleave(batch)", &["directive 1", "`batch` is not an innermost loop", "reorder"]);
    cpu("unrollWalk(batch, 2)", &["directive 1", "`batch` is not an innermost loop", "reorder"]);
    cpu("parallel(batch)\nparallel(batch)", &["directive 2", "`batch` is mapped already", "once"]);
    // The message names the mark that forbids the directive.
    cpu(
        "parallel(batch)\ntile(batch, b0, b1, 8)",
        &["directive 2", "a mark of `parallel`", "tile and split first"],
    );
    cpu(
        "unrollWalk(tree, 2)\nsplit(tree, t0, t1, 8)",
        &["directive 2", "a mark of `unrollWalk`", "tile and split first"],
    );
    cpu(
        "cache(batch)\nsplit(batch, b0, b1, 8)",
        &["directive 2", "a mark of `cache`", "tile and split first"],
    );
    cpu(
        "unrollWalk(tree, 2)\nreorder(tree, batch)",
        &["directive 2", "`tree` is interleaved, or its walks are unrolled", "reorder first"],
    );
    cpu(
        "tile(tree, t0, t1, 8)\ninterleave(t1)\nparallel(t1)",
        &["directive 3", "`t1` is interleaved", "map a loop outside it"],
    );
    cpu("unroll(batch)", &["directive 1", "as many iterations as a call has rows", "unroll the inner loop"]);
    cpu(
        "parallel(tree)\nunroll(tree)",
        &["directive 2", "mapped or interleaved", "unroll a plain loop inside"],
    );
    cpu("unroll(tree)\nparallel(tree)", &["directive 2", "`tree` is interleaved or unrolled"]);
    cpu("atomicReduce(batch)", &["directive 1", "`batch` goes over rows", "name a loop over trees"]);
    cpu("vectorReduce(batch, 4)", &["directive 1", "`batch` goes over rows", "name a loop over trees"]);
    cpu(
        "tile(tree, t0, t1, 4)\ninterleave(t1)\nspecialize(t1)",
        &["directive 3", "specialize a loop outside it"],
    );
    cpu("sharedReduce(batch)", &["directive 1", "`batch` goes over rows", "name a loop over trees"]);
}

#[test]
fn what_a_gpu_cannot_do_is_named_with_a_remedy() {
    let gpu = |text: &str, phrases: &[&str]| assert_refused(text, Device::PORTABLE_GPU, phrases);
    gpu("", &["no loop is mapped to the GPU", "add gpuDimension(…, grid.x)", "tahoe_direct"]);
    gpu("parallel(batch)", &["no loop is mapped to the GPU", "add gpuDimension"]);
    gpu(
        "gpuDimension(batch, grid.x)\ngpuDimension(tree, grid.x)",
        &["directive 2", "the enclosing loop `batch` has grid.x already", "another dimension"],
    );
    gpu(
        "gpuDimension(tree, block.y)\ngpuDimension(batch, block.y)",
        &["directive 2", "the loop `tree` inside has block.y already", "another dimension"],
    );
    let many: String = (0..8).map(|i| format!("split(t{i}, u{i}, t{}, 1)\n", i + 1)).collect();
    let many = format!("tile(tree, t0, x, 1)\n{many}gpuDimension(batch, grid.x)");
    gpu(&many, &["9 innermost loops, at most 8 on this GPU", "split less"]);
}

/// Directives that a device, or the rest of the schedule, leaves no room for: carried out otherwise, and said so.
#[test]
fn what_is_carried_out_otherwise_is_said() {
    let forest = forest_of("40 x depth 6; features 4");
    let noted_on = |device: Device, text: &str, phrases: &[&str]| {
        let request = Request { device, threads: 1, ..Request::cpu() };
        let lowered = lower(&forest, &parse(text), request).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let notes: Vec<String> = lowered.notes().iter().map(ToString::to_string).collect();
        for phrase in phrases {
            assert!(notes.iter().any(|n| n.contains(phrase)), "`{phrase}` is not in {notes:?}\n{text}");
        }
        assert!(!phrases.is_empty() || notes.is_empty(), "{notes:?}\n{text}");
    };
    let noted = |text: &str, phrases: &[&str]| noted_on(Device::PORTABLE_GPU, text, phrases);
    noted("gpuDimension(batch, block.x)\ngpuDimension(tree, grid.x)", &[]);
    noted(
        "tile(batch, b0, b1, 8)\ngpuDimension(b0, block.x)\ncache(b1)",
        &["cache(b1)", "fills its row cache together, outside its block loops"],
    );
    // Both gave wrong margins once, as a kernel had one row cache for all its walks or none.
    noted("split(batch, ba, bb, 1)\ngpuDimension(ba, grid.x)\ngpuDimension(bb, grid.x)\ncache(bb)", &[]);
    noted(
        "tile(batch, b0, b1, 64)\ntile(b1, b2, b3, 8)\nreorder(b0, tree, b2, b3)\nsplit(tree, ta, tb, 1)\n\
         gpuDimension(b0, grid.x)\ngpuDimension(b3, block.x)\ncache(b0)\ncache(ta.b2)",
        &["cache(b2)", "a loop around it has cached its rows already"],
    );
    noted(
        "gpuDimension(batch, grid.x)\nsharedReduce(tree)",
        &["sharedReduce(tree)", "`tree` is not parallel"],
    );
    noted(
        "tile(tree, t0, t1, 8)\ngpuDimension(batch, block.x)\ngpuDimension(t0, grid.x)\nsharedReduce(t0)",
        &["sharedReduce", "only a block loop's units share memory"],
    );
    noted("split(tree, t0, t1, 2)\ngpuDimension(batch, grid.x)\ngpuDimension(t0, block.x)", &[]);
    noted(
        "split(tree, t0, t1, 2)\ngpuDimension(batch, grid.x)\ngpuDimension(t0, block.x)\ngpuDimension(t1, block.y)\n\
         sharedReduce(t0)\nsharedReduce(t1)",
        &["sharedReduce", "branches are mapped to different dimensions"],
    );
    // 2048 rows of 4 columns are 32 KiB.
    noted(
        "tile(batch, b0, b1, 2048)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\ncache(b0)",
        &[
            "cache of rows",
            "32768 bytes of shared memory, the device has 16384",
            "rows are read from global memory",
        ],
    );
    noted("gpuDimension(batch, grid.x)\ncache(tree)", &[]);
    noted(
        "reorder(tree, batch)\ntile(tree, t0, t1, 40)\ngpuDimension(batch, grid.x)\ncache(t0)",
        &["cache of trees", "bytes of shared memory, the device has 16384"],
    );
    noted(
        "gpuDimension(tree, grid.x)\ntile(batch, b0, b1, batch/4)\nreorder(tree, b0, b1)\ncache(b0)",
        &["cache(b0)", "a number of rows that is known only at the call"],
    );
    noted(
        "tile(tree, t0, t1, 64)\ngpuDimension(batch, grid.x)\ninterleave(t1)\nunrollWalk(t1)",
        &["interleave(t1)", "64 walks at once, at most 8 in this kernel; they go in groups of 8"],
    );
    // Nested, they multiply; the inner alone fits.
    noted(
        "tile(tree, t0, t1, 40)\ntile(t1, t2, t3, 8)\ngpuDimension(batch, grid.x)\nunroll(t2)\nunroll(t3)",
        &["unroll(t3)", "the kernel would hold 40 walks, at most 24 on this GPU; it stays a loop"],
    );
    let atomic = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\natomicReduce(tree)";
    noted(atomic, &["atomicReduce(tree)", "does not add to f32 in buffers atomically", "added up in stages"]);
    let able = Device::Gpu(Gpu { atomic_add: true, ..Gpu::PORTABLE });
    noted_on(able, atomic, &[]);
    let both = format!("{atomic}\nsharedReduce(tree)");
    noted_on(able, &both, &["atomicReduce(tree)", "in shared memory are not counted on"]);
    let rows = "tile(batch, b0, b1, 64)\ngpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)";
    noted(rows, &[]);
    let two = Device::Gpu(Gpu { max_units: 2, max_dim: [2; 3], ..Gpu::PORTABLE });
    let cut = "64 units, a cube has room for 2 there; each takes up to 32 of the iterations in turn";
    noted_on(two, rows, &[&format!("gpuDimension(b1, block.x): {cut}")]);
    // As many as there are, of a loop that only the call knows.
    noted_on(two, "gpuDimension(batch, block.x)", &[]);
    // NVIDIA's compilers have room where Mesa's has none.
    let hopper = "sm_90a".parse::<Architecture>().expect("known").device();
    for (lanes, portable, cuda) in [
        (8, None, None),
        (16, Some("16 walks at once, at most 8 in this kernel"), None),
        (64, Some("at most 8 in this kernel"), Some("64 walks at once, at most 32 in this kernel")),
    ] {
        let text = format!(
            "tile(tree, t0, t1, {lanes})\ngpuDimension(batch, grid.x)\ninterleave(t1)\nunrollWalk(t1)"
        );
        for (device, note) in [(Device::PORTABLE_GPU, portable), (hopper, cuda)] {
            match note {
                Some(note) => noted_on(device, &text, &["interleave(t1)", note]),
                None => noted_on(device, &text, &[]),
            }
        }
    }
    let unrolled = "tile(tree, t0, t1, 30)\ngpuDimension(batch, grid.x)\nunroll(t1)";
    noted(unrolled, &["unroll(t1)", "the kernel would hold 30 walks, at most 24 on this GPU"]);
    noted_on(hopper, unrolled, &[]);
    let chains = forest_of(
        "2 x depth 1, 2 x depth 2, 2 x depth 3, 2 x depth 4, 2 x depth 5, chain 6, chain 7, chain 8, chain 9",
    );
    let request = Request { device: Device::PORTABLE_GPU, threads: 1, ..Request::cpu() };
    let deep = lower(
        &forest_of("8 x chain 60"),
        &parse("tile(tree, t0, t1, 8)\ngpuDimension(batch, grid.x)\ninterleave(t1)\nunrollWalk(t1)"),
        request,
    );
    let note = deep.expect("lowered").notes().first().expect("a note").to_string();
    assert!(
        note.contains("60 straight-line steps in each of 8 walks are more than a kernel may hold; 8 are"),
        "{note}"
    );
    for device in [Device::Cpu, Device::PORTABLE_GPU] {
        let rows = "gpuDimension(batch, grid.x)\nspecialize(batch)\nunrollWalk(tree)";
        noted_on(device, rows, &["specialize(batch): it goes over rows", "its iterations share theirs"]);
        let trees = "tile(tree, t0, t1, batch)\ngpuDimension(t0, grid.x)\nspecialize(t0)\nspecialize(t1)";
        let why = "the batch says which trees an iteration visits";
        noted_on(device, trees, &[&format!("specialize(t0): {why}"), &format!("specialize(t1): {why}")]);
        // Nothing is different about full trees of one depth.
        noted_on(device, "gpuDimension(batch, grid.x)\nspecialize(tree)\nunrollWalk(tree)", &[]);
    }
    // Two loops of one name are one directive.
    let cpu = Request { device: Device::Cpu, ..request };
    let copies = parse("reorder(tree, batch)\nsplit(tree, t0, t1, 2)\nspecialize(batch)");
    assert_eq!(lower(&forest, &copies, cpu).expect("lowered").notes().len(), 1);
    let text = "specialize(tree)\ngpuDimension(batch, grid.x)\nunrollWalk(tree)";
    let lowered = lower(&chains, &parse(text), request).expect("lowered");
    let note = lowered.notes().first().expect("a note").to_string();
    assert!(note.contains("specialize(tree)") && note.contains("table of trees"), "{note}");
    assert!(lowered.plan().to_string().contains("to the tree's depth"), "{}", lowered.plan());
}

/// Schedules that a program could write: what they take is bounded by the limits, whatever they say.
#[test]
fn splits_of_splits_and_tiles_of_tiles_take_bounded_room() {
    let schedule = |lines: &[String]| lines.join("\n");
    // Each split from the inside out doubles the loops inside it.
    let tiles = (0..14).map(|i| {
        let var = if i == 0 { "batch".to_owned() } else { format!("r{}", i - 1) };
        format!("tile({var}, a{i}, r{i}, 2)")
    });
    let splits = (0..14).rev().map(|i| format!("split(a{i}, x{i}, y{i}, 1)"));
    let doubling: Vec<String> = tiles.chain(splits).collect();
    assert_refused(&schedule(&doubling), Device::Cpu, &["directive 24", "more than 4096 loops", "less"]);
    let before = parse(&schedule(&doubling[..23])).nest().expect("nested").loops().len();
    assert!((2049..=4096).contains(&before), "{before} loops");
    // Sizes that are no numbers add up: the first loops' ends by their starts, the second loops' starts by one.
    let alternating = |of: &str| -> Vec<String> {
        let var = |i: usize| match (i, i % 2) {
            (0, _) => "tree".to_owned(),
            (_, 0) => format!("b{}", i - 1),
            _ => format!("a{}", i - 1),
        };
        (0..4000).map(|i| format!("split({}, a{i}, b{i}, {of})", var(i))).collect()
    };
    assert_refused(&schedule(&alternating("trees/3")), Device::Cpu, &["would be made of more than 64 sizes"]);
    assert_refused(&schedule(&alternating("3")), Device::Cpu, &["tile and split by numbers, or less"]);
    // Numbers fold: two hundred loops one after the other are nothing.
    let splits: Vec<String> = (1..200).map(|i| format!("split(t{}, p{i}, t{i}, 1)", i - 1)).collect();
    let splits = format!("tile(tree, t0, inside, 1)\n{}", splits.join("\n"));
    assert_eq!(parse(&splits).nest().expect("nested").loops().len(), 401);
}

/// Thirty tiles inside each other, none of which divides the next: each loop has a second iteration, nearly all of them
/// without a tree, and lowering must not go through them all.
#[test]
fn iterations_without_a_tree_take_no_time() {
    let tiles = (0..30).map(|i| {
        let var = if i == 0 { "tree".to_owned() } else { format!("r{}", i - 1) };
        format!("tile({var}, a{i}, r{i}, {})", 38 - i)
    });
    let text: String =
        tiles.chain(["specialize(a0)".into(), "unrollWalk(r29)".into()]).collect::<Vec<_>>().join("\n");
    let request = Request { threads: 1, ..Request::cpu() };
    let forest = forest_of("39 x depth 1; features 2");
    let lowered = lower(&forest, &parse(&text), request).expect("lowered");
    let trees = lowered.loops().trees_of_walks(39, 1);
    assert_eq!(trees, [Some((0..39).collect::<Vec<u32>>())]);
}

/// Each directive's own number is in its message, wherever in the schedule it stands.
#[test]
fn errors_count_directives_not_lines() {
    let text = "# two comments\n\n# first\nparallel(batch)\n\ninterleave(tree)";
    assert_refused(text, Device::Cpu, &["directive 2 `interleave(tree)`"]);
}

/// A device whose driver miscompiles shared memory gets neither caches nor shared sums.
#[test]
fn shared_memory_is_refused_where_it_is_miscompiled() {
    let device = Device::Gpu(Gpu { shared_memory: false, ..Gpu::PORTABLE });
    let mapped = "gpuDimension(batch, grid.x)\ngpuDimension(tree, block.x)\n";
    for directive in ["cache(batch)", "sharedReduce(tree)"] {
        let text = format!("{mapped}{directive}");
        assert_refused(
            &text,
            device,
            &["directive 3", directive, "use the wgpu build, or leave the directive out"],
        );
    }
    let request = Request { device, threads: 1, ..Request::cpu() };
    let without = lower(&forest_of("40 x depth 6; features 4"), &parse(mapped), request);
    assert!(without.is_ok(), "global copies need no shared memory: {without:?}");
}

#[test]
fn a_layout_that_would_not_fit_names_the_other() {
    let message = refusal(&forest_of("chain 25; features 2"), "layout(array)", Device::Cpu);
    assert!(message.contains("layout(array)") && message.contains("use layout(sparse)"), "{message}");
}

#[test]
fn the_last_layout_and_order_count() {
    let schedule = parse("layout(array)\nlayout(sparse)");
    assert_eq!(schedule.layout_kind(), Some(LayoutKind::Sparse));
    assert_eq!(Schedule::new().layout_kind(), None);
    assert!(matches!(schedule.directives[0], Directive::Layout { kind: LayoutKind::Array }));
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let text = "reorder(tree, batch)\nparallel(batch)";
    assert_eq!(Schedule::parse(&format!("\u{feff}{text}")), Schedule::parse(text));
    let again = Schedule::parse(&format!("{text}\n\u{feff}cache(batch)"));
    assert_eq!(again.expect_err("a mark inside a text").line, 3);
}
