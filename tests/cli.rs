//! The command line as a user meets it: what it prints, what it writes, and how it refuses.

#![cfg(feature = "cli")]

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use npyz::WriterBuilder as _;
use serde_json::Value;

fn zoo(model: &str, file: &str) -> String {
    format!("{}/tests/zoo/{model}/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn model(name: &str) -> String {
    let files = std::fs::read_dir(zoo(name, "")).expect("the model's folder").flatten().map(|e| e.path());
    let model = files.filter(|file| file.file_stem().is_some_and(|stem| stem == "model")).min();
    model.expect("a model").display().to_string()
}

/// A folder of one test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("fangorn-cli-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), content).expect("a file");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fangorn"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn fangorn(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program runs")
}

fn with_input(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What a command that succeeds prints.
fn prints(arguments: &[&str]) -> String {
    let output = fangorn(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// A command is refused with status 2, nothing on standard output and one line that holds all of `parts`.
fn assert_refused(output: &Output, parts: &[&str]) {
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{line}");
    assert!(output.stdout.is_empty(), "{line}");
    assert!(line.starts_with("fangorn: ") && line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
    parts.iter().for_each(|part| assert!(line.contains(part), "`{part}` in {line}"));
}

fn refuses(arguments: &[&str], parts: &[&str]) {
    assert_refused(&fangorn(arguments), parts);
}

fn read_npy<T: npyz::Deserialize>(path: &str) -> (Vec<u64>, Vec<T>) {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file = npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    (file.shape().to_vec(), file.into_vec().expect("values of the type"))
}

fn npy<T: npyz::AutoSerialize + Copy>(shape: &[u64], order: npyz::Order, values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = npyz::WriteOptions::new().default_dtype().shape(shape).order(order);
    let mut writer = options.writer(&mut bytes).begin_nd().expect("a header");
    writer.extend(values.iter().copied()).expect("values");
    writer.finish().expect("an end");
    bytes
}

fn csv<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> Vec<Vec<T>> {
    let row = |line: &str| line.split(',').map(|v| v.trim().parse().expect("a value")).collect();
    text.lines().map(row).collect()
}

const MODELS: [&str; 9] = [
    "churn",
    "softprob",
    "softmax",
    "hinge",
    "targets-logistic",
    "vector-leaf-softprob",
    "category-partition",
    "logistic-missing",
    "only-leaves",
];

#[test]
fn predictions_are_the_producers_on_either_backend() {
    for name in MODELS {
        for (output, file) in [("margin", "margin.npy"), ("value", "output.npy"), ("leaf", "leaves.npy")] {
            let output_file = zoo(name, "output.npy");
            let file =
                if output == "value" && !Path::new(&output_file).exists() { "margin.npy" } else { file };
            for backend in ["reference", "cpu"] {
                let found = fangorn(&[
                    "predict",
                    &model(name),
                    "--rows",
                    &zoo(name, "rows.npy"),
                    "--output",
                    output,
                    "--backend",
                    backend,
                    "--expect",
                    &zoo(name, file),
                ]);
                let said = text(&found.stderr);
                assert_eq!(found.status.code(), Some(0), "{name}, {output}, {backend}: {said}");
                assert!(said.contains("largest difference") && said.lines().count() == 1, "{said}");
            }
        }
    }
}

#[test]
fn npy_results_have_the_shapes_and_types_of_the_producers() {
    let scratch = Scratch::new("shapes");
    let out = scratch.path("out.npy");
    for name in MODELS {
        let (rows, _) = read_npy::<f32>(&zoo(name, "rows.npy"));
        let (margins, _) = read_npy::<f32>(&zoo(name, "margin.npy"));
        let (leaves, _) = read_npy::<i32>(&zoo(name, "leaves.npy"));
        let predict = |output: &str| {
            prints(&[
                "predict",
                &model(name),
                "--rows",
                &zoo(name, "rows.npy"),
                "--output",
                output,
                "-o",
                &out,
            ])
        };
        predict("margin");
        assert_eq!(read_npy::<f32>(&out).0, [rows[0], margins[1]], "{name}");
        predict("leaf");
        assert_eq!(read_npy::<i32>(&out).0, [rows[0], leaves[1]], "{name}");
        predict("tree");
        let width = if name.starts_with("vector-leaf") { margins[1] } else { 1 };
        assert_eq!(read_npy::<f32>(&out).0, [rows[0], leaves[1] * width], "{name}");
    }
}

#[test]
fn csv_and_npy_hold_the_same_values() {
    let scratch = Scratch::new("round-trip");
    let (npy, file) = (scratch.path("out.npy"), scratch.path("out.csv"));
    for (name, output) in [("churn", "value"), ("softprob", "margin"), ("churn", "tree"), ("gamma", "value")]
    {
        let (model, rows) = (model(name), zoo(name, "rows.npy"));
        let arguments = ["predict", &model, "--rows", &rows, "--output", output];
        let printed = prints(&arguments);
        assert_eq!(prints(&[&arguments[..], &["-o", &npy]].concat()), "");
        assert_eq!(prints(&[&arguments[..], &["-o", &file]].concat()), "");
        assert_eq!(std::fs::read_to_string(&file).expect("CSV"), printed);
        let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(csv::<f32>(&printed).concat()), bits(read_npy(&npy).1), "{name}, {output}");
    }
    let printed =
        prints(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.npy"), "--output", "leaf"]);
    assert_eq!(csv::<i32>(&printed).concat(), read_npy::<i32>(&zoo("churn", "leaves.npy")).1);
}

#[test]
fn what_trees_add_sums_up_to_the_margin() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let trees = csv::<f64>(&prints(&["predict", &model, "--rows", &rows, "--output", "tree"]));
    let report: Value = serde_json::from_str(&prints(&["inspect", &model, "--json"])).expect("JSON");
    let base = report["base_score"][0].as_f64().expect("a base score");
    for (row, margin) in trees.iter().zip(read_npy::<f32>(&zoo("churn", "margin.npy")).1) {
        assert!((base + row.iter().sum::<f64>() - f64::from(margin)).abs() < 1e-5);
    }
}

#[test]
fn classes_are_those_of_the_probabilities() {
    let classes = |name: &str, backend: &str| {
        let rows = zoo(name, "rows.npy");
        csv::<i32>(&prints(&[
            "predict",
            &model(name),
            "--rows",
            &rows,
            "--output",
            "class",
            "--backend",
            backend,
        ]))
    };
    for backend in ["cpu", "reference"] {
        for name in ["churn", "targets-logistic"] {
            let (shape, values) = read_npy::<f32>(&zoo(name, "output.npy"));
            let expected: Vec<i32> = values.into_iter().map(|v| i32::from(v > 0.5)).collect();
            let found = classes(name, backend);
            assert_eq!(found[0].len() as u64, shape[1], "{name}");
            assert_eq!(found.concat(), expected, "{name}");
        }
        for name in ["softmax", "hinge"] {
            let expected: Vec<i32> =
                read_npy::<f32>(&zoo(name, "output.npy")).1.into_iter().map(|v| v as i32).collect();
            assert_eq!(classes(name, backend).concat(), expected, "{name}");
        }
        let (shape, values) = read_npy::<f32>(&zoo("softprob", "output.npy"));
        let largest =
            |row: &[f32]| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as i32;
        let expected: Vec<i32> = values.chunks(shape[1] as usize).map(largest).collect();
        assert_eq!(classes("softprob", backend).concat(), expected);
    }
    for name in ["squared-error", "gamma", "rank-ndcg"] {
        let (model, rows) = (model(name), zoo(name, "rows.npy"));
        refuses(
            &["predict", &model, "--rows", &rows, "--output", "class"],
            &["regressor", "--output value", "model."],
        );
    }
}

#[test]
fn rows_are_read_in_any_form() {
    let scratch = Scratch::new("rows");
    let (shape, values) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let [rows, columns] = [shape[0] as usize, shape[1] as usize];
    let predict = |rows: &str| prints(&["predict", &model("churn"), "--rows", rows]);
    let expected = predict(&zoo("churn", "rows.npy"));
    assert_eq!(expected.lines().count(), rows);

    assert_eq!(predict(&zoo("churn", "rows.csv")), expected, "a header");
    let wide: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    assert_eq!(predict(&scratch.file("f64.npy", npy(&shape, npyz::Order::C, &wide))), expected);
    let turned: Vec<f32> = (0..columns)
        .flat_map(|c| (0..rows).map(move |r| [r, c]))
        .map(|[r, c]| values[r * columns + c])
        .collect();
    assert_eq!(predict(&scratch.file("fortran.npy", npy(&shape, npyz::Order::Fortran, &turned))), expected);

    for missing in ["", "nan", "NaN", "NA", "?", " "] {
        let cell = |v: &f32| if v.is_nan() { missing.to_owned() } else { format!("{v:?}") };
        let line = |row: &[f32]| row.iter().map(cell).collect::<Vec<_>>().join(",");
        let lines: Vec<String> = values.chunks(columns).map(line).collect();
        let plain = scratch.file("plain.csv", lines.join("\n"));
        assert_eq!(predict(&plain), expected, "`{missing}` for a missing value, no header, no last line end");
        let spaced = scratch.file("spaced.csv", lines.join("\r\n\r\n") + "\r\n");
        assert_eq!(predict(&spaced), expected, "`{missing}`, other line ends and empty lines");
    }

    let one = scratch.file("one.npy", npy(&[shape[1]], npyz::Order::C, &values[..columns]));
    // One row's leaves may be added up in another order than many's.
    let value = |text: &str| text.lines().next().and_then(|line| line.parse::<f32>().ok()).expect("a value");
    assert!((value(&predict(&one)) - value(&expected)).abs() < 1e-6);
    let ints: Vec<i64> = vec![1; columns];
    let counted = scratch.file("ints.npy", npy(&[1, shape[1]], npyz::Order::C, &ints));
    let written = scratch.file("ints.csv", vec!["1"; columns].join(","));
    assert_eq!(predict(&counted), predict(&written));
}

#[test]
fn rows_come_from_standard_input() {
    let bytes = std::fs::read(zoo("churn", "rows.csv")).expect("rows");
    let output = with_input(&["predict", &model("churn"), "--rows", "-"], &bytes);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        prints(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.csv")])
    );
    let output = with_input(&["predict", &model("churn"), "--rows", "-"], b"1,2\n");
    assert_refused(&output, &["standard input", "line 1", " 2 ", " 12"]);
}

#[test]
fn no_row_predicts_to_nothing() {
    let scratch = Scratch::new("empty");
    let model = model("churn");
    let empty: [f32; 0] = [];
    let header: String =
        std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows").lines().take(1).collect();
    let files = [
        scratch.file("a.csv", ""),
        scratch.file("b.csv", header + "\n"),
        scratch.file("a.npy", npy(&[0, 12], npyz::Order::C, &empty)),
        scratch.file("b.npy", npy(&[0], npyz::Order::C, &empty)),
    ];
    for rows in &files {
        for backend in ["cpu", "reference"] {
            for output in ["margin", "value", "class", "leaf", "tree"] {
                let arguments = ["predict", &model, "--rows", rows, "--output", output, "--backend", backend];
                assert_eq!(prints(&arguments), "", "{rows}");
                let out = scratch.path("out.npy");
                prints(&[&arguments[..], &["-o", &out]].concat());
                let width = if matches!(output, "leaf" | "tree") { 100 } else { 1 };
                let shape = npyz::NpyFile::new(&std::fs::read(&out).expect("a file")[..])
                    .expect("npy")
                    .shape()
                    .to_vec();
                assert_eq!(shape, [0, width]);
            }
        }
    }
    refuses(&["bench", &model, "--rows", &files[0]], &["a.csv", "no row"]);
}

/// A mistyped one would test what was not meant.
#[test]
fn variables_that_pick_kernels_are_known_or_refused() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let arguments = ["predict", &model, "--rows", &rows];
    for (variable, value, names) in
        [(fangorn::cpu::ISA, "sse9", "portable"), (fangorn::cpu::GATHERS, "Fast", "slow, fast")]
    {
        let output = command(&arguments).env(variable, value).output().expect("the program runs");
        assert_refused(&output, &["environment", variable, value, names]);
        let output = command(&arguments).env(variable, "").output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{variable}: {}", text(&output.stderr));
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let scratch = Scratch::new("misfits");
    let model = model("churn");
    let refuses = |rows: &str, parts: &[&str]| refuses(&["predict", &model, "--rows", rows], parts);
    refuses(&zoo("softmax", "rows.npy"), &["softmax/rows.npy", " 8 ", " 12"]);
    let line = "1,2,3,4,5,6,7,8,9,10,11,12\n";
    refuses(
        &scratch.file("short.csv", format!("{line}\n{line}1,2\n")),
        &["short.csv", "line 4", " 2 ", " 12"],
    );
    refuses(&scratch.file("long.csv", format!("{line}13,{line}")), &["long.csv", "line 2", " 13 ", " 12"]);
    let word = format!("{line}\n\n{}", line.replace("5", "five"));
    refuses(&scratch.file("word.csv", word), &["word.csv", "line 4", "column 5", "five"]);
    refuses(&scratch.path("absent.csv"), &["absent.csv"]);
    refuses(&scratch.file("rows.txt", line), &["rows.txt", ".npy", ".csv"]);
    let floats = [1.0f32; 24];
    refuses(&scratch.file("flat.npy", npy(&[24], npyz::Order::C, &floats)), &["flat.npy", "24", "12"]);
    refuses(
        &scratch.file("cube.npy", npy(&[1, 2, 12], npyz::Order::C, &floats)),
        &["cube.npy", "3 dimensions"],
    );
    let whole = npy(&[2, 12], npyz::Order::C, &floats);
    refuses(&scratch.file("cut.npy", &whole[..whole.len() - 1]), &["cut.npy", "95 bytes"]);
    refuses(&scratch.file("header.npy", &whole[..20]), &["header.npy"]);
    refuses(&scratch.file("csv.npy", line), &["csv.npy", "no npy file"]);
    refuses(&scratch.file("none.npy", ""), &["none.npy"]);
    let announced = |shape: &str, dtype: &str| {
        let header = format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.into_bytes());
        bytes
    };
    refuses(&scratch.file("a.npy", announced("(4294967296, 4294967296)", "'<f4'")), &["a.npy"]);
    refuses(&scratch.file("b.npy", announced("(9223372036854775807, 12)", "'<f4'")), &["b.npy"]);
    refuses(&scratch.file("c.npy", announced("(99999999999, 12)", "'<f4'")), &["c.npy"]);
    refuses(&scratch.file("d.npy", announced("(1, 12)", "'|O'")), &["d.npy"]);
    refuses(&scratch.file("e.npy", announced("(0, 12)", "'<U4'")), &["e.npy", "U4"]);
    refuses(&scratch.file("f.npy", announced("(0, 12)", &"(".repeat(60_000))), &["f.npy"]);
    refuses(&scratch.file("g.npy", announced("()", "'<f4'")), &["g.npy"]);
}

#[test]
fn damaged_npy_files_never_panic() {
    let scratch = Scratch::new("damage");
    let whole = std::fs::read(zoo("churn", "rows.npy")).expect("rows");
    let mut state = 7u64;
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes[(state >> 33) as usize % 128] = (state >> 25) as u8;
        }
        let rows = scratch.file("rows.npy", &bytes);
        let output = fangorn(&["predict", &model("churn"), "--rows", &rows]);
        let line = text(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            _ => assert_refused(&output, &["rows.npy"]),
        }
        assert!(!line.contains("internal"), "round {round}: {line}");
    }
}

#[test]
fn names_that_are_not_known_are_refused() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let predict = ["predict", &model, "--rows", &rows];
    let all =
        ["reference", "cpu", "flex", "ndarray", "wgpu", "vulkan", "metal", "cuda", "rocm", "cubecl-cpu"];
    refuses(&[&predict[..], &["--backend", "abacus"]].concat(), &[&["abacus"], &all[..]].concat());
    let presets = [
        "default",
        "xgboost",
        "treebeard_one_tree",
        "treebeard_one_row",
        "tahoe_direct",
        "tahoe_shared_data",
    ];
    refuses(&[&predict[..], &["--schedule", "quick"]].concat(), &[&["quick"], &presets[..]].concat());
    refuses(&[&predict[..], &["-o", "values.txt"]].concat(), &["values.txt", ".npy", ".csv"]);
    for arguments in [&["--output", "colour"][..], &["--frobnicate"]] {
        let output = fangorn(&[&predict[..], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
    }
    assert_eq!(fangorn(&[]).status.code(), Some(2));
    assert_eq!(fangorn(&["predict"]).status.code(), Some(2));
}

#[test]
fn backends_that_are_not_built_in_are_refused() {
    let built_in = [
        ("flex", cfg!(feature = "flex")),
        ("ndarray", cfg!(feature = "ndarray")),
        ("wgpu", cfg!(feature = "wgpu")),
        ("vulkan", cfg!(feature = "vulkan")),
        ("metal", cfg!(feature = "metal")),
        ("cuda", cfg!(feature = "cuda")),
        ("rocm", cfg!(feature = "rocm")),
        ("cubecl-cpu", cfg!(feature = "cubecl-cpu")),
    ];
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    for (name, _) in built_in.into_iter().filter(|(_, built_in)| !built_in) {
        let line = format!("the backend {name} is not built in; build with --features {name}");
        refuses(&["predict", &model, "--rows", &rows, "--backend", name], &[&line]);
        refuses(&["bench", &model, "--rows", &rows, "--backend", name], &[&line]);
        refuses(&["lower", &model, "--backend", name, "--emit", "kernel"], &[&line]);
    }
}

#[test]
fn sums_keep_the_contract_that_is_asked_for() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    let predict = ["predict", &model, "--rows", &rows, "--output", "margin"];
    let with =
        |sum: &str, schedule: &str| prints(&[&predict[..], &["--sum", sum, "--schedule", schedule]].concat());
    let presets = ["default", "treebeard_one_row", "tahoe_shared_data", "hummingbird"];
    for sum in ["tree", "exact"] {
        for preset in presets {
            assert_eq!(with(sum, preset), with(sum, "xgboost"), "{sum} with {preset}");
        }
    }
    // Each contract rounds in places of its own.
    let [any, tree, exact] = ["any", "tree", "exact"].map(|sum| with(sum, "hummingbird"));
    assert!(any != tree && tree != exact && any != exact);
    assert_eq!(prints(&predict), with("any", "default"));
    for command in ["predict", "bench"] {
        let arguments = [command, &model, "--rows", &rows, "--sum"];
        let reference = [&arguments[..], &["exact", "--backend", "reference"]].concat();
        refuses(&reference, &["--sum exact", "reference", "--backend cpu"]);
        assert_eq!(fangorn(&[&arguments[..], &["most"]].concat()).status.code(), Some(2));
    }
    let bench = ["bench", &model, "--rows", &rows, "--batch", "64", "--seconds", "0.05", "--sum", "tree"];
    assert!(prints(&bench).contains("sum tree"));
    let report: Value = serde_json::from_str(&prints(&[&bench[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(report["sum"], "tree");
}

#[test]
#[cfg(feature = "flex")]
fn sums_of_flex_are_those_of_the_cpu() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    for (output, sum) in [("margin", "tree"), ("margin", "exact"), ("value", "tree"), ("value", "exact")] {
        let predict = ["predict", &model, "--rows", &rows, "--output", output, "--sum", sum];
        let with = |backend, schedule| {
            prints(&[&predict[..], &["--backend", backend, "--schedule", schedule]].concat())
        };
        assert_eq!(with("flex", "hummingbird"), with("cpu", "default"), "{output}, {sum}");
    }
}

#[test]
#[cfg(feature = "flex")]
fn flex_predicts_the_same() {
    for name in MODELS {
        for output in ["margin", "leaf", "tree"] {
            let (model, rows) = (model(name), zoo(name, "rows.npy"));
            let predict = ["predict", &model, "--rows", &rows, "--output", output, "--backend"];
            let [flex, cpu] = ["flex", "cpu"].map(|backend| prints(&[&predict[..], &[backend]].concat()));
            assert_eq!(flex, cpu, "{name}, {output}");
        }
    }
}

#[test]
fn models_that_can_not_be_read_are_refused() {
    let scratch = Scratch::new("models");
    let whole = std::fs::read(model("churn")).expect("a model");
    let cut = scratch.file("cut.ubj", &whole[..whole.len() / 2]);
    let rows = zoo("churn", "rows.npy");
    for arguments in [
        &["predict", &cut, "--rows", &rows][..],
        &["inspect", &cut],
        &["lower", &cut, "--emit", "plan"],
        &["bench", &cut, "--rows", &rows],
    ] {
        refuses(arguments, &["cut.ubj", "byte"]);
    }
    refuses(&["inspect", &scratch.path("absent.ubj")], &["absent.ubj"]);
    refuses(&["inspect", &scratch.0.display().to_string()], &["fangorn-cli-"]);
    refuses(&["inspect", &scratch.file("empty.json", "")], &["empty.json", "empty"]);
    refuses(&["inspect", &scratch.file("two\nlines.json", "{}")], &["two"]);
}

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
    let presets = [
        "default",
        "xgboost",
        "treebeard_one_tree",
        "treebeard_one_row",
        "tahoe_direct",
        "tahoe_shared_data",
    ];
    for schedule in presets.into_iter().chain([&file[..]]) {
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
fn differences_from_what_is_expected_show() {
    let scratch = Scratch::new("expect");
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    let (shape, mut margins) = read_npy::<f32>(&zoo("softprob", "margin.npy"));
    let expect =
        |file: &str| fangorn(&["predict", &model, "--rows", &rows, "--output", "margin", "--expect", file]);

    let output = expect(&zoo("softprob", "margin.npy"));
    let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    let header: Vec<&str> = lines[0].split(',').map(str::trim).collect();
    assert_eq!(header[..5], ["row", "ours_0", "expected_0", "ours_1", "expected_1"]);
    assert_eq!(lines.len() as u64, 1 + shape[0]);
    assert!(lines.iter().all(|line| line.len() == lines[0].len()), "aligned");

    margins[7] += 1e-3;
    let off = scratch.file("off.npy", npy(&shape, npyz::Order::C, &margins));
    let output = expect(&off);
    let line = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{line}");
    assert!(line.contains("row 1, output 2") && line.lines().count() == 1, "{line}");
    margins[7] = f32::NAN;
    let output = expect(&scratch.file("nan.npy", npy(&shape, npyz::Order::C, &margins)));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));

    assert_refused(&expect(&zoo("softprob", "leaves.npy")), &["leaves.npy", " 50 ", " 5;"]);
    assert_refused(&expect(&scratch.file("few.csv", "1,2,3,4,5\n")), &["few.csv", "1 rows", "118"]);

    // Both a file and a comparison; CSV and one dimension are expected of a single column.
    let (model, rows) = (self::model("churn"), zoo("churn", "rows.npy"));
    let values = read_npy::<f32>(&zoo("churn", "output.npy")).1;
    let flat = scratch.file("flat.npy", npy(&[20], npyz::Order::C, &values));
    let printed = scratch.path("printed.csv");
    for expected in [&flat, &printed] {
        let output = fangorn(&["predict", &model, "--rows", &rows, "-o", &printed, "--expect", expected]);
        // The second round expects what the first has written.
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    let mut leaves = read_npy::<i32>(&zoo("churn", "leaves.npy"));
    leaves.1[150] += 1;
    let off = scratch.file("leaves.npy", npy(&leaves.0, npyz::Order::C, &leaves.1));
    let output = fangorn(&["predict", &model, "--rows", &rows, "--output", "leaf", "--expect", &off]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("row 1, output 50"));
}

#[test]
fn inspect_says_what_is_in_a_model() {
    let printed = prints(&["inspect", &model("churn")]);
    for part in ["xgboost 3.2.0", "binary:logistic", "sigmoid", "tenure_months", "4482", "2291"] {
        assert!(printed.contains(part), "`{part}` in {printed}");
    }
    for entry in std::fs::read_dir(zoo("", "")).expect("the zoo").flatten().filter(|e| e.path().is_dir()) {
        let model = model(&entry.file_name().to_string_lossy());
        prints(&["inspect", &model, "--all"]);
        let report: Value = serde_json::from_str(&prints(&["inspect", &model, "--json"])).expect("JSON");
        let sum =
            |value: &Value| value.as_array().expect("a list").iter().filter_map(Value::as_u64).sum::<u64>();
        assert_eq!(sum(&report["depths"]), report["trees"].as_u64().expect("a number"), "{model}");
        for key in ["producer", "version", "objective", "transform"] {
            assert!(report[key].is_string(), "{model}: {key}");
        }
        for key in ["outputs", "nodes", "leaves"] {
            assert!(report[key].is_u64(), "{model}: {key}");
        }
        assert_eq!(
            report["base_score"].as_array().map(Vec::len),
            report["outputs"].as_u64().map(|n| n as usize)
        );
        let splits =
            |f: &Value| f["splits"].as_u64().unwrap_or(0) + f["category_splits"].as_u64().unwrap_or(0);
        let features = report["features"].as_array().expect("a list");
        let [nodes, leaves] = ["nodes", "leaves"].map(|key| report[key].as_u64().unwrap_or(0));
        assert_eq!(features.iter().map(splits).sum::<u64>(), nodes - leaves, "{model}");
    }
    let wide = prints(&["inspect", &model("wide-sparse")]);
    let all = prints(&["inspect", &model("wide-sparse"), "--all"]);
    assert!(all.lines().count() >= 120 && wide.lines().count() < 60);
    let report = prints(&["inspect", &model("category-names"), "--json"]);
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let features = report["features"].as_array().expect("a list");
    assert!(
        features.iter().any(|f| f["categories"].as_u64() > Some(0) && f["category_names"][0].is_string())
    );
}

#[test]
fn lower_prints_every_stage() {
    let model = model("churn");
    let lower = |schedule: &str, backend: &str, stage: &str| {
        prints(&["lower", &model, "--schedule", schedule, "--backend", backend, "--emit", stage])
    };
    assert!(lower("default", "cpu", "forest").starts_with("forest features=12 outputs=1 trees=100"));
    let schedule = lower("xgboost", "cpu", "schedule");
    assert_eq!(schedule, "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\nlayout(sparse)\n");
    // What is printed reads back as what it was.
    let scratch = Scratch::new("lower");
    let file = scratch.file("schedule.txt", &schedule);
    assert_eq!(lower(&file, "cpu", "schedule"), schedule);
    assert_eq!(lower(&file, "cpu", "plan"), lower("xgboost", "cpu", "plan"));
    for backend in ["cpu", "flex", "ndarray", "wgpu", "vulkan", "metal", "cuda", "rocm", "cubecl-cpu"] {
        let gpu = !["cpu", "flex", "ndarray"].contains(&backend);
        let loops = lower("default", backend, "loops");
        assert_eq!(loops.lines().filter(|line| *line == "# legalised").count(), 1, "{loops}");
        assert_eq!(loops.contains("grid.x"), gpu, "{loops}");
        let plan = lower("tahoe_direct", backend, "plan");
        assert!(plan.starts_with(if gpu { "plan cube" } else { "plan cpu" }), "{plan}");
    }
    assert!(lower("default", "cpu", "kernel").starts_with("program "));
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

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    for arguments in [
        &["lower", &model, "--emit", "forest"][..],
        &["predict", &model, "--rows", &rows, "--output", "tree"],
        &["inspect", &model, "--json"],
    ] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [&[][..], &["predict"], &["inspect"], &["lower"], &["bench"]] {
        let help = prints(&[command, &["--help"]].concat());
        assert!(help.contains("Example:\n  fangorn "), "{help}");
    }
    assert_eq!(prints(&["--version"]), format!("fangorn {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn convert_gives_a_file_that_predicts_the_same() {
    let scratch = Scratch::new("convert");
    let (from, to) = (model("category-partition"), scratch.path("model.fangorn"));
    let printed = prints(&["convert", &from, "-o", &to, "--schedule", "treebeard_one_row"]);
    assert!(printed.contains("model.fangorn: 12 trees"), "{printed}");
    let rows = zoo("category-partition", "rows.npy");
    for output in ["margin", "leaf", "tree"] {
        let predict = |model: &str| prints(&["predict", model, "--rows", &rows, "--output", output]);
        assert_eq!(predict(&from), predict(&to), "{output}");
    }
    // What the file holds besides the forest goes along.
    let again = scratch.path("again.fangorn");
    prints(&["convert", &to, "-o", &again]);
    assert_eq!(std::fs::read(&to).expect("it"), std::fs::read(&again).expect("it"));
    refuses(&["convert", &from, "-o", &scratch.path("model.bin")], &["model.bin", ".fangorn"]);
    let nowhere = scratch.path("nowhere/model.fangorn");
    refuses(&["convert", &from, "-o", &nowhere], &["nowhere", "can't be written"]);
    let rounds = scratch.path("rounds.fangorn");
    assert!(prints(&["convert", &from, "-o", &rounds, "--iteration-range", "2..5"]).contains("3 trees"));
    refuses(&["convert", &to, "-o", &rounds, "--iteration-range", "2..5"], &["rounds of boosting"]);
    assert_eq!(fangorn(&["convert", &from, "-o", &rounds, "--iteration-range", "2"]).status.code(), Some(2));
}

#[test]
fn a_damaged_fangorn_file_is_refused_by_its_place() {
    let scratch = Scratch::new("damaged");
    let to = scratch.path("model.fangorn");
    prints(&["convert", &model("churn"), "-o", &to]);
    let mut bytes = std::fs::read(&to).expect("it");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let damaged = scratch.file("damaged.fangorn", &bytes);
    refuses(&["inspect", &damaged], &["damaged.fangorn", "byte", "checksum", "fangorn convert"]);
    let cut = scratch.file("cut.fangorn", &bytes[..middle]);
    refuses(&["inspect", &cut], &["cut.fangorn", "header tells of"]);
}

#[test]
fn diff_says_where_models_differ() {
    let scratch = Scratch::new("diff");
    let (a, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let same = prints(&["diff", &a, &a, "--rows", &rows]);
    assert!(same.contains("0 with other leaf values only, 0 with other splits"), "{same}");
    assert!(same.contains("0 have other values"), "{same}");
    // The same forest but for a threshold, a leaf and the base score.
    let json: Value =
        serde_json::from_slice(&std::fs::read(model("logistic-1.7.6")).expect("it")).expect("JSON");
    let change = |edits: &[(&str, Value)]| {
        let mut json = json.clone();
        for (pointer, value) in edits {
            *json.pointer_mut(pointer).expect(pointer) = value.clone();
        }
        serde_json::to_vec(&json).expect("JSON")
    };
    let tree = |t: usize, field: &str| format!("/learner/gradient_booster/model/trees/{t}/{field}");
    let a = scratch.file("a.json", change(&[]));
    let leaf = json.pointer(&tree(1, "left_children")).and_then(Value::as_array).expect("children");
    let leaf = leaf.iter().position(|c| c == -1).expect("a leaf");
    let b = change(&[
        (&tree(0, "split_conditions/0"), Value::from(12345.0)),
        (&tree(1, &format!("split_conditions/{leaf}")), Value::from(0.75)),
        ("/learner/learner_model_param/base_score", Value::from("2.5E-1")),
    ]);
    let b = scratch.file("b.json", b);
    let output = fangorn(&["diff", &a, &b, "--json", "--rows", &zoo("logistic-1.7.6", "rows.npy")]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["model"][0]["field"], "base score");
    let differences = report["differences"].as_array().expect("a list");
    assert_eq!(differences.len(), 2, "{report}");
    assert_eq!((&differences[0]["tree"], &differences[0]["path"]), (&0.into(), &"".into()));
    assert!(differences[0]["b"].as_str().is_some_and(|t| t.contains("< 12345.0")), "{report}");
    assert_eq!(report["leaf_trees"], 1);
    assert!(differences[1]["b"].as_str().is_some_and(|t| t.contains("leaf [0.75]")), "{report}");
    assert!(report["rows"]["other_leaves"].as_u64().is_some_and(|n| n > 0), "{report}");
    let text_form = fangorn(&["diff", &a, &b]);
    assert_eq!(text_form.status.code(), Some(1));
    assert!(text(&text_form.stdout).contains("tree 0 at root"), "{}", text(&text_form.stdout));
    refuses(&["diff", &a, &model("softprob"), "--rows", &rows], &["columns", "leave --rows out"]);
}
