//! Models as files: what is in one, what two differ in, what becomes of one, and which can't be read.

use serde_json::Value;

use crate::{
    Scratch, assert_refused, command, csv, fangorn, model, npy, prints, read_npy, refuses, text, zoo,
};

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
    assert_refused(&expect(&scratch.file("few.csv", "1,2,3,4,5\n")), &["few.csv", "1 row,", "118"]);

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

/// pandas writes a header over values without a name, and an index before them.
#[test]
fn expected_values_may_have_the_header_and_the_index_of_pandas() {
    let scratch = Scratch::new("expect-pandas");
    for (name, output) in [("churn", "output.npy"), ("softprob", "margin.npy")] {
        let (model, rows) = (model(name), zoo(name, "rows.npy"));
        let (shape, values) = read_npy::<f32>(&zoo(name, output));
        let columns = shape[1] as usize;
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let header = line((0..columns).map(|column| column.to_string()).collect());
        let (mut plain, mut indexed) = (header.clone(), format!(",{header}"));
        for (row, values) in values.chunks(columns).enumerate() {
            let values = line(values.iter().map(|v| format!("{v:?}")).collect());
            plain += &values;
            indexed += &format!("{row},{values}");
        }
        let kind = if output == "margin.npy" { "margin" } else { "value" };
        for (file, note) in [(&plain, "header of numbers"), (&indexed, "one without a name")] {
            let file = scratch.file("expected.csv", file);
            let predict = ["predict", &model, "--rows", &rows, "--output", kind, "--expect", &file];
            let found = fangorn(&predict);
            let said = text(&found.stderr);
            assert_eq!(found.status.code(), Some(0), "{name}: {said}");
            assert!(said.contains(note) && said.contains("largest difference"), "{said}");
            // The same file as margins to start from.
            if kind == "margin" {
                let from = ["predict", &model, "--rows", &rows, "--output", "margin", "--base-margin", &file];
                let found = fangorn(&from);
                assert_eq!(found.status.code(), Some(0), "{name}: {}", text(&found.stderr));
                assert!(text(&found.stderr).contains(note), "{}", text(&found.stderr));
            }
        }
        // A line too many that is no header.
        let first = plain.lines().nth(1).expect("a row");
        let file = scratch.file("many.csv", format!("{first}\n{}", &plain[header.len()..]));
        let predict = ["predict", &model, "--rows", &rows, "--output", kind, "--expect", &file];
        assert_refused(&fangorn(&predict), &["many.csv", "were predicted", "one for each"]);
    }
}

/// Labels that are texts are compared as texts, with the command's own output among others.
#[test]
fn labels_that_are_texts_are_compared_as_texts() {
    let scratch = Scratch::new("expect-labels");
    let rows = zoo("catboost-labels", "rows.npy");
    let json = std::fs::read(model("catboost-labels")).expect("a model");
    for names in [["01", "1"], ["cat", "dog"], ["False", "True"]] {
        let mut json: Value = serde_json::from_slice(&json).expect("JSON");
        let params = json.pointer_mut("/model_info/class_params").expect("the classes");
        params["class_label_type"] = "String".into();
        params["class_names"] = serde_json::json!(names);
        let model = scratch.file("model.json", json.to_string());
        let predict = ["predict", &model, "--rows", &rows, "--output", "class"];
        let plain = prints(&predict);
        let expect = |file: &str| fangorn(&[&predict[..], &["--expect", file]].concat());
        let mut indexed = String::from(",0\n");
        plain.lines().enumerate().for_each(|(row, label)| indexed += &format!("{row},{label}\n"));
        let mut files = vec![
            scratch.file("own.csv", &plain),
            scratch.file("named.csv", format!("class\n{plain}")),
            scratch.file("numbered.csv", format!("0\n{plain}")),
            scratch.file("indexed.csv", indexed),
        ];
        if cfg!(feature = "tables") {
            files.push(scratch.path("own.parquet"));
            prints(&[&predict[..], &["-o", &files[4]]].concat());
        }
        for file in files {
            let found = expect(&file);
            let said = text(&found.stderr);
            assert_eq!(found.status.code(), Some(0), "{file}: {said}");
            assert!(said.contains("labels that differ: 0 of 52"), "{said}");
            assert_eq!(text(&found.stdout).lines().count(), 53);
        }
        // The fourth label is the other one.
        let other = |label: &str| if label == names[0] { names[1] } else { names[0] };
        let lines = plain.lines().enumerate();
        let wrong: String = lines
            .map(|(row, label)| if row == 3 { other(label) } else { label })
            .map(|label| format!("{label}\n"))
            .collect();
        let found = expect(&scratch.file("wrong.csv", wrong));
        let said = text(&found.stderr);
        assert_eq!(found.status.code(), Some(1), "{said}");
        assert!(said.contains("1 of 52") && said.contains("row 3, output 0"), "{said}");
        // A label too many is no header.
        let many = scratch.file("many.csv", format!("{}\n{plain}", names[0]));
        assert_refused(&expect(&many), &["many.csv", "53 rows", "52 were predicted"]);
        let numbers = scratch.file("numbers.npy", npy(&[52], npyz::Order::C, &[0i32; 52]));
        assert_refused(&expect(&numbers), &["numbers.npy", "texts", ".csv"]);
    }
}

#[test]
fn inspect_says_what_is_in_a_model() {
    let printed = prints(&["inspect", &model("churn")]);
    for phrase in ["xgboost 3.2.0", "binary:logistic", "sigmoid", "tenure_months", "4482", "2291"] {
        assert!(printed.contains(phrase), "`{phrase}` in {printed}");
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
fn compile_writes_a_source_and_its_header() {
    let scratch = Scratch::new("compile");
    let (from, to) = (model("churn"), scratch.path("risk.c"));
    let printed = prints(&["compile", &from, "-o", &to]);
    assert!(printed.contains("risk.c") && printed.contains("risk.h: 100 trees"), "{printed}");
    let [source, header] =
        ["risk.c", "risk.h"].map(|name| std::fs::read_to_string(scratch.path(name)).expect("C"));
    assert!(source.contains("#include \"risk.h\"") && header.contains("void risk_values("), "{header}");
    std::fs::create_dir(scratch.path("include")).expect("a folder");
    let header = scratch.path("include/risk.h");
    prints(&["compile", &from, "-o", &to, &format!("--header={header}")]);
    assert_eq!(std::fs::read(&header).expect("it"), std::fs::read(scratch.path("risk.h")).expect("it"));
    prints(&["compile", &from, "-o", &to, "--header"]);
    // The output by another name, and an option without a value.
    let again = scratch.path("include/../risk.c");
    for header in [&to, &again] {
        let header = format!("--header={header}");
        refuses(&["compile", &from, "-o", &to, &header], &["risk.c", "would overwrite the output"]);
    }
    let large = std::fs::metadata(&to).expect("it").len();
    prints(&["compile", "--header", &from, "-o", &to, "--smallest"]);
    assert!(std::fs::metadata(&to).expect("it").len() < large, "nodes take less room than tiles");
    let other = scratch.path("include/other.h");
    let other = format!("--header={other}");
    refuses(&["compile", &from, "-o", &to, &other], &["other.h", "the source includes `risk.h`"]);
    refuses(&["compile", &from, "-o", &scratch.path("risk.cpp")], &["risk.cpp", "has to end in .a or .c"]);
    refuses(&["compile", &from, "-o", &scratch.path("my risk.c")], &["`my risk` is no name", "give letters"]);
    refuses(&["compile", &from, "-o", &scratch.path("nowhere/risk.c")], &["nowhere", "can't be written"]);
    // A model is no output, and a graph no forest.
    let own = scratch.file("own.c", std::fs::read(&from).expect("a model"));
    refuses(&["compile", &own, "-o", &own], &["own.c", "would be overwritten"]);
    let graph = format!("{}/tests/zoo-classical/ColumnTransformer/model.onnx", env!("CARGO_MANIFEST_DIR"));
    refuses(&["compile", &graph, "-o", &to], &["a graph of several operators", "fangorn predict"]);
}

/// The library that the compiler and the archiver of `CC` and `AR` make predicts what the command line predicts.
#[test]
#[cfg(unix)]
fn compile_writes_a_static_library() {
    let answers = |program: &str| {
        std::process::Command::new(program).arg("--version").output().is_ok_and(|said| said.status.success())
    };
    if !answers("cc") || !answers("ar") {
        assert!(std::env::var("FANGORN_REQUIRE_CC").is_err(), "no compiler of C answers to cc");
        eprintln!("skipped: no compiler of C answers to cc");
        return;
    }
    let scratch = Scratch::new("compile-library");
    let (from, to) = (model("churn"), scratch.path("librisk.a"));
    // Words of a compiler's name are arguments, and so are those of CFLAGS.
    let mut compile = command(&["compile", &from, "-o", &to]);
    let output =
        compile.env("CC", "cc -std=c99").env("CFLAGS", "-DRISK_LEAVES -Wall").output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("risk.h: 100 trees"), "{}", text(&output.stdout));
    let main = "#include \"risk.h\"\n#include <stdio.h>\n\
        int main(void) { risk_value row[RISK_FEATURES]; risk_number values[RISK_VALUES];\n\
        while (1) { for (int c = 0; c < RISK_FEATURES; c++) if (scanf(\"%f,\", &row[c]) != 1) return 0;\n\
        risk_values(row, values); printf(\"%.9g\\n\", values[0]); } }\n";
    let main = scratch.file("main.c", main);
    let program = scratch.path("main");
    let mut link = std::process::Command::new("cc");
    let linked = link.args([&main, &to, "-lm", "-o", &program]).output().expect("a compiler");
    assert!(linked.status.success(), "{}", text(&linked.stderr));
    let (shape, rows) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let row = |row: &[f32]| row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(",");
    let lines: String = rows.chunks(shape[1] as usize).map(|values| row(values) + "\n").collect();
    let input = scratch.file("rows.txt", lines);
    let input = std::fs::File::open(input).expect("rows");
    let found = std::process::Command::new(&program).stdin(input).output().expect("it runs");
    let found: Vec<f32> = csv(&text(&found.stdout)).concat();
    let expected: Vec<f32> = csv(&prints(&["predict", &from, "--rows", &zoo("churn", "rows.npy")])).concat();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-6, "{found} is not {expected}");
    }
    // What fails leaves the earlier library, and no folder.
    let before = std::fs::read(&to).expect("a library");
    let folder = scratch.path("temporary");
    std::fs::create_dir(&folder).expect("a folder");
    for (variable, program, phrases) in [
        ("CC", "/nowhere/cc", ["/nowhere/cc", "set CC"]),
        ("CC", "cc -no-such-option-of-cc", ["no-such-option", "set CC"]),
        ("AR", "/nowhere/ar", ["/nowhere/ar", "set AR"]),
        ("AR", "true", ["has written no library", "set AR"]),
    ] {
        let mut compile = command(&["compile", &from, "-o", &to]);
        let output = compile.env(variable, program).env("TMPDIR", &folder).output().expect("it runs");
        assert_refused(&output, &phrases);
        assert!(std::fs::read(&to).expect("a library") == before);
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 0, "{program}");
    }
    let mut compile = command(&["compile", &from, "-o", &to]);
    let output = compile.env("TMPDIR", scratch.path("nowhere")).output().expect("it runs");
    assert_refused(&output, &["nowhere", "set TMPDIR"]);
    refuses(&["compile", &from, "-o", &scratch.path("lib.a")], &["lib.a", "is no name"]);
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
    // Names of features that differ have the rows read for each model.
    let named = |name: &str| {
        let mut json = json.clone();
        let columns = json.pointer("/learner/learner_model_param/num_feature").and_then(Value::as_str);
        let columns: usize = columns.expect("a number").parse().expect("a number");
        let names: Vec<String> = (0..columns).map(|at| format!("{name}{at}")).collect();
        json["learner"]["feature_names"] = names.into();
        scratch.file(&format!("{name}.json"), serde_json::to_vec(&json).expect("JSON"))
    };
    refuses(&["diff", &named("a"), &named("b"), "--rows", "-"], &["--rows -", "give a file"]);
}

#[test]
fn inspect_lists_the_plans_by_batch() {
    let report: Value =
        serde_json::from_str(&prints(&["inspect", &model("churn"), "--plans", "--json"])).expect("JSON");
    let plans = report["plans"].as_array().expect("plans");
    assert_eq!(plans[0]["first"], 1);
    for pair in plans.windows(2) {
        assert_eq!(pair[0]["last"].as_u64().expect("a last one") + 1, pair[1]["first"]);
    }
    for plan in plans {
        assert!(!plan["engines"].as_array().expect("engines").is_empty(), "{plan}");
    }
    assert!(plans.last().expect("a plan")["last"].is_null());
    assert!(prints(&["inspect", &model("churn"), "--plans"]).contains("plan        "));
}
