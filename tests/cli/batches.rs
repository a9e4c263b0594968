//! `predict` with Parquet and Arrow: the answers of the same rows in a `.npy`, columns by their names, kept columns,
//! and files that end in the middle.

use std::{fs::File, path::Path, sync::Arc};

use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float16Array, Float32Array, Float64Array,
    Int32Array, Int64Array, RecordBatch, RecordBatchReader, StringArray, StructArray,
    TimestampMicrosecondArray, UInt8Array,
    cast::AsArray,
    types::{Float32Type, Int32Type, Int64Type},
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
use fangorn::import::{self, LoadOptions};
use parquet::{
    arrow::{ArrowWriter, arrow_reader::ParquetRecordBatchReaderBuilder},
    file::properties::WriterProperties,
};

use crate::{Scratch, assert_refused, fangorn, model, prints, read_npy, refuses, text, with_input, zoo};

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
        FileWriter::try_new(File::create(&ipc).expect("a file"), &table.schema()).expect("a writer");
    writer.write(&table).and_then(|()| writer.finish()).expect("rows");
    let stream = scratch.path("rows.arrows");
    let mut writer =
        StreamWriter::try_new(File::create(&stream).expect("a file"), &table.schema()).expect("a writer");
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
    let colours: DictionaryArray<Int32Type> = (0..count)
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

/// A table with a column in place of another, or after the others.
fn with_column(table: &RecordBatch, name: &str, array: ArrayRef) -> RecordBatch {
    let schema = table.schema();
    let field = Arc::new(Field::new(name, array.data_type().clone(), true));
    let (mut fields, mut arrays) = (schema.fields().to_vec(), table.columns().to_vec());
    match schema.index_of(name) {
        Ok(at) => (fields[at], arrays[at]) = (field, array),
        Err(_) => {
            fields.push(field);
            arrays.push(array);
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).expect("a table")
}

fn write_stream(path: &str, table: &RecordBatch, batch: usize) {
    let mut writer =
        StreamWriter::try_new(File::create(path).expect("a file"), &table.schema()).expect("a writer");
    for first in (0..table.num_rows()).step_by(batch) {
        writer.write(&table.slice(first, batch.min(table.num_rows() - first))).expect("rows");
    }
    writer.finish().expect("an end");
}

fn write_arrow(path: &str, table: &RecordBatch, batch: usize) {
    let mut writer =
        FileWriter::try_new(File::create(path).expect("a file"), &table.schema()).expect("a writer");
    for first in (0..table.num_rows()).step_by(batch) {
        writer.write(&table.slice(first, batch.min(table.num_rows() - first))).expect("rows");
    }
    writer.finish().expect("an end");
}

/// pandas writes categories that are numbers or truth values as dictionaries of them, of which Parquet's reader makes
/// none of some types.
#[test]
fn dictionaries_of_numbers_are_read_and_kept() {
    let scratch = Scratch::new("batches-dictionaries");
    let table = table("churn");
    let count = table.num_rows() as i32;
    let decimals = Decimal128Array::from(vec![110, 250]).with_precision_and_scale(5, 2).expect("decimals");
    // The values in the dictionary, the same as a plain column, and how a CSV has them.
    let values: Vec<(ArrayRef, [&str; 2])> = vec![
        (Arc::new(BooleanArray::from(vec![true, false])), ["true", "false"]),
        (Arc::new(Float16Array::from_iter_values([1.5, 0.5].map(half::f16::from_f32))), ["1.5", "0.5"]),
        (Arc::new(decimals), ["1.10", "2.50"]),
        (Arc::new(Int64Array::from(vec![7, 9])), ["7", "9"]),
        (Arc::new(UInt8Array::from(vec![7, 9])), ["7", "9"]),
    ];
    for (values, texts) in values {
        let what = values.data_type().to_string();
        let keys = Int32Array::from_iter_values((0..count).map(|row| row % 2));
        let dictionary: ArrayRef = Arc::new(DictionaryArray::new(keys, values));
        let DataType::Dictionary(_, plain) = dictionary.data_type() else { panic!("{what}") };
        let plain = arrow_cast::cast(&dictionary, plain).expect("plain values");
        let files = [
            (&plain, "plain.parquet"),
            (&dictionary, "dictionary.parquet"),
            (&dictionary, "dictionary.arrow"),
        ];
        let answers = files.map(|(array, name)| {
            let file = scratch.path(name);
            let coded = with_column(&with_column(&table, "age", array.clone()), "extra", array.clone());
            match name.ends_with("arrow") {
                true => write_arrow(&file, &coded, 7),
                false => write_parquet(&file, &coded, 7),
            }
            let found =
                fangorn(&["predict", &model("churn"), "--rows", &file, "--sum", "tree", "--keep", "extra"]);
            assert_eq!(found.status.code(), Some(0), "{what}, {name}: {}", text(&found.stderr));
            text(&found.stdout)
        });
        assert_eq!(answers[0].lines().count(), 1 + count as usize);
        for (row, line) in answers[0].lines().skip(1).enumerate() {
            assert!(line.starts_with(&format!("{},", texts[row % 2])), "{what}: {line}");
        }
        assert!(answers[1] == answers[0] && answers[2] == answers[0], "{what}");
    }
}

/// Kept columns are found inside structs, under names with commas, and once only; times have their zones.
#[test]
fn kept_columns_have_paths_and_any_names() {
    let scratch = Scratch::new("batches-kept");
    let table = table("churn");
    let count = table.num_rows();
    let zip: ArrayRef = Arc::new((0..count as i64).map(|row| row + 100).collect::<Int64Array>());
    let there: Vec<bool> = (0..count).map(|row| row % 4 > 0).collect();
    let address = StructArray::new(
        vec![Field::new("zip", DataType::Int64, false)].into(),
        vec![zip],
        Some(there.clone().into()),
    );
    let time = 1_700_000_000_000_000;
    let [utc, berlin] = ["UTC", "Europe/Berlin"].map(|zone| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(vec![time; count]).with_timezone(zone))
    });
    let mut wide = with_column(&table, "address", Arc::new(address));
    wide = with_column(&wide, "a, b", Arc::new(Int64Array::from(vec![5; count])));
    wide = with_column(&with_column(&wide, "utc", utc), "berlin", berlin);
    let rows = scratch.path("rows.parquet");
    write_parquet(&rows, &wide, 7);
    let predict = |keep: &[&str], more: &[&str]| {
        let fixed = ["predict", &model("churn"), "--rows", &rows];
        fangorn(&[&fixed[..], keep, more].concat())
    };
    let found = predict(&["--keep", "address.zip,\"a, b\",utc", "--keep", "berlin"], &[]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let found = text(&found.stdout);
    let mut lines = found.lines();
    assert_eq!(lines.next(), Some("address.zip,\"a, b\",utc,berlin,value"));
    for (row, line) in lines.enumerate() {
        let zip = if there[row] { (row + 100).to_string() } else { String::new() };
        let times = "2023-11-14T22:13:20Z,2023-11-14T23:13:20+01:00";
        assert!(line.starts_with(&format!("{zip},5,{times},")), "{line}");
    }
    // In a table with types, they have the types that they had.
    let out = scratch.path("out.parquet");
    let written = predict(&["--keep", "address.zip,utc,address"], &["-o", &out]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let written = read_parquet(&out);
    assert_eq!(written.column_by_name("utc"), wide.column_by_name("utc"));
    assert_eq!(written.column_by_name("address"), wide.column_by_name("address"));
    let zips = written.column_by_name("address.zip").expect("a column").as_primitive::<Int64Type>();
    assert!(zips.iter().enumerate().all(|(row, zip)| zip == there[row].then_some(row as i64 + 100)));

    assert_refused(&predict(&["--keep", "address.street"], &[]), &["no column `address.street`"]);
    // A zone that nobody knows is refused before anything is written.
    let unknown = TimestampMicrosecondArray::from(vec![time; count]).with_timezone("Middle/Earth");
    write_arrow(&scratch.path("unknown.arrow"), &with_column(&table, "when", Arc::new(unknown)), 7);
    let unknown = scratch.path("unknown.arrow");
    refuses(
        &["predict", &model("churn"), "--rows", &unknown, "--keep", "when"],
        &["--keep: the column `when`", "cast the column", "Middle/Earth"],
    );

    // Which of two columns of one name is meant, nobody knows.
    let schema = table.schema();
    let id = table.column_by_name("id").expect("ids").clone();
    let fields = schema.fields().iter().cloned().chain([Arc::new(Field::new("id", DataType::Int64, true))]);
    let arrays = table.columns().iter().cloned().chain([id]).collect();
    let doubled =
        RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays).expect("a table");
    let [arrow, csv] = ["doubled.arrow", "doubled.csv"].map(|name| scratch.path(name));
    write_arrow(&arrow, &doubled, 7);
    let prints = |file: &str| ["predict", &model("churn"), "--rows", file, "--keep", "id"].map(str::to_owned);
    let header: Vec<String> = doubled.schema().fields().iter().map(|field| field.name().clone()).collect();
    std::fs::write(&csv, header.join(",") + "\n" + &vec!["0"; header.len()].join(",") + "\n")
        .expect("a file");
    for file in [arrow, csv] {
        let arguments = prints(&file);
        refuses(&arguments.each_ref().map(String::as_str), &["column `id` more than once"]);
    }
}

/// A stream of Arrow on standard input, and files whose batches several threads read, have the answers of one batch.
#[test]
fn batches_of_arrow_come_from_files_and_pipes() {
    let scratch = Scratch::new("batches-arrow");
    let churn = table("churn");
    // So many rows that a batch of a stream is cut.
    let table =
        arrow_select::concat::concat_batches(&churn.schema(), &vec![churn.clone(); 14_000]).expect("rows");
    let ids: ArrayRef = Arc::new((0..table.num_rows() as i64).collect::<Int64Array>());
    let table = with_column(&table, "id", ids);
    let model = model("churn");
    let fixed = ["predict", &model, "--sum", "tree", "--keep", "id,note", "--rows"];
    let (one, many, stream) =
        (scratch.path("one.arrow"), scratch.path("many.arrow"), scratch.path("stream.arrows"));
    write_arrow(&one, &table, table.num_rows());
    // More batches than a file has parts, and a batch that does not fill its part.
    write_arrow(&many, &table, 411);
    write_stream(&stream, &table, 150_000);
    let expected = prints(&[&fixed[..], &[&one]].concat());
    assert_eq!(expected.lines().count(), 1 + table.num_rows());
    let expected_ids = expected.lines().skip(1).map(|line| line.split(',').next().expect("an id").to_owned());
    assert!(expected_ids.enumerate().all(|(row, id)| id == row.to_string()));
    for file in [&many, &stream] {
        assert!(prints(&[&fixed[..], &[file]].concat()) == expected, "{file}");
    }
    let bytes = std::fs::read(&stream).expect("a file");
    for name in ["-", "/dev/stdin"] {
        let found = with_input(&[&fixed[..], &[name]].concat(), &bytes);
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        assert!(text(&found.stdout) == expected, "{name}");
    }
    // Other commands read it, too.
    let found = with_input(
        &[
            "predict",
            &model,
            "--rows",
            "-",
            "--base-margin",
            &scratch.file("m.csv", "0\n".repeat(table.num_rows())),
        ],
        &bytes,
    );
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));

    // A stream that is cut in a batch, and a file on standard input.
    let cut = with_input(&[&fixed[..], &["-"]].concat(), &bytes[..bytes.len() * 3 / 4]);
    assert_eq!(cut.status.code(), Some(2));
    assert!(text(&cut.stderr).contains("standard input: record batch 1: "), "{}", text(&cut.stderr));
    for (file, phrase) in [(&one, "a file of Arrow"), (&many, "ends in .arrow")] {
        let found = with_input(&[&fixed[..], &["-"]].concat(), &std::fs::read(file).expect("a file")[..1000]);
        assert_refused(&found, &["standard input", phrase]);
    }
    // Lengths in a stream's metadata that fit nothing end the run, and do not hang it.
    for at in [bytes.len() - 700, 2000, 900, 500] {
        let mut damaged = bytes.clone();
        damaged[at..at + 64].fill(0x7f);
        let damaged = scratch.file("damaged.arrows", damaged);
        let found = fangorn(&[&fixed[..], &[&damaged]].concat());
        assert!(matches!(found.status.code(), Some(0 | 2)), "{at}: {}", text(&found.stderr));
    }
    // A value that is refused has the number of its row in its batch.
    let mut ages = vec![30; table.num_rows()];
    ages[140_000] = i64::MAX;
    write_stream(&stream, &with_column(&table, "age", Arc::new(Int64Array::from(ages))), 150_000);
    let found = fangorn(&[&fixed[..], &[&stream]].concat());
    assert_eq!(found.status.code(), Some(2));
    let said = text(&found.stderr);
    assert!(said.contains("record batch 0: column `age`: row 140000: "), "{said}");
}

/// Metadata that fit nothing end a run in an error that names the batch, whatever memory they ask for.
#[test]
fn damaged_metadata_of_arrow_are_refused() {
    let scratch = Scratch::new("batches-damaged");
    let model = model("churn");
    let churn = table("churn");
    let (stream, file) = (scratch.path("stream.arrows"), scratch.path("file.arrow"));
    write_stream(&stream, &churn, 9);
    write_arrow(&file, &churn, 9);
    let [stream, file] = [stream, file].map(|path| std::fs::read(path).expect("a file"));
    let refused = |found: &std::process::Output, phrases: &[&str]| {
        let said = text(&found.stderr);
        assert_eq!(found.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && phrases.iter().all(|phrase| said.contains(phrase)), "{said}");
    };
    let of_stream = |bytes: &[u8]| with_input(&["predict", &model, "--rows", "-"], bytes);
    let length =
        |at: usize| u32::from_le_bytes(stream[at + 4..at + 8].try_into().expect("four bytes")) as usize;
    let place = |bytes: &[u8], length: i64| {
        bytes.windows(8).position(|part| part == length.to_le_bytes()).expect("the length is in the metadata")
    };
    let changed = |bytes: &[u8], at: usize, new: &[u8]| {
        let mut changed = bytes.to_vec();
        changed[at..at + new.len()].copy_from_slice(new);
        changed
    };
    // The second message is a batch.
    let second = 8 + length(0);
    let metadata = &stream[second + 8..second + 8 + length(second)];
    let body = arrow_ipc::root_as_message(metadata).expect("a message").bodyLength();
    let at = second + 8 + place(metadata, body);
    for length in [1i64 << 40, 12 << 30, -1, i64::MAX, 5] {
        let found = of_stream(&changed(&stream, at, &length.to_le_bytes()));
        refused(&found, &["standard input: record batch 0: ", "; send the stream again"]);
    }
    for at in [4, second + 4] {
        let found = of_stream(&changed(&stream, at, &0x7fff_ffffu32.to_le_bytes()));
        refused(&found, &["standard input: ", "it ends within a message; send the stream again"]);
    }
    // A byte of the schema that means nothing is no defect of the program.
    for at in (8..second).step_by(37) {
        let found = of_stream(&changed(&stream, at, &[stream[at] ^ 0x5a]));
        assert!(matches!(found.status.code(), Some(0 | 2)), "{at}: {}", text(&found.stderr));
        assert!(!text(&found.stderr).contains("defect"), "{at}: {}", text(&found.stderr));
    }
    refused(&of_stream(&[&stream[..], &stream[..]].concat()), &["as if two streams were joined"]);
    for end in [1, 4, 6, 9] {
        refused(&of_stream(&stream[..second + end]), &["record batch 0: it ends within a message"]);
    }
    // A stream may end without its mark.
    let whole = of_stream(&stream);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert_eq!(of_stream(&stream[..stream.len() - 8]).stdout, whole.stdout);

    let end = file.len() - 10;
    let begin = end - u32::from_le_bytes(file[end..end + 4].try_into().expect("four bytes")) as usize;
    let footer = arrow_ipc::root_as_footer(&file[begin..end]).expect("a footer");
    let body = footer.recordBatches().expect("batches").get(1).bodyLength();
    let at = begin + place(&file[begin..end], body);
    for (length, phrase) in
        [(1i64 << 40, "does not lie in the file"), (-1, "does not lie in the file"), (5, "record batch")]
    {
        let damaged = scratch.file("damaged.arrow", changed(&file, at, &length.to_le_bytes()));
        let found = fangorn(&["predict", &model, "--rows", &damaged]);
        refused(&found, &["damaged.arrow: ", phrase, "; write the file again"]);
        assert!(!text(&found.stderr).contains("defect"), "{}", text(&found.stderr));
    }
    let damaged = scratch.file("damaged.arrow", changed(&file, end, &i32::MAX.to_le_bytes()));
    refused(&fangorn(&["predict", &model, "--rows", &damaged]), &["it ends before its footer"]);
    let damaged = scratch.file("damaged.arrow", changed(&file, at, &5i64.to_le_bytes()));
    let found = fangorn(&["predict", &model, "--rows", &damaged, "--on-error", "skip"]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert!(text(&found.stderr).contains("left out"), "{}", text(&found.stderr));
}

/// Parquet's reader panics on some damaged schemas. That is no defect of the program.
#[test]
fn damaged_metadata_of_parquet_are_refused() {
    let scratch = Scratch::new("batches-damaged-parquet");
    let (model, path) = (model("churn"), scratch.path("whole.parquet"));
    write_parquet(&path, &table("churn"), 9);
    let whole = std::fs::read(&path).expect("a file");
    let name = b"ARROW:schema";
    let schema = whole.windows(name.len()).position(|part| part == name).expect("a schema") + name.len();
    let mut refused = 0;
    for at in (schema..whole.len() - 8).step_by(5) {
        let mut damaged = whole.clone();
        // The schema is text of base64.
        damaged[at] = b'8';
        let damaged = scratch.file("damaged.parquet", damaged);
        let found = fangorn(&["predict", &model, "--rows", &damaged]);
        let said = text(&found.stderr);
        assert!(matches!(found.status.code(), Some(0 | 2)), "{at}: {said}");
        assert!(!said.contains("defect"), "{at}: {said}");
        let is_refused = found.status.code() == Some(2);
        assert!(!is_refused || said.lines().count() == 1, "{at}: {said}");
        refused += usize::from(is_refused && said.contains("write the file again"));
    }
    assert!(refused > 20, "{refused}");
}

/// pyarrow's `write_table(…, compression="none", use_dictionary=False, row_group_size=10, write_page_checksum=True)` has
/// written the rows of `churn`.
#[test]
fn a_page_that_its_checksum_does_not_fit_is_damaged() {
    let scratch = Scratch::new("batches-checksums");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let whole = include_bytes!("page-checksums.parquet");
    let file = scratch.file("whole.parquet", whole);
    let expected = prints(&["predict", &model, "--rows", &rows]);
    assert_eq!(prints(&["predict", &model, "--rows", &file]), expected);
    let mut damaged = whole.to_vec();
    // The last byte of the first column in the second row group.
    damaged[1289] ^= 1;
    let file = scratch.file("damaged.parquet", damaged);
    let out = scratch.path("out.npy");
    refuses(&["predict", &model, "--rows", &file, "-o", &out], &["damaged.parquet: row group 1: ", "CRC"]);
    let found = fangorn(&["predict", &model, "--rows", &file, "--on-error", "skip"]);
    assert_eq!(text(&found.stdout).lines().count(), 10);
    assert!(text(&found.stderr).contains("1 of 2 parts are left out"), "{}", text(&found.stderr));
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
