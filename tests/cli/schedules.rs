//! Schedules, from presets, files and profiles: what `lower` prints of them and `bench` times.

use serde_json::Value;

use crate::{PRESETS, Scratch, csv, fangorn, model, prints, read_npy, refuses, text, zoo};

/// Rows are counted, and schedules that go by the counts give what any gives.
#[test]
fn profiles_are_counted_and_gone_by() {
    let scratch = Scratch::new("profiles");
    let (softprob, model, rows) = (model("softprob"), model("churn"), zoo("churn", "rows.npy"));
    let [profile, converted] = ["churn.json", "churn.fangorn"].map(|name| scratch.path(name));
    let counted = prints(&["profile", &model, "--rows", &rows, "-o", &profile, "--json"]);
    let counted: Value = serde_json::from_str(&counted).expect("JSON");
    let (shape, leaves) = read_npy::<i32>(&zoo("churn", "leaves.npy"));
    assert_eq!(counted["rows"].as_u64(), Some(shape[0]));
    assert_eq!(counted["trees"].as_u64(), Some(shape[1]));
    let written: Value = serde_json::from_slice(&std::fs::read(&profile).expect("a file")).expect("JSON");
    let visits: Vec<u64> = serde_json::from_value(written["visits"].clone()).expect("numbers");
    assert_eq!(visits.iter().sum::<u64>(), leaves.len() as u64, "each row visits each tree once");
    // The first tree's leaves that XGBoost says rows come to are those that are visited.
    let mut first: Vec<i32> = leaves.iter().step_by(shape[1] as usize).copied().collect();
    first.sort_unstable();
    let mut counts: Vec<u64> = first.chunk_by(|a, b| a == b).map(|same| same.len() as u64).collect();
    counts.sort_unstable();
    let inspected = prints(&["inspect", &model, "--profile", &profile, "--json"]);
    let inspected: Value = serde_json::from_str(&inspected).expect("JSON");
    assert_eq!(inspected["profile"]["rows"].as_u64(), Some(shape[0]));
    assert_eq!(inspected["profile"]["leaf_biased"], counted["leaf_biased"]);
    // Slots count through the trees.
    let mut counted = 0;
    let of_first = visits.iter().take_while(|n| {
        counted += **n;
        counted <= shape[0]
    });
    let mut own: Vec<u64> = of_first.copied().filter(|n| *n > 0).collect();
    own.sort_unstable();
    assert_eq!(own, counts, "the first tree's leaves have the first slots");

    let tiles =
        scratch.file("tiles.txt", "tileNodes(8, probability)\nsort(likely_leaf)\npeelWalk(tree, 90%)\n");
    let predict = ["predict", &model, "--rows", &rows, "--output", "leaf"];
    let plain = prints(&predict);
    let by = |more: &[&str]| prints(&[&predict[..], &["--schedule", &tiles], more].concat());
    assert_eq!(by(&["--profile", &profile]), plain);
    refuses(
        &[&predict[..], &["--schedule", &tiles]].concat(),
        &["tiles.txt", "directive 1", "fangorn profile", "--profile"],
    );
    let lowered = ["lower", &model, "--schedule", &tiles, "--profile", &profile, "--emit", "kernel"];
    assert!(prints(&lowered).contains("shapes"), "tiles are in the program's text");
    // A model's file keeps it.
    prints(&["convert", &model, "--profile", &profile, "-o", &converted]);
    let own = ["predict", &converted, "--rows", &rows, "--output", "leaf", "--schedule", &tiles];
    assert_eq!(prints(&own), plain);

    let other = zoo("softprob", "rows.npy");
    refuses(&["profile", &model, "--rows", &other, "-o", &profile], &["rows.npy", "columns"]);
    let none = scratch.file("none.csv", "");
    refuses(&["profile", &model, "--rows", &none, "-o", &profile], &["none.csv", "at least one"]);
    let foreign = ["predict", &softprob, "--rows", &other, "--profile", &profile];
    refuses(&foreign, &["churn.json", "counted on a forest", "fingerprint"]);
    let broken = scratch.file("broken.json", "{\"fangorn_profile\":1}");
    refuses(&[&predict[..], &["--profile", &broken]].concat(), &["broken.json", "no profile"]);
    let mut wrong = written.clone();
    wrong["visits"][0] = (visits[0] + 1).into();
    let wrong = scratch.file("wrong.json", wrong.to_string());
    refuses(&[&predict[..], &["--profile", &wrong]].concat(), &["wrong.json", "tree 0", "times"]);
    let on_gpu =
        ["lower", &model, "--schedule", &tiles, "--profile", &profile, "--backend", "wgpu", "--emit", "plan"];
    refuses(&on_gpu, &["tiles.txt"]);
}

#[test]
fn schedules_come_from_presets_and_files() {
    let scratch = Scratch::new("schedules");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let expected = read_npy::<f32>(&zoo("churn", "margin.npy")).1;
    let file = scratch.file("own.txt", "# rows in tiles\ntile(batch, b0, b1, 16)\nreorder(b0, tree, b1)\n");
    for schedule in PRESETS.into_iter().chain([&file[..]]) {
        let printed =
            prints(&["predict", &model, "--rows", &rows, "--output", "margin", "--schedule", schedule]);
        for (found, expected) in csv::<f32>(&printed).concat().into_iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{schedule}");
        }
    }
    let wrong = scratch.file("wrong.txt", "tile(batch, b0, b1, 16)\n\nflie(b0)\n");
    refuses(&["predict", &model, "--rows", &rows, "--schedule", &wrong], &["wrong.txt", "line 3", "flie"]);
    let unknown = scratch.file("unknown.txt", "tile(batch, b0, b1, 16)\nparallel(b7)\n");
    refuses(
        &["predict", &model, "--rows", &rows, "--schedule", &unknown],
        &["unknown.txt", "directive 2", "b7"],
    );
    let unmapped = ["lower", &model, "--backend", "cuda", "--schedule", &file, "--emit", "plan"];
    refuses(&unmapped, &["own.txt", "gpuDimension"]);
}

#[test]
fn lower_prints_every_stage() {
    let model = model("churn");
    let lower = |schedule: &str, backend: &str, stage: &str| {
        let lower = ["lower", &model, "--schedule", schedule, "--backend", backend, "--emit", stage];
        let gpu = ["wgpu", "vulkan", "metal"].contains(&backend);
        let portable: &[&str] = if gpu { &["--portable"] } else { &[] };
        prints(&[&lower[..], portable].concat())
    };
    assert!(lower("default", "cpu", "forest").starts_with("forest features=12 outputs=1 trees=100"));
    let schedule = lower("xgboost", "cpu", "schedule");
    assert_eq!(schedule, "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\nlayout(sparse)\n");
    // What is printed reads back as what it was.
    let scratch = Scratch::new("lower");
    let file = scratch.file("schedule.txt", &schedule);
    assert_eq!(lower(&file, "cpu", "schedule"), schedule);
    assert_eq!(lower(&file, "cpu", "plan"), lower("xgboost", "cpu", "plan"));
    for backend in ["cpu", "flex", "ndarray", "wgpu", "vulkan", "metal", "cuda", "rocm"] {
        let gpu = !["cpu", "flex", "ndarray"].contains(&backend);
        let loops = lower("default", backend, "loops");
        assert_eq!(loops.lines().filter(|line| *line == "# legalised").count(), 1, "{loops}");
        assert_eq!(loops.contains("grid.x"), gpu, "{loops}");
        let plan = lower("tahoe_direct", backend, "plan");
        assert!(plan.starts_with(if gpu { "plan cube" } else { "plan cpu" }), "{plan}");
    }
    assert!(lower("default", "cpu", "kernel").starts_with("program "));
    let batch = |rows: &str, schedule: &str| {
        prints(&["lower", &model, "--schedule", schedule, "--emit", "plan", "--batch", rows])
    };
    let small = batch("3", &scratch.file("walk.txt", format!("{schedule}fewRows(walk)\n")));
    let expected =
        "# batch of 3: plan of all batches\n# engine walks: 300 of 300 visits of a row to a tree\nplan cpu";
    assert!(small.starts_with(expected), "{small}");
    let rows = batch("3", "xgboost");
    assert!(rows.contains("# engine walks by row: 300 of 300"), "{rows}");
    refuses(&["lower", &model, "--emit", "loops", "--batch", "3"], &["--emit plan"]);
    refuses(&["lower", &model, "--emit", "plan", "--batch", "0"], &["give 1 to 1048576 rows"]);
    refuses(
        &["lower", &model, "--backend", "wgpu", "--portable", "--emit", "plan", "--batch", "0"],
        &["give 1 to 1048576 rows"],
    );
    // The default schedule on a GPU is chosen by the size of the batch.
    let on_gpu = |batch: &[&str]| {
        let all =
            [&["lower", &model, "--backend", "wgpu", "--portable", "--emit", "schedule"], batch].concat();
        prints(&all)
    };
    assert_eq!(on_gpu(&["--batch", "4096"]), on_gpu(&[]));
    let rows_of_a_cube = |batch: &str| -> u32 {
        let schedule = on_gpu(&["--batch", batch]);
        let tile =
            schedule.lines().find_map(|line| line.strip_prefix("tile(batch, b0, b1, ")?.strip_suffix(')'));
        tile.and_then(|rows| rows.parse().ok()).unwrap_or_else(|| panic!("{schedule}"))
    };
    let [few, many] = ["1", "1000000"].map(rows_of_a_cube);
    assert!(few < many, "{few} rows a cube for one row, {many} for a million");
    // The same whichever GPU is there.
    let portable =
        |backend: &str| prints(&["lower", &model, "--backend", backend, "--portable", "--emit", "plan"]);
    assert_eq!(portable("wgpu"), portable("metal"));
    refuses(&["lower", &model, "--portable", "--emit", "plan"], &["--portable goes with a GPU's backend"]);
    refuses(&["lower", &model, "--backend", "wgpu", "--portable", "--emit", "kernel"], &["for one device"]);
    // The GPU that is there, or a line that says that there is none.
    let there = fangorn(&["lower", &model, "--backend", "wgpu", "--emit", "plan"]);
    assert!(text(&there.stdout).starts_with("plan cube"), "{}", text(&there.stderr));
    let said = text(&there.stderr);
    assert!(said.is_empty() || said.contains("lowered for a portable GPU"), "{said}");
    assert!(cfg!(feature = "wgpu") || said.contains("--features wgpu"), "{said}");
    if cfg!(feature = "cubecl-cpu") {
        // What it is on this processor: nothing shared, and cubes of as many units as there are cores.
        let on_cores = |schedule: &str, stage: &str| lower(schedule, "cubecl-cpu", stage);
        assert_eq!(on_cores("default", "schedule"), lower("tahoe_direct", "wgpu", "schedule"));
        let cores = std::thread::available_parallelism().expect("a number").get();
        let noted =
            on_cores("xgboost", "plan").contains("# gpuDimension(b1, block.x): 64 units, a cube has room");
        assert_eq!(noted, cores < 64);
    }
    for stage in ["loops", "plan", "kernel"] {
        refuses(
            &["lower", &model, "--backend", "reference", "--emit", stage],
            &["reference", "--backend cpu"],
        );
    }
}

#[test]
fn bench_reports_the_times_of_every_batch() {
    let (model, rows) = (model("category-one-hot"), zoo("category-one-hot", "rows.npy"));
    for (backend, threads) in [("cpu", "1"), ("cpu", "2"), ("reference", "1")] {
        let arguments = ["bench", &model, "--rows", &rows, "--batch", "1,64,300", "--seconds", "0.05"];
        let chosen = ["--backend", backend, "--threads", threads];
        let printed = prints(&[&arguments[..], &chosen, &["--json"]].concat());
        let report: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(report["model"], model);
        assert_eq!(report["backend"], backend);
        assert_eq!(report["threads"].to_string(), threads);
        assert!(report["load_ms"].as_f64() > Some(0.0) && report["compile_ms"].as_f64() > Some(0.0));
        let results = report["results"].as_array().expect("a list");
        assert_eq!(results.iter().filter_map(|r| r["batch"].as_u64()).collect::<Vec<_>>(), [1, 64, 300]);
        for result in results {
            for clock in ["cpu", "wall"] {
                let [min, median] = ["min", "median"]
                    .map(|which| result[format!("{clock}_us_per_row_{which}")].as_f64().expect("a time"));
                assert!(min <= median && min >= 0.0 && median.is_finite(), "{result}");
            }
            assert!(result["wall_us_per_row_min"].as_f64() > Some(0.0));
            let schedule = result["schedule"].as_str().expect("a schedule");
            assert!(schedule.contains("tile(batch, b0, b1, "), "{schedule}");
        }
        let table = prints(&[&arguments[..], &chosen].concat());
        assert!(table.lines().count() >= 8 && table.contains("median"), "{table}");
    }
    for wrong in [["--batch", "0"], ["--batch", "many"], ["--threads", "0"]] {
        assert_eq!(
            fangorn(&[&["bench", &model, "--rows", &rows][..], &wrong].concat()).status.code(),
            Some(2)
        );
    }
    for seconds in ["0", "NaN", "inf"] {
        refuses(&["bench", &model, "--rows", &rows, "--seconds", seconds], &["--seconds"]);
    }
}
