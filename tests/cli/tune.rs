//! `fangorn tune`, and the plan files that it writes.

use serde_json::Value;

use std::{
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use crate::{Scratch, assert_refused, command, model, prints, refuses, text, zoo};

#[test]
fn a_plan_is_written_and_taken_wherever_a_schedule_is() {
    let scratch = Scratch::new("tune");
    let (model, other, rows) = (model("churn"), model("softprob"), zoo("churn", "rows.npy"));
    let plan = scratch.path("plan.toml");
    let tune =
        ["tune", &model, "--rows", &rows, "--batch", "64,1", "--budget", "200ms", "-o", &plan, "--json"];
    let report: Value = serde_json::from_str(&prints(&tune)).expect("JSON");
    assert_eq!((report["model"].as_str(), report["plan"].as_str()), (Some(&*model), Some(&*plan)));
    let results = report["results"].as_array().expect("results");
    assert_eq!(results.iter().map(|r| r["batch"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(64)]);
    for result in results {
        for which in ["auto", "tuned"] {
            assert!(result[which]["us_per_row"].as_f64().expect("a time") > 0.0, "{result}");
            assert!(result[which]["schedule"].as_str().expect("a schedule").contains("layout("), "{result}");
        }
        assert!(result["tried"].as_u64() > Some(0) && result["best"].is_null(), "{result}");
        assert_eq!(result["missed"].as_u64(), result["misses"].as_array().map(|m| m.len() as u64));
    }
    // The plan file changes no result.
    let predict = |schedule: &str| {
        prints(&["predict", &model, "--rows", &rows, "--sum", "exact", "--schedule", schedule])
    };
    assert_eq!(predict(&plan), predict("default"));
    // `bench` says which bucket's schedule it times.
    let bench = [
        "bench",
        &model,
        "--rows",
        &rows,
        "--schedule",
        &plan,
        "--seconds",
        "0.02",
        "--batch",
        "1,64",
        "--json",
    ];
    let bench: Value = serde_json::from_str(&prints(&bench)).expect("JSON");
    for (timed, tuned) in bench["results"].as_array().expect("results").iter().zip(results) {
        assert_eq!(timed["schedule"], tuned["tuned"]["schedule"]);
    }
    assert!(
        prints(&["lower", &model, "--schedule", &plan, "--emit", "plan", "--batch", "64"])
            .contains("batch of 64")
    );
    refuses(&["predict", &other, "--rows", &rows, "--schedule", &plan], &["plan.toml", "fangorn tune"]);
    refuses(
        &["lower", &model, "--schedule", &plan, "--backend", "wgpu", "--portable", "--emit", "plan"],
        &["plan.toml", "no loop is mapped to the GPU"],
    );
    // Where one schedule serves all batches, a plan file with two is refused, and one with a single batch is not.
    refuses(&["lower", &model, "--schedule", &plan, "--emit", "schedule"], &["2 schedules", "--batch"]);
    let converted = scratch.path("churn.fangorn");
    refuses(&["convert", &model, "-o", &converted, "--schedule", &plan], &["2 schedules"]);
    #[cfg(feature = "ndarray")]
    assert_eq!(
        prints(&[
            "predict",
            &model,
            "--rows",
            &rows,
            "--sum",
            "exact",
            "--backend",
            "ndarray",
            "--schedule",
            &plan
        ]),
        predict("default")
    );
    let single = scratch.path("single.toml");
    prints(&["tune", &model, "--rows", &rows, "--batch", "64", "--budget", "50ms", "-o", &single]);
    assert!(prints(&["lower", &model, "--schedule", &single, "--emit", "schedule"]).contains("layout("));
    let wrong = text(&std::fs::read(&plan).expect("a plan")).replacen("rows = 64", "rows = none", 1);
    let wrong = scratch.file("wrong.toml", wrong);
    refuses(
        &["predict", &model, "--rows", &rows, "--schedule", &wrong],
        &["wrong.toml", "line ", "fangorn tune"],
    );
}

#[test]
fn candidates_are_plotted_and_recorded() {
    let scratch = Scratch::new("records");
    let (model, plot, records) = (model("churn"), scratch.path("times.svg"), scratch.path("times.jsonl"));
    let cache = scratch.path("cache");
    let tune =
        ["tune", &model, "--batch", "1,64", "--budget", "100ms", "--plot", &plot, "--records", &records];
    let report: Value =
        serde_json::from_str(&printed(with_cache(&cache, &[&tune[..], &["--json"]].concat()))).expect("JSON");
    let tried = |batch: usize| report["results"][batch]["tried"].as_u64().expect("a count");
    let read = |path: &str| std::fs::read_to_string(path).expect("a file");
    let svg = read(&plot);
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for phrase in ["model.ubj, cpu, 1 thread(s), batches of 1", "batches of 64", "default: ", "tuned: "] {
        assert!(svg.contains(phrase), "`{phrase}` is not in {svg}");
    }
    assert!(svg.matches("<circle").count() as u64 >= tried(0) + tried(1), "a circle for each candidate");
    let lines = read(&records);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // The default schedule comes first, for each batch size.
    assert_eq!(lines.len() as u64, tried(0) + tried(1) + 2);
    for line in &lines {
        assert!(line["seconds"].as_f64() > Some(0.0) && line["facts"]["trees"] == 100, "{line}");
        let terms = line["terms"].as_object().expect("terms");
        assert_eq!(terms.is_empty(), line["way"].is_null(), "{line}");
    }
    let blends = lines.iter().filter(|line| line["way"] == "blends" && line["rows"] == 64).count();
    assert!(blends > 0, "a batch of 64 is blended");
    // Another run adds its lines.
    printed(with_cache(&cache, &tune));
    assert_eq!(read(&records).lines().count(), 2 * lines.len());
    refuses(&["tune", &model, "--plot", "/no/such/folder/plot.svg"], &["plot.svg", "folder"]);
    refuses(
        &["tune", &model, "--budget", "1ms", "--records", "/no/such/folder/times.jsonl"],
        &["times.jsonl"],
    );
}

#[test]
fn rows_are_drawn_where_none_are_given() {
    let tuned = prints(&["tune", &model("churn"), "--batch", "32", "--budget", "100ms", "--threads", "2"]);
    for phrase in ["auto", "tuned", "tried", "missed", "batch 32", "2 thread(s)"] {
        assert!(tuned.contains(phrase), "`{phrase}` is not in {tuned}");
    }
}

#[test]
fn what_can_not_be_tuned_is_refused() {
    let model = model("churn");
    refuses(&["tune", &model, "--backend", "reference"], &["--backend reference", "tuned for the CPU"]);
    refuses(&["tune", &model, "--budget", "ten"], &["--budget", "10s"]);
    refuses(&["tune", &model, "-o", "plan.txt"], &["plan.txt", ".toml"]);
    refuses(&["tune", &model, "-o", "/no/such/folder/plan.toml"], &["plan.toml", "folder"]);
    refuses(&["tune", &model, "--batch", "0"], &["--batch"]);
}

/// A command with a cache of its own.
fn with_cache(cache: &str, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("FANGORN_CACHE", cache);
    command
}

fn printed(mut command: Command) -> String {
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn what_was_tuned_is_kept_taken_listed_exported_and_cleared() {
    let scratch = Scratch::new("kept");
    let (model, other, rows) = (model("churn"), model("softprob"), zoo("churn", "rows.npy"));
    let (cache, plan) = (scratch.path("cache"), scratch.path("plan.toml"));
    let run = |arguments: &[&str]| printed(with_cache(&cache, arguments));
    let tune = ["tune", &model, "--rows", &rows, "--batch", "1,64", "--budget", "200ms", "--json"];
    let first = run(&tune);
    // Measured times differ from run to run, so equal times come from the cache.
    assert_eq!(run(&tune), first);
    assert_ne!(run(&[&tune[..], &["--fresh"]].concat()), first);
    let kept = run(&tune);
    assert_ne!(kept, first, "--fresh replaces what is kept");
    // Other rows, other threads and other sums are timed anew.
    let drawn = ["tune", &model, "--batch", "64", "--budget", "50ms", "--json"];
    assert_ne!(run(&drawn), kept);
    run(&[&drawn[..], &["--sum", "exact"]].concat());
    let listed: Value = serde_json::from_str(&run(&["cache", "list", "--json"])).expect("JSON");
    let sums: Vec<_> = listed.as_array().expect("plans").iter().map(|plan| plan["sum"].as_str()).collect();
    assert_eq!(sums, [Some("any"), Some("exact")]);
    assert_eq!(listed[0]["batches"].as_array().map(Vec::len), Some(2));
    assert!(run(&["cache", "list"]).starts_with("2 plan file(s) in "));
    let predict =
        |schedule: &str| run(&["predict", &model, "--rows", &rows, "--sum", "exact", "--schedule", schedule]);
    assert_eq!(predict("tuned"), predict("default"));
    run(&["cache", "export", &model, "-o", &plan]);
    assert_eq!(predict(&plan), predict("default"));
    // The contract selects the kept plan file: only the one for `any` has a bucket of one row.
    let exported = |sum: &str| {
        run(&["cache", "export", &model, "-o", &plan, "--sum", sum]);
        std::fs::read_to_string(&plan).expect("a plan file").matches("[[batch]]").count()
    };
    assert_eq!([exported("any"), exported("exact")], [2, 1]);
    let refused = |arguments: &[&str], phrases: &[&str]| {
        assert_refused(&with_cache(&cache, arguments).output().expect("the program runs"), phrases);
    };
    refused(&["predict", &other, "--rows", &rows, "--schedule", "tuned"], &["tuned", "fangorn tune"]);
    refused(&["cache", "export", &other, "-o", &plan], &[&other, "fangorn tune"]);
    assert!(run(&["cache", "clear"]).starts_with("removed 2 file(s)"));
    refused(&["predict", &model, "--rows", &rows, "--schedule", "tuned"], &["tuned", "fangorn tune"]);
    assert!(run(&["cache", "list"]).starts_with("0 plan file(s) in "));
}

/// Costs that are kept for this machine choose its schedules until they are forgotten. Others are not read.
#[test]
fn kept_costs_are_those_of_this_machine() {
    let scratch = Scratch::new("costs");
    let (cache, model, rows) = (scratch.path("cache"), model("churn"), zoo("churn", "rows.npy"));
    let run = |arguments: &[&str]| printed(with_cache(&cache, arguments));
    let shown = || serde_json::from_str::<Value>(&run(&["costs", "show", "--json"])).expect("JSON");
    let explained = || run(&["explain", &model]);
    let shipped = shown();
    assert_eq!(shipped["measured"], false);
    assert!(run(&["costs", "show"]).contains("`fangorn costs measure` measures them on this machine"));
    assert!(run(&["costs", "forget"]).starts_with("no costs"));
    let predicted = run(&["predict", &model, "--rows", &rows, "--sum", "exact"]);
    let schedule = explained();
    // Blends take a microsecond a split, so the model is walked.
    let text = |version: &str, split: &str| {
        let instructions = match shipped["instructions"].as_str().expect("a name") {
            "AVX-512" => "avx512",
            "AVX2" => "avx2",
            _ if cfg!(target_arch = "aarch64") => "neon",
            _ => "portable",
        };
        let mut text = format!(
            "format = 1\nfangorn = \"{version}\"\ninstructions = \"{instructions}\"\nprocessor = {}\n[ways]\n",
            shipped["processor"]
        );
        for cost in shipped["costs"].as_array().expect("costs") {
            let seconds = if cost[0] == "split" { split.to_owned() } else { cost[1].to_string() };
            text += &format!("{} = {seconds}\n", cost[0].as_str().expect("a name"));
        }
        text
    };
    let file = shipped["file"].as_str().expect("a file");
    std::fs::create_dir_all(&cache).expect("a folder");
    let write = |text: &str| std::fs::write(file, text).expect("a file");
    let version = env!("CARGO_PKG_VERSION");
    for text in
        ["", &text("0.0.0", "1e-6"), &text(version, "nan"), &text(version, "1.0"), &text(version, "-1e-9")]
    {
        write(text);
        assert_eq!(shown()["costs"], shipped["costs"], "{text}");
        assert!(run(&["costs", "show"]).contains("their file is damaged"), "{text}");
        assert_eq!(explained(), schedule);
    }
    write(&text(version, "1e-6"));
    assert_eq!(shown()["measured"], true);
    assert!(explained().contains(", measured on this machine") && !explained().contains("schedule  ranks"));
    assert!(schedule.contains("schedule  ranks"), "{schedule}");
    assert_eq!(run(&["predict", &model, "--rows", &rows, "--sum", "exact"]), predicted);
    assert!(run(&["costs", "forget"]).starts_with("removed"));
    assert_eq!(explained(), schedule);
    write(&text(version, "1e-6"));
    assert!(run(&["cache", "clear"]).starts_with("removed 1 file(s)"));
    assert_eq!(shown(), shipped);
}

/// A process that is killed leaves kept plan files whole, and does not block a later process.
#[test]
fn processes_that_tune_at_once_and_are_killed_leave_whole_plans() {
    let scratch = Scratch::new("killed");
    let (cache, model) = (scratch.path("cache"), model("churn"));
    let tune = |batch: usize| {
        let batch = batch.to_string();
        let arguments = ["tune", &model, "--batch", &batch, "--budget", "10ms", "--fresh"];
        with_cache(&cache, &arguments).stdout(Stdio::null()).spawn().expect("the program runs")
    };
    for mut process in (1..5).map(tune).collect::<Vec<_>>() {
        assert!(process.wait().expect("it ends").success());
    }
    for moment in 0..20 {
        let mut process = tune(5 + moment);
        sleep(Duration::from_millis(2 * moment as u64));
        process.kill().expect("killed");
        process.wait().expect("it ends");
    }
    let listed: Value =
        serde_json::from_str(&printed(with_cache(&cache, &["cache", "list", "--json"]))).expect("JSON");
    let batches: Vec<u64> = listed[0]["batches"]
        .as_array()
        .expect("batches")
        .iter()
        .filter_map(|b| b["batch"].as_u64())
        .collect();
    assert_eq!(batches[..4], [1, 2, 3, 4], "four at once lose nothing: {batches:?}");
    assert!(tune(99).wait().expect("it ends").success());
}

#[test]
fn explain_names_the_schedule_its_terms_and_the_runner_up() {
    let model = model("churn");
    let schedule = prints(&["lower", &model, "--emit", "schedule"]).trim().replace('\n', "; ");
    for batch in ["1", "64", "100000"] {
        let text = prints(&["explain", &model, "--batch", batch]);
        let runs = format!("a batch of {batch}: plan of ");
        for phrase in [&*schedule, &runs, "walks with leaf tests", "The runner-up, ", "What would change"] {
            assert!(text.contains(phrase), "`{phrase}` is not in {text}");
        }
        let report: Value =
            serde_json::from_str(&prints(&["explain", &model, "--batch", batch, "--json"])).expect("JSON");
        assert_eq!(report["schedule"].as_str(), Some(&*schedule));
        let first = &report["chosen_among"][0];
        assert_eq!(first["schedule"].as_str(), Some(&*schedule));
        let terms = first["terms"].as_array().expect("terms").iter();
        let sum: f64 = terms.filter_map(|term| term["us_per_row"].as_f64()).sum();
        assert!((sum / first["us_per_row"].as_f64().expect("a time") - 1.0).abs() < 1e-9);
    }
    prints(&["explain", &self::model("no-trees")]);
    // Oblivious trees are explained by tables, deep trees by quadratures alone.
    let oblivious = prints(&["explain", &self::model("catboost-logloss")]);
    let line = |text: &str| text.lines().find(|line| line.starts_with("Contributions: ")).map(str::to_owned);
    let of_tables = line(&oblivious).expect("a line");
    assert!(
        of_tables.contains("pattern tables, ") && of_tables.contains(", by quadratures alone "),
        "{of_tables}"
    );
    let of_quadrature = line(&prints(&["explain", &self::model("deep-lossguide")])).expect("a line");
    assert!(
        of_quadrature.contains("quadrature TreeSHAP, ") && !of_quadrature.contains("alone"),
        "{of_quadrature}"
    );
    // A file without covers offers what needs none.
    let none = line(&prints(&["explain", &self::model("onnx-average")])).expect("a line");
    assert!(
        none.contains("none by covers: the model has no covers") && none.contains("--background FILE"),
        "{none}"
    );
    refuses(&["explain", &model, "--backend", "reference"], &["--backend reference", "tahoe_direct"]);
    refuses(&["explain", &model, "--batch", "0"], &["--batch"]);
}

/// The search in a process of its own, on whatever device answers, and what is kept of it.
#[test]
#[cfg(feature = "wgpu")]
fn a_gpu_is_tuned_in_a_process_of_its_own() {
    let scratch = Scratch::new("tune-gpu");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let (cache, plan) = (scratch.path("cache"), scratch.path("plan.toml"));
    let tune = [
        "tune",
        &model,
        "--rows",
        &rows,
        "--backend",
        "wgpu",
        "--batch",
        "64,8192",
        "--budget",
        "1s",
        "-o",
        &plan,
        "--json",
    ];
    let output = with_cache(&cache, &tune).output().expect("the program runs");
    if output.status.code() == Some(2) && std::env::var_os("FANGORN_REQUIRE_GPU").is_none() {
        println!("skipped: no GPU driver answers");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let result = &report["results"][0];
    assert_eq!(report["backend"], "wgpu", "{report}");
    assert!(result["points"].as_u64() > Some(39), "ours, and 39 of SilvanForge's: {report}");
    assert!(result["us_per_row_from_host"].as_f64() > Some(0.0), "{result}");
    assert!(result["tried"].as_u64() > Some(0), "{result}");
    assert!(result["auto"]["schedule"].as_str().expect("a schedule").contains("gpuDimension"), "{result}");
    let run = |arguments: &[&str]| printed(with_cache(&cache, arguments));
    // Measured times differ from run to run, so equal times come from the cache.
    assert_eq!(run(&tune), text(&output.stdout));
    let predict = |backend: &str, schedule: &str| {
        let options = ["--backend", backend, "--schedule", schedule];
        run(&[&["predict", &model, "--rows", &rows, "--output", "margin", "--sum", "exact"], &options[..]]
            .concat())
    };
    let expected = predict("cpu", "default");
    for schedule in ["tuned", &plan] {
        assert_eq!(predict("wgpu", schedule), expected, "{schedule}");
    }
    let written = std::fs::read_to_string(&plan).expect("a plan file");
    run(&["cache", "export", &model, "--backend", "wgpu", "-o", &plan]);
    assert_eq!(std::fs::read_to_string(&plan).expect("a plan file"), written);
    let listed: Value = serde_json::from_str(&run(&["cache", "list", "--json"])).expect("JSON");
    assert!(listed[0]["target"].as_str().expect("a target").starts_with("wgpu "), "{listed}");
    let explained = prints(&["explain", &model, "--backend", "wgpu", "--batch", "64"]);
    let schedule = result["auto"]["schedule"].as_str().expect("a schedule");
    for phrase in
        [schedule, "multiprocessors", "The runner-up, cubes of", " rows and more: cubes of", "compiling"]
    {
        assert!(explained.contains(phrase), "`{phrase}` is not in {explained}");
    }
    the_fastest_backend_is_taken(&cache, &model, &rows, &expected);
}

/// `--backend auto` goes by the times that are kept, which this test writes. A GPU's schedules are kept already.
#[cfg(feature = "wgpu")]
fn the_fastest_backend_is_taken(cache: &str, model: &str, rows: &str, expected: &str) {
    let auto = |phrases: &[&str]| {
        let arguments = ["predict", model, "--rows", rows, "--output", "margin", "--backend", "auto"];
        let output = with_cache(cache, &arguments).output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let notes = text(&output.stderr);
        for phrase in phrases {
            assert!(notes.contains(phrase), "`{phrase}` is not in {notes}");
        }
        text(&output.stdout)
    };
    let numbers =
        |lines: &str| lines.lines().map(|line| line.parse().expect("a number")).collect::<Vec<f32>>();
    let agrees = |lines: &str| {
        let (found, expected) = (numbers(lines), numbers(expected));
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{lines}");
    };
    agrees(&auto(&["the CPU's times for this model are not measured", "fangorn tune MODEL --backend auto"]));
    printed(with_cache(cache, &["tune", model, "--batch", "8192", "--budget", "20ms"]));
    // A software GPU is slower than the CPU whose program it is.
    agrees(&auto(&["--backend auto: the CPU, ", "batches of 8192"]));
    let file = std::fs::read_dir(cache).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file =
        file.into_iter().find(|path| path.to_string_lossy().contains("-wgpu")).expect("the GPU's file");
    let kept = std::fs::read_to_string(&file).expect("text");
    let faster = |line: &str| match line.starts_with("from_host = ") {
        true => "from_host = 1e-15".to_owned(),
        false => line.to_owned(),
    };
    std::fs::write(&file, kept.lines().map(|line| faster(line) + "\n").collect::<String>()).expect("written");
    agrees(&auto(&["--backend auto: wgpu ", "the CPU "]));
    // A card that is no longer there.
    let gone = kept.lines().map(|line| match line.strip_prefix("target = \"wgpu ") {
        Some(name) => format!("target = \"wgpu another {name}"),
        None => faster(line),
    });
    std::fs::write(&file, gone.map(|line| line + "\n").collect::<String>()).expect("written");
    agrees(&auto(&["the CPU, since wgpu another", "does not answer"]));
    assert_refused(
        &with_cache(cache, &["predict", model, "--rows", rows, "--backend", "auto", "--schedule", "xgboost"])
            .output()
            .expect("the program runs"),
        &["--schedule", "--backend auto"],
    );
}

/// What the process that times schedules is asked, and what it answers: on the CPU here.
#[test]
fn schedules_are_timed_one_a_line_and_a_wrong_one_does_not_end_it() {
    use std::io::Write;
    let mut process = command(&["measure", &model("churn"), "--backend", "cpu", "--batch", "8"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let requests = "{\"schedule\": null, \"seconds\": 0.01}\n\
                    {\"schedule\": \"interleave(batch)\", \"seconds\": 0.01}\n\
                    {\"schedule\": \"layout(array)\", \"seconds\": 0.01}\n";
    process.stdin.take().expect("a pipe").write_all(requests.as_bytes()).expect("it reads");
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    let answers: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    // The first line says what it runs on.
    assert!(answers[0]["target"].is_string(), "{}", answers[0]);
    let answers = &answers[1..];
    assert_eq!(answers.len(), 3);
    for (answer, timed) in answers.iter().zip([true, false, true]) {
        assert_eq!(answer["call"].as_f64().is_some_and(|seconds| seconds > 0.0), timed, "{answer}");
        assert_eq!(answer["error"].is_string(), !timed, "{answer}");
    }
    assert!(answers[1]["error"].as_str().expect("why").contains("interleave(batch)"));
}
