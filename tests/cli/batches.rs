//! `predict` with Parquet and Arrow: the answers of the same rows in a `.npy`, columns by their names, kept columns,
//! and files that end in the middle.

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, RecordBatchReader, StringArray,
    cast::AsArray,
    types::{Float32Type, Int32Type},
};
use arrow_schema::{DataType, Field, Schema};
use fangorn::import::{self, LoadOptions};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};

use crate::{Scratch, fangorn, model, prints, read_npy, refuses, text, zoo};

/// The names of a model's columns, or those that libraries make up.
fn names(name: &str) -> Vec<String> {
    let forest = import::load(Path::new(&model(name)), &LoadOptions::default()).expect("a model");
    let names = forest.features.iter().enumerate();
    names.map(|(at, feature)| feature.name.clone().unwrap_or_else(|| format!("f{at}"))).collect()
}

/// The rows of a model as a table: its columns in reverse, an id before them and a text in their middle.
pub fn table(name: &str) -> RecordBatch {
    let names = names(name);
    let (shape, values) = match Path::new(&zoo(name, "rows64.npy")).exists() {
        true => read_npy::<f64>(&zoo(name, "rows64.npy")),
        false => {
            let (shape, values) = read_npy::<f32>(&zoo(name, "rows.npy"));
            (shape, values.into_iter().map(f64::from).collect())
        }
    };
    let (rows, width) = (shape[0] as usize, shape[1] as usize);
    let mut columns: Vec<(String, ArrayRef)> = (0..width)
        .rev()
        .map(|at| {
            let column = values[at..].iter().step_by(width).copied();
            // Types take turns; NaN is null in one of them.
            let array: ArrayRef = match at % 3 {
                0 => Arc::new(column.map(|v| (!v.is_nan()).then_some(v)).collect::<Float64Array>()),
                1 if column.clone().all(|v| v.is_nan() || f64::from(v as f32) == v) => {
                    Arc::new(column.map(|v| Some(v as f32)).collect::<Float32Array>())
                }
                _ => Arc::new(column.map(Some).collect::<Float64Array>()),
            };
            (names[at].clone(), array)
        })
        .collect();
    columns.insert(0, ("id".into(), Arc::new((0..rows as i64).map(|id| id * 7).collect::<Int64Array>())));
    let words = (0..rows).map(|row| (row % 5 > 0).then(|| format!("a, \"{row}\"")));
    columns.insert(width / 2 + 1, ("note".into(), Arc::new(words.collect::<StringArray>())));
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect())
        .expect("a table")
}

/// The type of a dictionary of texts.
pub fn colours_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Writes a table with so many rows in a group.
pub fn write_parquet(path: &str, table: &RecordBatch, group: usize) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties)).expect("a writer");
    writer.write(table).expect("rows");
    writer.close().expect("an end");
}

pub fn read_parquet(path: &str) -> RecordBatch {
    let file = File::open(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a reader").with_batch_size(1 << 20);
    let reader = reader.build().expect("batches");
    let schema = reader.schema();
    let batches: Vec<_> = reader.map(|batch| batch.expect("a batch")).collect();
    match &batches[..] {
        [] => RecordBatch::new_empty(schema),
        [batch] => batch.clone(),
        _ => panic!("{} batches", batches.len()),
    }
}

/// Every output of models of each library, from files of one row a group to one group, is that of the `.npy`.
#[test]
fn tables_have_the_answers_of_their_rows() {
    let scratch = Scratch::new("batches");
    for name in
        ["churn", "softprob", "lightgbm-regression", "catboost-multiclass-depthwise", "logistic-missing"]
    {
        let table = table(name);
        let doubles = Path::new(&zoo(name, "rows64.npy")).exists();
        let rows = zoo(name, if doubles { "rows64.npy" } else { "rows.npy" });
        let count = table.num_rows();
        for (group, output) in [(1, "value"), (7, "leaf"), (count.div_ceil(2), "margin"), (count, "tree")] {
            let file = scratch.path("rows.parquet");
            write_parquet(&file, &table, group);
            let predict = |rows: &str, more: &[&str]| {
                let model = model(name);
                // Batches of other sizes may add up in another order.
                let fixed = ["predict", &model, "--rows", rows, "--output", output, "--sum", "tree"];
                let found = fangorn(&[&fixed[..], more].concat());
                assert_eq!(found.status.code(), Some(0), "{name}: {}", text(&found.stderr));
                text(&found.stdout)
            };
            let expected = predict(&rows, &[]);
            assert_eq!(expected.lines().count(), count);
            assert_eq!(predict(&file, &[]), expected, "{name}, {output}, groups of {group}");
            // With columns beside them, in the order that is asked for.
            let kept = predict(&file, &["--keep", "note,id"]);
            let mut lines = kept.lines();
            let header = lines.next().expect("a header");
            assert!(header.starts_with(&format!("note,id,{output}")), "{header}");
            for (row, (line, expected)) in lines.zip(expected.lines()).enumerate() {
                let note = if row % 5 > 0 { format!("\"a, \"\"{row}\"\"\"") } else { String::new() };
                assert_eq!(line, format!("{note},{},{expected}", row * 7), "{name}");
            }
            // A file of numpy is the same file.
            let [one, other] = [("rows", &rows), ("table", &file)].map(|(file, rows)| {
                let out = scratch.path(&format!("{file}.npy"));
                predict(rows, &["-o", &out]);
                std::fs::read(out).expect("predictions")
            });
            assert!(one == other, "{name}, {output}");
        }
    }
}

#[test]
fn parquet_and_arrow_hold_what_is_kept_and_predicted() {
    let scratch = Scratch::new("batches-out");
    let (name, table) = ("softprob", table("softprob"));
    let count = table.num_rows();
    let rows = scratch.path("rows.parquet");
    write_parquet(&rows, &table, 11);
    let ipc = scratch.path("rows.arrow");
    let mut writer =
        arrow_ipc::writer::FileWriter::try_new(File::create(&ipc).expect("a file"), &table.schema())
            .expect("a writer");
    writer.write(&table).and_then(|()| writer.finish()).expect("rows");
    let stream = scratch.path("rows.arrows");
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new(File::create(&stream).expect("a file"), &table.schema())
            .expect("a writer");
    writer.write(&table).and_then(|()| writer.finish()).expect("rows");

    let out = scratch.path("out.parquet");
    let predict = |rows: &str, output: &str, out: &str, keep: &str| {
        let found = fangorn(&[
            "predict",
            &model(name),
            "--rows",
            rows,
            "--output",
            output,
            "-o",
            out,
            "--keep",
            keep,
        ]);
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    };
    let (shape, expected) = read_npy::<f32>(&zoo(name, "margin.npy"));
    for rows in [&rows, &ipc, &stream] {
        predict(rows, "margin", &out, "id,note");
        let found = read_parquet(&out);
        assert_eq!(found.num_columns(), 2 + shape[1] as usize);
        for kept in ["id", "note"] {
            assert_eq!(found.column_by_name(kept), table.column_by_name(kept), "{kept}");
        }
        for class in 0..shape[1] as usize {
            let column = found.column_by_name(&format!("margin_{class}")).expect("a column");
            let column = column.as_primitive::<Float32Type>().values();
            let all = column.iter().zip(expected[class..].iter().step_by(shape[1] as usize));
            all.for_each(|(a, b)| assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} {b}"));
        }
    }
    // The same rows give the same bytes, however many threads decode them.
    let once = std::fs::read(&out).expect("a file");
    predict(&stream, "margin", &out, "id,note");
    assert!(once == std::fs::read(&out).expect("a file"));

    // A dictionary is kept as its texts: each batch may have one of its own.
    let colours: arrow_array::DictionaryArray<Int32Type> = (0..count)
        .map(|row| format!("colour {}", row / 11))
        .collect::<Vec<_>>()
        .iter()
        .map(|text| Some(text.as_str()))
        .collect();
    let fields = table
        .schema()
        .fields()
        .iter()
        .cloned()
        .chain([Arc::new(Field::new("colour", colours_type(), true))])
        .collect::<Vec<_>>();
    let arrays = table.columns().iter().cloned().chain([Arc::new(colours) as ArrayRef]).collect();
    let coloured = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a table");
    let coloured_rows = scratch.path("coloured.parquet");
    write_parquet(&coloured_rows, &coloured, 11);
    let out = scratch.path("out.ipc");
    predict(&coloured_rows, "margin", &out, "colour");
    let reader =
        arrow_ipc::reader::FileReader::try_new(File::open(&out).expect("a file"), None).expect("a reader");
    let found: Vec<String> = reader
        .flat_map(|batch| {
            let batch = batch.expect("a batch");
            let texts = batch.column(0).as_string::<i32>();
            texts.iter().map(|text| text.expect("a text").to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(found, (0..count).map(|row| format!("colour {}", row / 11)).collect::<Vec<_>>());

    let out = scratch.path("out.feather");
    predict(&rows, "leaf", &out, "id");
    let reader =
        arrow_ipc::reader::FileReader::try_new(File::open(&out).expect("a file"), None).expect("a reader");
    let (shape, leaves) = read_npy::<i32>(&zoo(name, "leaves.npy"));
    let mut row = 0;
    for batch in reader {
        let batch = batch.expect("a batch");
        for tree in 0..shape[1] as usize {
            let column = batch.column(1 + tree).as_primitive::<Int32Type>().values();
            let expected = leaves[row * shape[1] as usize + tree..].iter().step_by(shape[1] as usize);
            assert!(column.iter().zip(expected).all(|(a, b)| a == b), "tree {tree}");
        }
        row += batch.num_rows();
    }
    assert_eq!(row, count);
}

/// `--expect` and other commands read the rows whole.
#[test]
fn commands_that_read_rows_whole_read_tables() {
    let scratch = Scratch::new("batches-whole");
    let rows = scratch.path("rows.pq");
    write_parquet(&rows, &table("churn"), 9);
    let (model, expected) = (model("churn"), zoo("churn", "margin.npy"));
    let found = fangorn(&["predict", &model, "--rows", &rows, "--output", "margin", "--expect", &expected]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert!(text(&found.stderr).contains("largest difference"));
    prints(&["bench", &model, "--rows", &zoo("churn", "rows.npy"), "--batch", "4", "--seconds", "0.01"]);
    // A matrix becomes a table, too.
    let out = scratch.path("out.parquet");
    prints(&["predict", &model, "--rows", &zoo("churn", "rows.npy"), "--output", "margin", "-o", &out]);
    let (_, margins) = read_npy::<f32>(&expected);
    let found = read_parquet(&out);
    assert_eq!(found.schema().field(0), &Field::new("margin", DataType::Float32, false));
    assert_eq!(found.num_rows(), margins.len());
}

#[test]
fn a_table_of_no_rows_has_the_columns_of_its_predictions() {
    let scratch = Scratch::new("batches-empty");
    let (rows, out) = (scratch.path("rows.parquet"), scratch.path("out.parquet"));
    write_parquet(&rows, &table("softprob").slice(0, 0), 9);
    let found = fangorn(&["predict", &model("softprob"), "--rows", &rows, "-o", &out, "--keep", "id"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let found = read_parquet(&out);
    assert_eq!((found.num_rows(), found.schema().field(0).name().as_str()), (0, "id"));
    assert!(found.num_columns() > 2);
}

#[test]
fn tables_that_do_not_fit_are_refused_in_one_line() {
    let scratch = Scratch::new("batches-refused");
    let whole = table("churn");
    let rows = scratch.path("rows.parquet");
    write_parquet(&rows, &whole, 9);
    let (model, out) = (model("churn"), scratch.path("out.parquet"));
    let refused = |rows: &str, more: &[&str], phrases: &[&str]| {
        refuses(&[&["predict", &model, "--rows", rows, "-o", &out], more].concat(), phrases);
        assert!(!Path::new(&out).exists());
        let left = std::fs::read_dir(&scratch.0).expect("the folder").flatten();
        assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains("tmp")));
    };
    refused(&rows, &["--keep", "day"], &["rows.parquet", "no column `day`", "id, "]);
    refused(&rows, &["--keep", "id", "--expect", &zoo("churn", "margin.npy")], &["--keep", "--expect"]);
    refused(&zoo("churn", "rows.npy"), &["--keep", "id"], &["--keep", ".csv, .parquet or .arrow"]);

    let missing = scratch.path("missing.parquet");
    let columns: Vec<usize> =
        (0..whole.num_columns()).filter(|at| whole.schema().field(*at).name() != "age").collect();
    write_parquet(&missing, &whole.project(&columns).expect("columns"), 9);
    refused(&missing, &[], &["missing.parquet", "columns"]);

    // A text where the model takes a number, by its column.
    let texts = scratch.path("texts.parquet");
    let schema = whole.schema();
    let arrays = (0..whole.num_columns()).map(|at| match schema.field(at).name().as_str() {
        "age" => whole.column_by_name("note").expect("texts").clone(),
        _ => whole.column(at).clone(),
    });
    let fields: Vec<Field> = (0..whole.num_columns())
        .map(|at| match schema.field(at).name().as_str() {
            "age" => Field::new("age", DataType::Utf8, true),
            _ => schema.field(at).clone(),
        })
        .collect();
    let table = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).expect("a table");
    write_parquet(&texts, &table, 9);
    refused(&texts, &[], &["texts.parquet", "column `age`", "texts", "cast"]);

    // Bytes that are no file of the format, or that end in the middle.
    let bytes = std::fs::read(&rows).expect("a file");
    for (name, content) in [
        ("none.parquet", &b"no parquet"[..]),
        ("none.arrow", b"no arrow"),
        ("empty.parquet", b""),
        ("half.parquet", &bytes[..bytes.len() / 2]),
    ] {
        refused(&scratch.file(name, content), &[], &[name, "write the file again"]);
    }
    // A page that is damaged is found where it is read, and named with its row group.
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 3..bytes.len() / 3 + 64].fill(0xff);
    let file = scratch.file("damaged.parquet", damaged);
    let found = fangorn(&["predict", &model, "--rows", &file, "-o", &out]);
    if found.status.code() != Some(0) {
        assert!(!Path::new(&out).exists());
        assert!(text(&found.stderr).contains("row group"), "{}", text(&found.stderr));
    }
}
