//! `predict` with rows that are read part by part: CSV, `.npy` and pipes of several parts, and parts that can't be read.

use std::{
    fmt::Write as _,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::Stdio,
};

use arrow_array::{ArrayRef, RecordBatch, cast::AsArray};
use arrow_select::concat::concat_batches;
use npyz::Order;

use crate::{
    Scratch,
    batches::{colours_type, read_parquet, table, write_parquet},
    command, fangorn, model, npy, read_npy, refuses, text, zoo,
};

/// The rows of a model again and again, so many that they are several parts. Returns `rows x columns` values.
fn many_rows(name: &str) -> ([u64; 2], Vec<f32>) {
    let (shape, values) = read_npy::<f32>(&zoo(name, "rows.npy"));
    let [rows, columns] = [shape[0], shape[1]];
    let times = (1 << 22) / values.len() + 1;
    // A number that is in every row makes it another one.
    let other = |at: usize, value: f32| value + (at / values.len() % 7) as f32 * 0.25;
    let all = (0..times * values.len()).map(|at| other(at, values[at % values.len()]));
    ([rows * times as u64, columns], all.collect())
}

/// A CSV with an id before the columns and a note in their middle: a text with line ends, commas and quotation marks.
/// Returns its text and the notes.
fn csv_of([rows, columns]: [u64; 2], values: &[f32]) -> (String, Vec<String>) {
    let names: Vec<String> = (0..columns).map(|at| format!("f{at}")).collect();
    let middle = columns as usize / 2;
    let mut text = format!("id,{},note,{}\n", names[..middle].join(","), names[middle..].join(","));
    let mut notes = Vec::new();
    for (row, values) in values.chunks(columns as usize).enumerate() {
        let note = match row % 4 {
            0 => format!("plain {row}"),
            1 => format!("\"a\", {row}"),
            2 => format!("two\nlines of {row}, \"or\r\nthree\""),
            _ => String::new(),
        };
        let _ = write!(text, "{row}");
        for (at, value) in values.iter().enumerate() {
            if at == middle {
                let _ = write!(text, ",\"{}\"", note.replace('"', "\"\""));
            }
            let _ = if value.is_nan() { write!(text, ",") } else { write!(text, ",{value:?}") };
        }
        text.push('\n');
        notes.push(note);
    }
    assert_eq!(notes.len() as u64, rows);
    (text, notes)
}

#[test]
fn several_parts_have_the_answers_of_the_whole() {
    let scratch = Scratch::new("parts");
    let (shape, values) = many_rows("softprob");
    let (csv, notes) = csv_of(shape, &values);
    assert!(csv.len() > 3 << 22, "{} bytes are too few parts", csv.len());
    let model = model("softprob");
    let rows = scratch.file("rows.csv", &csv);
    let fixed = ["predict", &model, "--sum", "tree", "--rows"];
    let predict = |rows: &str, more: &[&str]| {
        let found = fangorn(&[&fixed[..], &[rows], more].concat());
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        found.stdout
    };
    // The reference: rows that are read whole, column by column.
    let columns = shape[1] as usize;
    let by_columns: Vec<f32> =
        (0..columns).flat_map(|at| values[at..].iter().step_by(columns).copied()).collect();
    let whole = scratch.file("whole.npy", npy(&shape, Order::Fortran, &by_columns));
    let out = scratch.path("out.npy");
    predict(&whole, &["-o", &out]);
    let expected = std::fs::read(&out).expect("predictions");
    let parts = scratch.file("parts.npy", npy(&shape, Order::C, &values));
    for rows in [&parts, &rows] {
        predict(rows, &["-o", &out]);
        assert!(std::fs::read(&out).expect("predictions") == expected, "{rows}");
    }
    // With columns beside them, as texts; on one thread and on several.
    let table = scratch.path("out.parquet");
    predict(&rows, &["-o", &table, "--keep", "note,id"]);
    let found = read_parquet(&table);
    let texts = |name: &str| -> Vec<String> {
        let column = found.column_by_name(name).expect("a column").as_string::<i32>();
        column.iter().map(|text| text.expect("a text").to_owned()).collect()
    };
    assert!(texts("note") == notes);
    assert!(texts("id") == (0..notes.len()).map(|id| id.to_string()).collect::<Vec<_>>());
    // What is written reads back: the notes are what they were.
    let again = scratch.path("again.csv");
    predict(&rows, &["-o", &again, "--keep", "id,note"]);
    let mut reader = ::csv::Reader::from_path(&again).expect("a file");
    let (_, predictions) = read_npy::<f32>(&out);
    let width = predictions.len() / notes.len();
    for (row, record) in reader.records().enumerate() {
        let record = record.expect("a record");
        assert_eq!((record[0].parse(), &record[1]), (Ok(row), &*notes[row]));
        let found: Vec<f32> = record.iter().skip(2).map(|value| value.parse().expect("a value")).collect();
        assert_eq!(found, predictions[row * width..][..width]);
    }
    // A wrong cell in the last part has the number of its line, and nothing is written.
    let wrong = csv.trim_end().rsplit_once(',').expect("cells").0.to_owned() + ",x\n";
    let wrong = scratch.file("wrong.csv", wrong);
    let line = format!("line {}", csv.lines().count());
    let target = scratch.path("wrong.parquet");
    refuses(&["predict", &model, "--rows", &wrong, "-o", &target], &[&line, "`x` is no number"]);
    assert!(!Path::new(&target).exists());
}

/// Cells of every kind, in lines with and without quotation marks, which are read in different ways: the same answers, and
/// the same refusals.
#[test]
fn lines_without_quotation_marks_are_read_as_those_with_them() {
    let scratch = Scratch::new("plain");
    let model = model("churn");
    let mut state = 3u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let columns = npy_width("churn");
    let cells = [
        "0",
        "1",
        "-1",
        "12.5",
        "-0.25",
        "3.14159265",
        "123456789.12345678",
        "0.1234567890123456789",
        "1e3",
        "-2.5E-2",
        "",
        " 7 ",
        "nan",
        "NA",
        "inf",
        "-inf",
        "True",
        "false",
        "+4",
        ".5",
        "6.",
        "9007199254740993",
        "00012",
        "-0",
        "12345678",
        "1234567",
        "123456789",
        "0.12345678",
        "0.1234567",
        "0.123456781",
    ];
    let odd = ["x", "1.2.3", "--1", "1e", "é", "."];
    let ends = ["\n", "\r\n"];
    for case in 0..60 {
        let (mut plain, mut quoted) = (String::new(), String::new());
        let header: Vec<String> = (0..columns).map(|at| format!("f{at}")).collect();
        let names = ["id"].into_iter().map(str::to_owned).chain(header).collect::<Vec<_>>().join(",") + "\n";
        plain += &names;
        quoted += &names;
        for row in 0..1 + random(40) {
            let mut line: Vec<String> = (0..columns).map(|_| cells[random(cells.len())].to_owned()).collect();
            line.insert(0, ["a", "ä b", "", "7"][random(4)].to_owned());
            match random(40) {
                0 if case % 2 == 0 => line[1 + random(columns)] = odd[random(odd.len())].to_owned(),
                1 if case % 2 == 0 => drop(line.pop()),
                2 if case % 2 == 0 => line.push("1".into()),
                _ => {}
            }
            let end = [ends[0], ends[1], "\n\n", "\r\n\r\n"][random(4)];
            plain += &(line.join(",") + end);
            quoted += &(line.iter().map(|cell| format!("\"{cell}\"")).collect::<Vec<_>>().join(",") + end);
            // The last line may have no end.
            if row % 7 == 0 && random(10) == 0 {
                plain.truncate(plain.trim_end_matches(['\r', '\n']).len());
                quoted.truncate(quoted.trim_end_matches(['\r', '\n']).len());
                break;
            }
        }
        let rows = scratch.path("rows.csv");
        let run = |text: &str, more: &[&str]| {
            std::fs::write(&rows, text).expect("a file");
            let found = fangorn(
                &[&["predict", &model, "--by-position", "--keep", "id", "--rows", &rows], more].concat(),
            );
            (found.status.code(), crate::text(&found.stdout), crate::text(&found.stderr))
        };
        for more in [&[][..], &["--on-error", "skip"]] {
            assert_eq!(run(&plain, more), run(&quoted, more), "case {case}:\n{plain}");
        }
    }
}

fn npy_width(name: &str) -> usize {
    read_npy::<f32>(&zoo(name, "rows.npy")).0[1] as usize
}

/// Whoever writes rows into a pipe gets the answer to each before the next one.
#[test]
fn a_pipe_is_answered_row_by_row() {
    let model = model("churn");
    let (shape, values) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let mut child = command(&["predict", &model, "--rows", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut answers = Vec::new();
    for row in values.chunks(shape[1] as usize).take(5) {
        let cells: Vec<String> =
            row.iter().map(|v| if v.is_nan() { String::new() } else { format!("{v:?}") }).collect();
        writeln!(input, "{}", cells.join(",")).expect("it reads");
        answers.push(output.next().expect("an answer").expect("a line"));
    }
    // A row that can't be read is answered, too: by the end.
    writeln!(input, "x").expect("it reads");
    assert!(output.next().is_none() && child.wait().expect("it ends").code() == Some(2));
    drop(input);
    let expected = text(&fangorn(&["predict", &model, "--rows", &zoo("churn", "rows.npy")]).stdout);
    for (answer, expected) in answers.iter().zip(expected.lines()) {
        let [answer, expected] = [answer, expected].map(|text| text.parse::<f32>().expect("a value"));
        assert!((answer - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{answer} and {expected}");
    }
}

#[test]
fn what_can_not_be_read_is_left_out_if_that_is_asked_for() {
    let scratch = Scratch::new("skipped");
    let model = model("churn");
    let skipped = |rows: &str, more: &[&str]| {
        let found = fangorn(&[&["predict", &model, "--rows", rows, "--on-error", "skip"], more].concat());
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        (text(&found.stdout), text(&found.stderr))
    };
    // Lines of a CSV: a word, too few fields, a word again.
    let whole = text(&fangorn(&["predict", &model, "--rows", &zoo("churn", "rows.npy")]).stdout);
    let (shape, values) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let line = |row: &[f32]| -> String {
        let cell = |v: &f32| if v.is_nan() { String::new() } else { format!("{v:?}") };
        row.iter().map(cell).collect::<Vec<_>>().join(",") + "\n"
    };
    let mut lines: Vec<String> = values.chunks(shape[1] as usize).map(line).collect();
    let expected: Vec<&str> =
        whole.lines().enumerate().filter(|(at, _)| ![3, 4, 9].contains(at)).map(|l| l.1).collect();
    lines[3] = lines[3].replacen(|c: char| c.is_ascii_digit(), "x", 1);
    lines[4] = "1,2\n".into();
    lines[9] = lines[9].replacen(|c: char| c.is_ascii_digit(), "y", 1);
    let rows = scratch.file("rows.csv", lines.concat());
    let (found, said) = skipped(&rows, &[]);
    assert_eq!(found.lines().count(), expected.len());
    for (found, expected) in found.lines().zip(expected) {
        let [found, expected] = [found, expected].map(|text| text.parse::<f32>().expect("a value"));
        assert!((found - expected).abs() <= 1e-6, "{found} and {expected}");
    }
    assert!(said.contains("3 rows are left out") && said.contains("line 4"), "{said}");
    refuses(&["predict", &model, "--rows", &rows], &["rows.csv", "line 4"]);

    // A row group of a Parquet file.
    let table = table("churn");
    let file = scratch.path("rows.parquet");
    write_parquet(&file, &table, 8);
    let (all, _) = skipped(&file, &["--keep", "id"]);
    let mut bytes = std::fs::read(&file).expect("a file");
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&std::fs::File::open(&file).expect("a file"))
        .expect("metadata");
    let group = metadata.row_group(1);
    for column in 0..group.num_columns() {
        let (start, length) = group.column(column).byte_range();
        bytes[start as usize..][..length as usize].fill(0xff);
    }
    let damaged = scratch.file("damaged.parquet", bytes);
    let out = scratch.path("out.csv");
    refuses(&["predict", &model, "--rows", &damaged, "-o", &out], &["damaged.parquet", "row group 1"]);
    let (found, said) = skipped(&damaged, &["--keep", "id"]);
    let lines: Vec<&str> = all.lines().collect();
    let expected = [&lines[..9], &lines[17..]].concat();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);
    let groups = table.num_rows().div_ceil(8);
    assert!(
        said.contains(&format!("1 of {groups} parts are left out")) && said.contains("row group 1"),
        "{said}"
    );
    // Rows that all are damaged are an error, and so is a wish that can't be met.
    let width = shape[1] as usize;
    let wrong = scratch
        .file("wrong.csv", format!("{}\n{}\n", vec!["1"; width].join(","), vec!["x"; width].join(",")));
    let (found, _) = skipped(&wrong, &[]);
    assert_eq!(found.lines().count(), 1);
    let names: Vec<String> = (0..width).map(|at| format!("f{at}")).collect();
    let wrong = scratch.file("wrong.csv", format!("{}\n{}\n", names.join(","), vec!["x"; width].join(",")));
    let by_position = ["predict", &model, "--rows", &wrong, "--on-error", "skip", "--by-position"];
    refuses(&by_position, &["wrong.csv", "none of its rows", "line 2"]);
    let all = scratch.file("all.csv", lines[1..].join("\n"));
    refuses(&["predict", &model, "--rows", &all, "--on-error", "skip"], &["all.csv"]);
    let expect = zoo("churn", "margin.npy");
    refuses(
        &["predict", &model, "--rows", &rows, "--on-error", "skip", "--expect", &expect],
        &["--on-error"],
    );
}

/// Files of libsvm hold a part of the columns. What a row does not hold is what the model's producer takes it for.
#[test]
fn rows_of_libsvm() {
    let scratch = Scratch::new("libsvm");
    let predicted = |name: &str, rows: &str, more: &[&str]| {
        let model = model(name);
        let found = fangorn(&[&["predict", &model, "--sum", "tree", "--rows", rows], more].concat());
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        text(&found.stdout)
    };
    for (name, absent) in [("churn", f32::NAN), ("lightgbm-binary", 0.0)] {
        let (shape, mut values) = read_npy::<f32>(&zoo(name, "rows.npy"));
        let width = shape[1] as usize;
        let mut lines = [String::new(), String::new()];
        for (row, numbers) in values.chunks_mut(width).enumerate() {
            for (index, lines) in lines.iter_mut().enumerate() {
                *lines += ["0", "-1.5", "1 qid:3"][row % 3];
                for (at, value) in numbers.iter().enumerate().filter(|(at, _)| (at + row) % 3 > 0) {
                    let _ = write!(lines, " {}:{value:?}", at + index);
                }
                *lines += ["\n", " # a note\n\n", "\r\n"][row % 3];
            }
            numbers
                .iter_mut()
                .enumerate()
                .filter(|(at, _)| (at + row) % 3 == 0)
                .for_each(|(_, value)| *value = absent);
        }
        let dense = scratch.file("dense.npy", npy(&[shape[0], shape[1]], Order::C, &values));
        let expected = predicted(name, &dense, &[]);
        let rows = scratch.file("rows.libsvm", &lines[0]);
        assert_eq!(predicted(name, &rows, &[]), expected);
        let from_one = scratch.file("rows.svm", &lines[1]);
        assert_eq!(predicted(name, &from_one, &["--index-from", "1"]), expected);
        let model = model(name);
        refuses(&["predict", &model, "--rows", &from_one], &["rows.svm", "no column", "--index-from 1"]);
        for (line, phrase) in [
            ("x 1:2", "`x` is no label"),
            ("0 1:x", "`1:x`"),
            ("0 1", "`1`"),
            ("0 -1:2", "`-1:2`"),
            ("1:2 2:3", "`1:2`"),
        ] {
            let wrong = scratch.file("wrong.libsvm", format!("0 0:1\n{line}\n0 0:1\n"));
            refuses(&["predict", &model, "--rows", &wrong], &["wrong.libsvm", "line 2", phrase]);
            let two = fangorn(&["predict", &model, "--rows", &wrong, "--on-error", "skip"]);
            assert_eq!(text(&two.stdout).lines().count(), 2);
            assert!(text(&two.stderr).contains("1 row is left out"), "{}", text(&two.stderr));
        }
    }
}

/// A limit of the file's size stands for a full disk. The error names the journal if a later run can go on from it, and
/// otherwise there is none.
#[test]
#[cfg(unix)]
fn a_full_disk_leaves_a_journal_that_the_error_names() {
    let scratch = Scratch::new("full-journal");
    let (shape, values) = many_rows("softprob");
    let (model, rows) = (model("softprob"), scratch.file("rows.npy", npy(&shape, Order::C, &values)));
    // The limits are in blocks of 512 bytes. A Parquet file is written when the journal has long met its limit.
    for (name, blocks, goes_on) in [
        ("out.csv", 24_000, true),
        ("out.npy", 12_000, true),
        ("out.arrow", 12_000, false),
        ("out.parquet", 1000, false),
    ] {
        let out = scratch.path(name);
        let line = ["predict", &model, "--rows", &rows, "-o", &out];
        let unlimited = command(&line);
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
        limited.arg(unlimited.get_program()).args(unlimited.get_args());
        limited.envs(unlimited.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = limited.output().expect("a shell");
        let journal = scratch.path(&format!(".{name}.fangorn-journal"));
        crate::assert_refused(&output, &[name, "can't be written", "make room"]);
        let said = text(&output.stderr);
        let named = said.contains("--resume") && said.contains(&journal);
        assert_eq!(named, Path::new(&journal).exists(), "{said}");
        assert!(named || !goes_on, "{said}");
        let resumed = command(&[&line[..], &["--resume"]].concat()).output().expect("it runs");
        assert!(resumed.status.success(), "{}", text(&resumed.stderr));
        let found = std::fs::read(&out).expect("predictions");
        assert!(!Path::new(&journal).exists());
        assert!(command(&line).status().expect("it runs").success());
        assert!(std::fs::read(&out).expect("predictions") == found, "{name}");
    }
}

/// A run that is killed at some moment leaves no output. With `--resume` the next one ends with the bytes of a run that
/// nothing stopped.
#[test]
fn a_run_that_was_killed_goes_on() {
    let scratch = Scratch::new("resumed");
    let (shape, values) = many_rows("softprob");
    let (csv, _) = csv_of(shape, &values);
    let csv = scratch.file("rows.csv", csv);
    // Arrays are read much faster than text.
    let times = 4;
    let rows: Vec<f32> = values.iter().cycle().take(times * values.len()).copied().collect();
    let all = [shape[0] * times as u64, shape[1]];
    let npy = scratch.file("rows.npy", npy(&all, Order::C, &rows));
    // Kept columns of Arrow's types, one of them a dictionary of its own in each row group.
    let few = table("softprob");
    let mut columns: Vec<ArrayRef> = few.columns().to_vec();
    let (note, _) =
        few.schema().column_with_name("note").map(|(at, field)| (at, field.clone())).expect("notes");
    columns[note] = arrow_cast::cast(&columns[note], &colours_type()).expect("a dictionary");
    let few = RecordBatch::try_from_iter(
        few.schema().fields().iter().map(|field| field.name().clone()).zip(columns),
    )
    .expect("a table");
    let times_table = all[0] as usize / few.num_rows();
    let many = concat_batches(&few.schema(), std::iter::repeat_n(&few, times_table)).expect("a long table");
    let parquet = scratch.path("rows.parquet");
    write_parquet(&parquet, &many, 20_000);
    let model = model("softprob");
    let mut went_on: Vec<&str> = Vec::new();
    for (rows, keep, name) in [
        (&parquet, true, "kept.csv"),
        (&parquet, true, "kept.arrow"),
        (&csv, true, "out.parquet"),
        (&csv, true, "out.csv"),
        (&npy, false, "out.arrow"),
        (&npy, false, "out.npy"),
    ] {
        let whole = scratch.path(&format!("whole-{name}"));
        let out = scratch.path(name);
        let journal = scratch.path(&format!(".{name}.fangorn-journal"));
        let command = |out: &str, resume: bool| {
            let mut line = vec!["predict", &model, "--rows", rows, "-o", out];
            line.extend(if keep { &["--keep", "note,id"][..] } else { &[] });
            line.extend(resume.then_some("--resume"));
            command(&line)
        };
        assert!(command(&whole, false).status().expect("it runs").success());
        let expected = std::fs::read(&whole).expect("predictions");
        for mebibytes in 1..=3u64 {
            // Killed when the journal has grown by so much.
            let mut child = command(&out, false).spawn().expect("it runs");
            let grown = || std::fs::metadata(&journal).is_ok_and(|file| file.len() >= mebibytes << 20);
            while !grown() && child.try_wait().expect("a status").is_none() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            let _ = child.kill();
            let ended = child.wait().expect("a status").success();
            assert!(ended || !Path::new(&out).exists(), "{name}: a part of a file passes for the whole");
            let left = Path::new(&journal).exists();
            if left && mebibytes % 2 == 0 {
                // An end that is not whole does not count.
                let file = std::fs::OpenOptions::new().write(true).open(&journal).expect("a journal");
                file.set_len(file.metadata().expect("a length").len() - 100).expect("it shrinks");
            }
            // Another run than the one that was cut short.
            let mut other = command(&out, true);
            let other = other.args(["--output", "margin"]).output().expect("it runs");
            assert_eq!(other.status.success(), !left, "{}", text(&other.stderr));
            if left {
                assert!(text(&other.stderr).contains("--resume"), "{}", text(&other.stderr));
            }
            let resumed = command(&out, true).output().expect("it runs");
            assert!(resumed.status.success(), "{}", text(&resumed.stderr));
            assert!(std::fs::read(&out).expect("predictions") == expected, "{name}, {mebibytes} MiB");
            assert!(!Path::new(&journal).exists());
            std::fs::remove_file(&out).expect("predictions");
            went_on.extend(left.then_some(name));
        }
    }
    assert!(went_on.len() >= 5, "{went_on:?} of 18 runs were killed early enough");
    assert!(went_on.iter().any(|name| name.starts_with("kept")), "{went_on:?}");
    let out = scratch.path("out.csv");
    refuses(&["predict", &model, "--rows", &csv, "--resume"], &["--resume", "-o"]);
    refuses(&["predict", &model, "--rows", "-", "--resume", "-o", &out], &["--resume", "--rows"]);
}
