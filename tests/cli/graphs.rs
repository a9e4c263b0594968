//! `fangorn predict` of classical models, which are graphs and no forests alone.

use std::{io::Write as _, sync::Arc};

use arrow_array::{
    ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, StructArray, cast::AsArray,
    types::Float32Type,
};

use crate::{
    Scratch,
    batches::{read_parquet, write_parquet},
    command, fangorn, prints, read_npy, refuses, text,
};

fn file(model: &str, name: &str) -> String {
    format!("{}/tests/zoo-classical/{model}/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn classical_models_predict_values_and_classes() {
    for (model, output, expected) in [
        ("Pipeline", "class", "output.npy"),
        ("Pipeline", "value", "proba.npy"),
        ("ColumnTransformer", "value", "output.npy"),
        ("GaussianNB", "value", "proba.npy"),
        ("KMeans", "class", "output.npy"),
        ("SVR", "value", "output.npy"),
        ("StackingClassifier", "class", "output.npy"),
        ("LabelEncoder", "value", "output.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.onnx"), file(model, "rows.npy"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("graphs");
    let rows = scratch.file("rows.csv", "a,b,c,d,e,f\n1,2,3,4,5,6\n0,0,0,0,0,0\n");
    let table = prints(&["predict", &file("Pipeline", "model.onnx"), "--rows", &rows, "--output", "class"]);
    assert_eq!(table.lines().count(), 2, "{table}");
}

/// Pipelines that were trained on tables of texts and numbers, and files of skl2onnx with several outputs.
#[test]
fn tables_of_texts_and_numbers_predict_what_scikit_learn_predicts() {
    let zoo =
        std::fs::read_dir(format!("{}/tests/zoo-classical", env!("CARGO_MANIFEST_DIR"))).expect("a folder");
    let mut models: Vec<String> = zoo
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("table-"))
        .collect();
    models.sort();
    assert!(models.len() >= 24, "{models:?}");
    for name in models {
        let kind = if name.contains("-onnx-") { "model.onnx" } else { "model.npz" };
        let (model, rows) = (file(&name, kind), file(&name, "rows.csv"));
        for (output, expected) in [("value", "value.npy"), ("class", "class.csv")] {
            let expected = file(&name, expected);
            if !std::path::Path::new(&expected).exists() {
                continue;
            }
            let predict = ["predict", &model, "--rows", &rows, "--output", output, "--expect", &expected];
            let done = command(&predict).output().expect("the program runs");
            assert_eq!(done.status.code(), Some(0), "{name}, {output}: {}", text(&done.stderr));
        }
    }
}

/// Texts that operators look up are read part by part: columns are kept, by their names, and a text that no encoder
/// knows is refused where it stands.
#[test]
fn texts_of_a_pipeline_are_categories() {
    let scratch = Scratch::new("categories");
    let head = "job,id,city,age,income,score\n";
    let rows = scratch.file("rows.csv", format!("{head}dev,a,Rome,30,1000,0.5\ncook,b,,41,,\n"));
    let (npz, onnx) = (file("table-logistic", "model.npz"), file("named-mixed", "model.onnx"));
    let kept = scratch.path("kept.csv");
    let predict = ["predict", &npz, "--rows", &rows, "--keep", "id,city", "--output", "class", "-o", &kept];
    let done = command(&predict).output().expect("the program runs");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let table = std::fs::read_to_string(&kept).expect("a table");
    assert!(table.starts_with("id,city,class\na,Rome,") && table.contains("\nb,,"), "{table}");
    let unknown = scratch.file("unknown.csv", format!("{head}dev,a,Rome,30,1000,0.5\npilot,b,Rome,41,1,1\n"));
    refuses(&["predict", &npz, "--rows", &unknown], &["unknown.csv", "line 3, column 1", "`pilot`", "cook"]);
    let bare = scratch.file("bare.csv", "dev,a,Rome,30,1000,0.5\n");
    refuses(&["predict", &npz, "--rows", &bare], &["bare.csv", "line 1 has 6 columns", "5"]);
    let rest = scratch.file("rest.csv", "city,age\nRome,30\n");
    refuses(
        &["predict", &npz, "--rows", &rest],
        &["rest.csv", "without 3 of the model's 5 columns", "income"],
    );
    // A file of skl2onnx has an input of texts for a column.
    let named = file("named-mixed", "rows.csv");
    let predict = ["predict", &onnx, "--rows", &named, "--keep", "city", "--output", "class", "-o", &kept];
    let done = command(&predict).output().expect("the program runs");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let table = std::fs::read_to_string(&kept).expect("a table");
    assert!(table.starts_with("city,class\n") && table.lines().count() == 61, "{table}");
}

/// An input of whole numbers does not take others.
#[test]
fn whole_numbers_are_not_rounded() {
    let scratch = Scratch::new("whole");
    let model = file("OneHotEncoder", "model.onnx");
    let header = "a,b,c\n";
    for (row, word) in [("1,2.5,0", "2.5"), ("1,,0", "missing value")] {
        let rows = scratch.file("rows.csv", format!("{header}1,2,0\n{row}\n"));
        refuses(&["predict", &model, "--rows", &rows], &["row 1, column 1", word, "whole numbers"]);
    }
}

/// Columns of texts stay texts; a table of them has a header.
#[test]
fn models_of_texts_predict_from_a_table() {
    for (model, output, expected) in [
        ("TextPipeline", "class", "output.npy"),
        ("TextPipeline", "value", "proba.npy"),
        ("TokenPipeline", "value", "proba.npy"),
        ("TfidfVectorizer", "value", "output.npy"),
        ("FeatureHasher", "value", "output.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.onnx"), file(model, "rows.csv"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("texts");
    let model = file("TextPipeline", "model.onnx");
    // The graph's input is called X, so a table may have it among others.
    let table = scratch.file("named.csv", "id,X,note\n7,\"the cat, and a dog\",a\n8,,b\n");
    let found = prints(&["predict", &model, "--rows", &table, "--output", "class"]);
    assert_eq!(found.lines().count(), 2, "{found}");
    let alone = scratch.file("alone.csv", "text\n\"the cat, and a dog\"\n\"\"\n");
    let done =
        command(&["predict", &model, "--rows", &alone, "--output", "class"]).output().expect("it runs");
    assert_eq!(text(&done.stdout), found);
    assert!(text(&done.stderr).contains("alone.csv: the first line is the header"), "{}", text(&done.stderr));
    let parquet = scratch.path("texts.parquet");
    let texts = Arc::new(StringArray::from(vec![Some("the cat, and a dog"), None])) as ArrayRef;
    write_parquet(&parquet, &RecordBatch::try_from_iter([("X", texts)]).expect("a table"), 1);
    assert_eq!(prints(&["predict", &model, "--rows", &parquet, "--output", "class"]), found);
    refuses(&["predict", &model, "--rows", &table, "--by-position"], &["named.csv", "3 columns", "takes 1"]);
    let doubled = scratch.file("doubled.csv", "X,X\na,b\n");
    refuses(&["predict", &model, "--rows", &doubled], &["doubled.csv", "more than once", "X"]);
    refuses(&["predict", &model, "--rows", &file("Pipeline", "rows.npy")], &["rows.npy", "texts", ".csv"]);
    let empty = scratch.file("empty.csv", "text\n");
    refuses(&["predict", &model, "--rows", &empty], &["empty.csv", "no row"]);
    let ragged = scratch.file("ragged.csv", "text\na,b\n");
    refuses(&["predict", &model, "--rows", &ragged], &["ragged.csv", "line 2", "2 fields"]);
}

/// Free texts are read part by part: from CSV, standard input and Parquet, with columns kept, lines left out, and the
/// same predictions as for all rows at once.
#[test]
fn free_texts_are_read_part_by_part() {
    let scratch = Scratch::new("texts-in-parts");
    let (graph, rows) = (file("named-notes", "model.onnx"), file("named-notes", "rows.csv"));
    let whole = std::fs::read_to_string(&rows).expect("rows");
    let (header, lines) = whole.split_once('\n').expect("a header");
    let (_, expected) = read_npy::<f32>(&file("named-notes", "proba.npy"));
    let mut reader = ::csv::Reader::from_reader(whole.as_bytes());
    let notes: Vec<String> = reader.records().map(|record| record.expect("a record")[4].to_owned()).collect();
    // Several chunks of a CSV, whose ids count on, and many row groups.
    let times = (9 << 20) / lines.len();
    let mut many = format!("{header}\n");
    for line in lines.lines().cycle().take(60 * times).enumerate() {
        let rest = line.1.split_once(',').expect("an id").1;
        many += &format!("{},{rest}\n", line.0);
    }
    let csv = scratch.file("many.csv", &many);
    let parquet = scratch.path("many.parquet");
    write_parquet(&parquet, &typed(&csv), 5000);
    let check = |text: &str, left_out: Option<usize>| {
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        assert_eq!(&reader.headers().expect("a header").iter().take(2).collect::<Vec<_>>(), &["id", "note"]);
        let mut found = reader.records();
        for row in (0..60 * times).filter(|row| Some(*row) != left_out) {
            let record = found.next().expect("a row").expect("a record");
            assert_eq!((record[0].parse(), record.len()), (Ok(row), 4));
            assert_eq!(&record[1], &*notes[row % 60], "row {row}");
            for (at, value) in record.iter().skip(2).enumerate() {
                let (value, expected): (f32, f32) =
                    (value.parse().expect("a value"), expected[row % 60 * 2 + at]);
                assert!((value - expected).abs() < 1e-6, "row {row}: {value} for {expected}");
            }
        }
        assert!(found.next().is_none());
    };
    let out = scratch.path("out.csv");
    for rows in [&csv, &parquet] {
        let predict = ["predict", &graph, "--rows", rows, "--keep", "id,note", "-o", &out];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{rows}: {}", text(&done.stderr));
        check(&std::fs::read_to_string(&out).expect("predictions"), None);
    }
    // A wrong number in the last part ends the run, or is left out.
    let wrong = 60 * times - 3;
    let damaged =
        scratch.file("damaged.csv", many.replacen(&format!("\n{wrong},"), &format!("\n{wrong},x"), 1));
    refuses(&["predict", &graph, "--rows", &damaged, "-o", &out], &["damaged.csv", "is no number"]);
    let skip = ["predict", &graph, "--rows", &damaged, "--on-error", "skip", "--keep", "id,note", "-o", &out];
    let done = command(&skip).output().expect("the program runs");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("1 row is left out"), "{}", text(&done.stderr));
    check(&std::fs::read_to_string(&out).expect("predictions"), Some(wrong));
    // A pipe is answered row by row.
    let mut child = command(&["predict", &graph, "--rows", "-"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let output = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    let mut answers = std::io::BufRead::lines(output);
    writeln!(input, "{header}").expect("it reads");
    for (row, line) in lines.lines().take(3).enumerate() {
        writeln!(input, "{line}").expect("it reads");
        let answer = answers.next().expect("an answer").expect("a line");
        let answer: Vec<f32> = answer.split(',').map(|value| value.parse().expect("a value")).collect();
        assert!((answer[0] - expected[row * 2]).abs() < 1e-6 && answer.len() == 2, "{answer:?}");
    }
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// A text of a space is a row; columns to keep are left out where columns are taken in their order.
#[test]
fn texts_of_spaces_are_rows_and_kept_columns_are_no_inputs() {
    let scratch = Scratch::new("odd-texts");
    let graph = file("TextPipeline", "model.onnx");
    let rows = scratch.file("spaces.csv", "X\n \n  \nthe cat\n");
    assert_eq!(prints(&["predict", &graph, "--rows", &rows]).lines().count(), 3);
    let beside = scratch.file("beside.csv", "id,text\n7,the cat\n8, \n");
    let predict = ["predict", &graph, "--rows", &beside, "--keep", "id", "--output", "class"];
    let found = text(&command(&predict).output().expect("the program runs").stdout);
    assert_eq!(
        found.lines().map(|line| line.split(',').next()).collect::<Vec<_>>(),
        [Some("id"), Some("7"), Some("8")]
    );
    // A table of no rows.
    let parquet = scratch.path("none.parquet");
    let texts = |texts: Vec<&str>| {
        RecordBatch::try_from_iter([("X", Arc::new(StringArray::from(texts)) as ArrayRef)]).expect("a table")
    };
    write_parquet(&parquet, &texts(Vec::new()), 1);
    assert_eq!(prints(&["predict", &graph, "--rows", &parquet]).lines().count(), 0);
}

/// Columns of a graph's inputs are found by their names, in CSV and Parquet, texts among them.
#[test]
fn columns_are_found_by_their_names() {
    let scratch = Scratch::new("named-inputs");
    for model in ["named-numbers", "named-mixed"] {
        let (graph, rows) = (file(model, "model.onnx"), file(model, "rows.csv"));
        let parquet = scratch.path("rows.parquet");
        write_parquet(&parquet, &typed(&rows), 7);
        for rows in [&rows, &parquet] {
            for (output, expected) in [("class", "output.npy"), ("value", "proba.npy")] {
                let expected = file(model, expected);
                let predict = ["predict", &graph, "--rows", rows, "--output", output, "--expect", &expected];
                let done = command(&predict).output().expect("the program runs");
                assert_eq!(done.status.code(), Some(0), "{model}, {rows}: {}", text(&done.stderr));
            }
        }
        let whole = std::fs::read_to_string(&rows).expect("rows");
        let refused = |name: &str, rows: &str, phrases: &[&str]| {
            let rows = scratch.file(name, rows);
            refuses(&["predict", &graph, "--rows", &rows], &[&[name], phrases].concat());
        };
        refused("renamed.csv", &whole.replacen("age", "years", 1), &["age", "of the model's"]);
        refused("doubled.csv", &whole.replacen("id", "age", 1), &["more than once", "age"]);
    }
    let (graph, rows) = (file("named-mixed", "model.onnx"), file("named-mixed", "rows.csv"));
    let parquet = scratch.path("numbers.parquet");
    let table = typed(&rows);
    let names =
        ["id", "days", "age", "age", "pay"].map(|name| table.column_by_name(name).expect("a column").clone());
    let names = ["id", "days", "city", "age", "pay"].into_iter().zip(names);
    write_parquet(&parquet, &RecordBatch::try_from_iter(names).expect("a table"), 9);
    // A number is no city.
    refuses(
        &["predict", &graph, "--rows", &parquet],
        &["column `city`", "numbers", "cast the column to texts"],
    );
    let whole = std::fs::read_to_string(&rows).expect("rows");
    let elsewhere =
        ["Paris", "Oslo", "Rome", "\"La Paz, upper\""].iter().fold(whole, |all, city| all.replace(city, "X"));
    let elsewhere = scratch.file("elsewhere.csv", &elsewhere);
    let values = |rows: &str| {
        let done = command(&["predict", &graph, "--rows", rows]).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    // A text that the encoder does not know is the same in a CSV as in a file of types.
    let typed_elsewhere = scratch.path("elsewhere.parquet");
    write_parquet(&typed_elsewhere, &typed(&elsewhere), 9);
    assert_eq!(values(&elsewhere), values(&typed_elsewhere));
    assert!(values(&elsewhere) != values(&rows));
    let kept = scratch.path("kept.csv");
    let done = command(&["predict", &graph, "--rows", &rows, "--keep", "id", "-o", &kept])
        .output()
        .expect("it runs");
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

/// Reads a CSV of the named models: `city` is a text, `id` an integer, all others are floats.
fn typed(path: &str) -> RecordBatch {
    let mut reader = csv::Reader::from_path(path).expect("a CSV");
    let names: Vec<String> = reader.headers().expect("a header").iter().map(str::to_owned).collect();
    let records: Vec<csv::StringRecord> = reader.records().map(|record| record.expect("a record")).collect();
    let column = |at: usize| records.iter().map(move |record| &record[at]);
    let column = |(at, name): (usize, &String)| -> (String, ArrayRef) {
        let array: ArrayRef = match &name[..] {
            "city" | "note" => Arc::new(StringArray::from_iter_values(column(at))),
            "id" => {
                Arc::new(Int64Array::from_iter_values(column(at).map(|v| v.parse::<i64>().expect("an id"))))
            }
            _ => Arc::new(Float32Array::from_iter_values(
                column(at).map(|v| v.parse::<f32>().expect("a number")),
            )),
        };
        (name.clone(), array)
    };
    RecordBatch::try_from_iter(names.iter().enumerate().map(column)).expect("a table")
}

/// Numbers and texts may be inside a struct.
#[test]
fn columns_of_graphs_may_be_inside_structs() {
    let scratch = Scratch::new("graph-nested");
    let (graph, rows) = (file("named-notes", "model.onnx"), file("named-notes", "rows.csv"));
    let expected = prints(&["predict", &graph, "--rows", &rows, "--keep", "id"]);
    let table = typed(&rows);
    let (schema, columns) = (table.schema(), table.columns());
    let of_struct = |at: usize| (schema.fields()[at].clone(), columns[at].clone());
    // In the graph's order: age, pay, days, note and city.
    let person = StructArray::from([3, 5, 1, 4, 2].map(of_struct).to_vec());
    let nested = RecordBatch::try_from_iter([("id", columns[0].clone()), ("person", Arc::new(person))]);
    let parquet = scratch.path("nested.parquet");
    write_parquet(&parquet, &nested.expect("a table"), 7);
    let found = fangorn(&["predict", &graph, "--rows", &parquet, "--keep", "id", "--by-position"]);
    assert_eq!((found.status.code(), text(&found.stdout)), (Some(0), expected), "{}", text(&found.stderr));
    refuses(&["predict", &graph, "--rows", &parquet], &["nested.parquet"]);
}

/// Graphs predict rows part by part, as forests do, with columns beside the predictions, damaged lines left out, and runs
/// that go on.
#[test]
fn graphs_predict_part_by_part() {
    let scratch = Scratch::new("graph-parts");
    let (graph, rows) = (file("named-numbers", "model.onnx"), file("named-numbers", "rows.csv"));
    let (_, expected) = read_npy::<f32>(&file("named-numbers", "proba.npy"));
    let table = typed(&rows);
    for group in [1, 7, 60] {
        let (parquet, out) = (scratch.path("rows.parquet"), scratch.path("out.parquet"));
        write_parquet(&parquet, &table, group);
        prints(&["predict", &graph, "--rows", &parquet, "--keep", "city,id", "-o", &out]);
        let found = read_parquet(&out);
        let schema = found.schema();
        let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
        assert_eq!(names, ["city", "id", "value_0", "value_1"]);
        assert_eq!(found.column(0), table.column_by_name("city").expect("cities"));
        for output in [0, 1] {
            let column = found.column(2 + output).as_primitive::<Float32Type>().values();
            assert_eq!(column.len(), 60);
            for (found, expected) in column.iter().zip(expected[output..].iter().step_by(2)) {
                assert!((found - expected).abs() <= 1e-5, "{found}, not {expected}");
            }
        }
    }
    // Standard input is a table, too, and a line that can't be read is left out.
    let text_of = std::fs::read_to_string(&rows).expect("rows");
    let damaged = scratch.file("damaged.csv", text_of.replacen("\n3,", "\n3,wrong", 1));
    let found = fangorn(&["predict", &graph, "--rows", &damaged, "--on-error", "skip", "--keep", "id"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert_eq!(text(&found.stdout).lines().count(), 60);
    assert!(text(&found.stderr).contains("1 row is left out"), "{}", text(&found.stderr));
    refuses(&["predict", &graph, "--rows", &damaged], &["damaged.csv", "line 3"]);
    let out = scratch.path("resumed.csv");
    prints(&["predict", &graph, "--rows", &rows, "--keep", "id,city", "-o", &out]);
    let whole = std::fs::read(&out).expect("predictions");
    prints(&["predict", &graph, "--rows", &rows, "--keep", "id,city", "-o", &out, "--resume"]);
    assert!(std::fs::read(&out).expect("predictions") == whole);
}

#[test]
fn what_a_graph_has_not_is_refused() {
    let (model, rows) = (file("SVR", "model.onnx"), file("SVR", "rows.npy"));
    let predict = |more: &[&str], phrases: &[&str]| {
        refuses(&[&["predict", &*model, "--rows", &*rows], more].concat(), phrases);
    };
    predict(&["--output", "leaf"], &["model.onnx", "--output", "value or class"]);
    predict(&["--output", "class"], &["model.onnx", "no classes", "--output value"]);
    predict(&["--schedule", "one-row"], &["model.onnx", "--schedule"]);
    predict(&["--backend", "reference"], &["model.onnx", "--backend"]);
    predict(&["--sum", "exact"], &["model.onnx", "--sum"]);
    predict(&["--missing", "0"], &["model.onnx", "--missing"]);
    let narrow = file("LabelEncoder", "rows.npy");
    refuses(&["predict", &model, "--rows", &narrow], &["rows.npy", "rows x 6"]);
}

/// LightGBM's linear trees: values, classes, margins and leaves, of rows whose columns a header names.
#[test]
fn linear_trees_predict() {
    for (model, output, expected) in [
        ("linear-regression-sqrt", "value", "output.npy"),
        ("linear-rf-regression", "margin", "margin.npy"),
        ("linear-binary", "value", "output.npy"),
        ("linear-multiclass", "value", "output.npy"),
        ("linear-multiclass", "leaf", "leaves.npy"),
        ("linear-rf", "margin", "margin.npy"),
    ] {
        let (graph, rows, expected) =
            (file(model, "model.txt"), file(model, "rows.npy"), file(model, expected));
        let predict = ["predict", &graph, "--rows", &rows, "--output", output, "--expect", &expected];
        let done = command(&predict).output().expect("the program runs");
        assert_eq!(done.status.code(), Some(0), "{model}: {}", text(&done.stderr));
    }
    let scratch = Scratch::new("linear-trees");
    let model = file("linear-binary", "model.txt");
    let of = |name: &str, rows: &str, more: &[&str]| {
        let rows = scratch.file(name, rows);
        prints(&[&["predict", &*model, "--rows", &*rows], more].concat())
    };
    let in_order = of("rows.csv", "a,b,c,d,kind\n1,2,3,4,5\n-1,,0,1,0\n", &[]);
    let by_name = of("named.csv", "kind,d,c,b,a\n5,4,3,2,1\n0,1,0,,-1\n", &[]);
    assert_eq!((in_order.lines().count(), &in_order), (2, &by_name));
    let classes = of("class.csv", "a,b,c,d,kind\n3,-100,0,0,1\n-3,100,0,0,0\n", &["--output", "class"]);
    assert_eq!(classes, "1\n0\n");
    let predict = |model: &str, more: &[&str], phrases: &[&str]| {
        let (graph, rows) = (file(model, "model.txt"), file(model, "rows.npy"));
        refuses(&[&["predict", &*graph, "--rows", &*rows], more].concat(), phrases);
    };
    predict("linear-dart", &["--output", "tree"], &["model.txt", "--output", "value, class, margin or leaf"]);
    predict("linear-dart", &["--output", "class"], &["model.txt", "no classes", "--output value"]);
    predict("linear-dart", &["--iterations", "all"], &["model.txt", "--iterations"]);
    refuses(&["inspect", &model], &["model.txt", "linear model", "fangorn predict"]);
    let forest = format!("{}/tests/zoo/lightgbm-binary/model.txt", env!("CARGO_MANIFEST_DIR"));
    refuses(&["graph", &forest], &["no leaf has a linear model", "load it as a forest"]);
    let forest = format!("{}/tests/zoo/churn/model.ubj", env!("CARGO_MANIFEST_DIR"));
    refuses(&["graph", &forest], &["model: an XGBoost model (UBJSON) is a forest", "predict, inspect"]);
    assert!(prints(&["graph", &model]).contains("linearLeaves(%in0, trees=%f0"));
}

/// The graph before and after its passes, one pass alone, its text in full, pictures, and its outputs.
#[test]
fn a_graph_is_printed_drawn_and_run() {
    let model = file("Pipeline", "model.onnx");
    let before = prints(&["graph", &model, "--before"]);
    let after = prints(&["graph", &model]);
    assert!(before.contains("\"Scaler\" = subtract(") && !before.contains("// constants"), "{before}");
    assert!(after.lines().filter(|line| line.starts_with('%')).count() > 5, "{after}");
    let forest = file("StackingClassifier", "model.onnx");
    let changes = prints(&["graph", &forest]);
    assert!(changes.starts_with("// ") && changes.contains(" nodes become "), "{changes}");
    let whole = prints(&["graph", &forest, "--whole", "--passes", "none"]);
    let parsed = fangorn::graph::Graph::parse(&whole).expect("its own text");
    assert_eq!(parsed.to_string(), whole);
    assert!(prints(&["graph", &model, "--dot"]).starts_with("digraph"));
    let scratch = Scratch::new("graph");
    let picture = scratch.path("graph.svg");
    prints(&["graph", &forest, "--svg", &picture]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(svg.contains("<svg") && svg.contains("forest of"), "{}", &svg[..200]);
    let inputs = scratch.file("inputs.txt", "f32[1, 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n");
    let outputs = prints(&["graph", &model, "--run", &inputs]);
    assert!(outputs.starts_with("i64[1] = [") && outputs.contains("\nf32[1, 3] = ["), "{outputs}");
    refuses(&["graph", &model, "--passes", "nothing"], &["there is no pass `nothing`", "redundant"]);
    let wrong = scratch.file("wrong.txt", "f32[1, 6] = [1.0]\n");
    refuses(&["graph", &model, "--run", &wrong], &["wrong.txt", "line 1", "1 elements"]);
}

/// The ways of forests and products, the types, and what passes did, as text and as JSON.
#[test]
fn explain_says_how_a_graph_was_chosen() {
    let pipeline = file("Pipeline", "model.onnx");
    let text = prints(&["explain", &pipeline]);
    for phrase in
        ["Forests, by", "there is none", "Products with a weight", "µs a row  dense, chosen", "Passes:"]
    {
        assert!(text.contains(phrase), "`{phrase}` is not in {text}");
    }
    let stacking = file("StackingClassifier", "model.onnx");
    let text = prints(&["explain", &stacking, "--batch", "64"]);
    for phrase in ["a batch of 64", "blends, chosen", "least estimate for 1024 rows"] {
        assert!(text.contains(phrase), "`{phrase}` is not in {text}");
    }
    let json = prints(&["explain", &stacking, "--batch", "64", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let forest = &report["forests"][0];
    assert_eq!((forest["chosen"].as_str(), report["batch"].as_u64()), (Some("walk"), Some(64)), "{report}");
    assert!(forest["walk"]["us_per_row"].as_f64().is_some_and(|time| time > 0.0), "{report}");
    let passes = report["passes"].as_array().expect("passes");
    assert!(passes.iter().any(|pass| pass["nodes"][0].as_u64() > pass["nodes"][1].as_u64()), "{report}");
    refuses(&["explain", &file("Pipeline", "rows.npy")], &["rows.npy"]);
}
