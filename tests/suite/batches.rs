//! Batches of Arrow as rows: every type of column, names in any order, structs, slices, and what is refused. Tables of
//! `tests/raw` hold categories as texts, as numbers and as truth values.

use std::{path::Path, sync::Arc};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float16Array, Float32Array,
    Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, LargeStringArray, NullArray, RecordBatch,
    StringArray, StringViewArray, StructArray, TimestampNanosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
    cast::AsArray,
    types::{Int8Type, Int32Type},
};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use fangorn::{
    Forest,
    forest::{Coding, Feature, UnseenCategory},
    import::{self, LoadOptions},
    table::{BatchReader, ColumnMatch, TableError},
};

use crate::generate::Seeded;

/// A forest of no trees, whose columns have these names.
fn named(names: &[&str]) -> Forest {
    let mut forest = Forest::builder(names.len(), 1).build().expect("a forest");
    for (feature, name) in forest.features.iter_mut().zip(names) {
        feature.name = Some((*name).to_owned());
    }
    forest
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    // A table may have two columns of one name.
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    RecordBatch::try_new(Arc::new(arrow_schema::Schema::new(fields)), arrays).expect("a batch")
}

fn read(forest: &Forest, batch: &RecordBatch) -> Result<Vec<f64>, TableError> {
    BatchReader::new(forest, &batch.schema(), ColumnMatch::ByName)?.rows(batch)
}

/// Asserts that two lists are equal, where NaN equals NaN.
fn same(found: &[f64], expected: &[f64], what: &str) {
    let equal = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(equal),
        "{what}: {found:?} {expected:?}"
    );
}

/// Each type holds 1, a null, and its least or another telling value.
#[test]
fn numbers_of_every_type_are_read() {
    let nan = f64::NAN;
    let decimals = |values: Vec<Option<i128>>, scale| {
        Decimal128Array::from(values).with_precision_and_scale(30, scale).expect("decimals")
    };
    let cases: Vec<(ArrayRef, [f64; 3])> = vec![
        (Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), [1.0, nan, 0.0]),
        (Arc::new(Int8Array::from(vec![Some(1), None, Some(-128)])), [1.0, nan, -128.0]),
        (Arc::new(Int16Array::from(vec![Some(1), None, Some(-32768)])), [1.0, nan, -32768.0]),
        (Arc::new(Int32Array::from(vec![Some(1), None, Some(i32::MIN)])), [1.0, nan, -2_147_483_648.0]),
        (Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MIN)])), [1.0, nan, -(2f64.powi(63))]),
        (Arc::new(UInt8Array::from(vec![Some(1), None, Some(255)])), [1.0, nan, 255.0]),
        (Arc::new(UInt16Array::from(vec![Some(1), None, Some(65535)])), [1.0, nan, 65535.0]),
        (Arc::new(UInt32Array::from(vec![Some(1), None, Some(u32::MAX)])), [1.0, nan, 4_294_967_295.0]),
        (Arc::new(UInt64Array::from(vec![Some(1), None, Some(1 << 60)])), [1.0, nan, 2f64.powi(60)]),
        (
            Arc::new(Float16Array::from(vec![Some(half::f16::ONE), None, Some(half::f16::from_f32(0.1))])),
            [1.0, nan, 0.099_975_585_937_5],
        ),
        (Arc::new(Float32Array::from(vec![Some(1.0), None, Some(0.1)])), [1.0, nan, f64::from(0.1f32)]),
        (Arc::new(Float64Array::from(vec![Some(1.0), Some(nan), Some(0.1)])), [1.0, nan, 0.1]),
        (Arc::new(decimals(vec![Some(100), None, Some(-12345)], 2)), [1.0, nan, -123.45]),
        (Arc::new(decimals(vec![Some(1), None, Some(7)], -3)), [1000.0, nan, 7000.0]),
        (Arc::new(NullArray::new(3)), [nan, nan, nan]),
        (
            Arc::new(DictionaryArray::<Int8Type>::new(
                Int8Array::from(vec![Some(1), None, Some(0)]),
                Arc::new(Float32Array::from(vec![2.5, 1.0])),
            )),
            [1.0, nan, 2.5],
        ),
    ];
    let forest = named(&["x"]);
    for (array, expected) in cases {
        let what = array.data_type().to_string();
        same(&read(&forest, &batch(&[("x", array.clone())])).expect(&what), &expected, &what);
        // Without nulls, and from an offset that is not 0.
        for from in 1..3 {
            let rest = batch(&[("x", array.slice(from, 3 - from))]);
            same(&read(&forest, &rest).expect(&what), &expected[from..], &what);
        }
        let singles: Vec<f32> =
            BatchReader::new(&forest, &batch(&[("x", array.clone())]).schema(), ColumnMatch::ByName)
                .and_then(|reader| reader.rows(&batch(&[("x", array)])))
                .expect(&what);
        let rounded: Vec<f64> = expected.iter().map(|v| f64::from(*v as f32)).collect();
        same(&singles.iter().map(|v| f64::from(*v)).collect::<Vec<_>>(), &rounded, &what);
    }
}

#[test]
fn columns_go_by_their_names() {
    let column = |value: f64| Arc::new(Float64Array::from(vec![value, -value])) as ArrayRef;
    let forest = named(&["a", "b", "c"]);
    let shuffled =
        batch(&[("c", column(3.0)), ("id", column(9.0)), ("a", column(1.0)), (" \"b\" ", column(2.0))]);
    same(&read(&forest, &shuffled).expect("shuffled"), &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0], "shuffled");
    let reader = BatchReader::new(&forest, &shuffled.schema(), ColumnMatch::ByName).expect("a reader");
    assert_eq!((reader.left_out(), &reader.roots()[..]), (&["id".to_owned()][..], &[0, 2, 3][..]));

    let refused = |batch: &RecordBatch| read(&forest, batch).expect_err("a table").to_string();
    let missing = refused(&batch(&[("a", column(1.0)), ("d", column(2.0))]));
    assert!(
        missing.contains("2 of the model's columns are missing: b, c") && missing.contains("(a, d)"),
        "{missing}"
    );
    let doubled =
        refused(&batch(&[("a", column(1.0)), ("b", column(2.0)), ("c", column(2.0)), ("b", column(2.0))]));
    assert!(doubled.contains("more than once: b; keep one"), "{doubled}");
    let renamed = refused(&batch(&[("x", column(1.0)), ("y", column(2.0)), ("z", column(2.0))]));
    assert!(renamed.contains("3 of the model's columns are missing"), "{renamed}");

    // A model without names takes a table in its order, or with the names that libraries make up.
    let nameless = Forest::builder(3, 1).build().expect("a forest");
    let any = batch(&[("x", column(1.0)), ("y", column(2.0)), ("z", column(3.0))]);
    same(&read(&nameless, &any).expect("three"), &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0], "in order");
    let made_up =
        batch(&[("f2", column(3.0)), ("f0", column(1.0)), ("id", column(9.0)), ("f1", column(2.0))]);
    same(&read(&nameless, &made_up).expect("f0"), &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0], "made up");
    let four =
        read(&nameless, &batch(&["x"; 4].map(|name| (name, column(1.0))))).expect_err("four").to_string();
    assert!(four.contains("4 columns") && four.contains("trained on 3"), "{four}");
    let by_position =
        BatchReader::new(&forest, &any.schema(), ColumnMatch::ByPosition).expect("three columns");
    same(&by_position.rows::<f64>(&any).expect("rows"), &[1.0, 2.0, 3.0, -1.0, -2.0, -3.0], "by position");

    // A reader of one schema refuses a batch of another.
    let texts = batch(&[("c", Arc::new(StringArray::from(vec!["1"])) as ArrayRef)]);
    assert!(reader.rows::<f64>(&texts).is_err());
}

#[test]
fn columns_of_structs_have_paths() {
    let inner: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), Some(2.0), None]));
    let fields = Fields::from(vec![Field::new("x", DataType::Float64, true)]);
    let deep = StructArray::new(fields, vec![inner], Some(NullBuffer::from(vec![true, false, true])));
    let fields = Fields::from(vec![Field::new("deep", deep.data_type().clone(), true)]);
    let outer =
        StructArray::new(fields, vec![Arc::new(deep)], Some(NullBuffer::from(vec![true, true, true])));
    let table = batch(&[("outer", Arc::new(outer))]);
    let forest = named(&["outer.deep.x"]);
    same(&read(&forest, &table).expect("a path"), &[1.0, f64::NAN, f64::NAN], "a null struct");
    same(&read(&forest, &table.slice(1, 2)).expect("a path"), &[f64::NAN, f64::NAN], "a slice");
    same(&read(&forest, &table.slice(0, 1)).expect("a path"), &[1.0], "a slice");
}

#[test]
fn what_is_no_number_is_refused_with_its_column() {
    let forest = named(&["x"]);
    let cases: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(StringArray::from(vec!["1.5"])), "column `x`: it holds texts"),
        (Arc::new(TimestampNanosecondArray::from(vec![1])), "Timestamp"),
        (Arc::new(Date32Array::from(vec![1])), "Date32"),
        (Arc::new(Int64Array::from(vec![1, (1 << 53) + 1])), "column `x`: row 1: 9007199254740993"),
        (Arc::new(UInt64Array::from(vec![u64::MAX])), "column `x`: row 0: 18446744073709551615"),
        (Arc::new(Int64Array::from(vec![None, Some(i64::MAX)])), "column `x`: row 1: 9223372036854775807"),
        (Arc::new(Decimal128Array::from(vec![(1 << 53) + 1])), "column `x`: row 0: "),
    ];
    for (array, expected) in cases {
        let error = read(&forest, &batch(&[("x", array)])).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("; "), "{error}");
    }
}

/// Reads a table as columns of Arrow: integers, truth values and floats where all cells are, and texts.
fn columns_of(text: &str) -> Vec<(String, ArrayRef)> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let column = |at: usize| -> ArrayRef {
        let cells: Vec<&str> = rows.iter().map(|row| row[at]).collect();
        let all = |parses: fn(&str) -> bool| cells.iter().all(|cell| parses(cell));
        if all(|cell| cell.parse::<i64>().is_ok()) {
            Arc::new(cells.iter().map(|cell| cell.parse::<i64>().ok()).collect::<Int64Array>())
        } else if all(|cell| matches!(cell, "True" | "False")) {
            Arc::new(cells.iter().map(|cell| Some(*cell == "True")).collect::<BooleanArray>())
        } else if all(|cell| cell.is_empty() || cell.parse::<f64>().is_ok()) {
            Arc::new(cells.iter().map(|cell| cell.parse::<f64>().ok()).collect::<Float64Array>())
        } else {
            Arc::new(cells.into_iter().map(Some).collect::<StringArray>())
        }
    };
    names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), column(at))).collect()
}

/// Categories of each kind of text array, as texts and in dictionaries, are those of the CSV file.
#[test]
fn categories_of_tables_become_the_numbers_of_their_texts() {
    let raw = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/raw");
    let mut seen = 0;
    for folder in crate::raw::folders() {
        assert!(folder.starts_with(&raw));
        let name = folder.display().to_string();
        let forest = crate::raw::load(&folder, true).unwrap_or_else(|e| panic!("{e}"));
        let expected = crate::raw::rows(&folder, &forest);
        let columns = columns_of(&std::fs::read_to_string(folder.join("rows.csv")).expect("rows"));
        type Kind = fn(&StringArray) -> ArrayRef;
        let kinds: [Kind; 4] = [
            |texts| Arc::new(texts.clone()),
            |texts| Arc::new(LargeStringArray::from_iter(texts.iter())),
            |texts| Arc::new(StringViewArray::from_iter(texts.iter())),
            |texts| Arc::new(texts.iter().collect::<DictionaryArray<Int32Type>>()),
        ];
        for kind in kinds {
            let columns: Vec<(&str, ArrayRef)> = columns
                .iter()
                .map(|(name, array)| match array.as_string_opt::<i32>() {
                    Some(texts) => (name.as_str(), kind(texts)),
                    None => (name.as_str(), array.clone()),
                })
                .collect();
            seen += columns
                .iter()
                .filter(|(_, array)| matches!(array.data_type(), DataType::Dictionary(..)))
                .count();
            let table = batch(&columns);
            let reader = BatchReader::new(&forest, &table.schema(), ColumnMatch::ByName)
                .or_else(|_| BatchReader::new(&forest, &table.schema(), ColumnMatch::ByPosition))
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            same(&reader.rows(&table).unwrap_or_else(|e| panic!("{name}: {e}")), &expected, &name);
        }
    }
    assert!(seen > 3, "{seen} dictionaries");
}

/// A category that the producer refuses is named with the row that has it first.
#[test]
fn unseen_categories_are_refused_or_missing_as_the_producer_has_it() {
    for folder in crate::raw::folders() {
        let name = folder.display().to_string();
        let forest = crate::raw::load(&folder, true).unwrap_or_else(|e| panic!("{e}"));
        let columns = columns_of(&std::fs::read_to_string(folder.join("rows.csv")).expect("rows"));
        let coded = forest.features.iter().position(|feature| feature.codes().is_some()).expect("categories");
        let rows = columns[0].1.len();
        // The same kind of values as in the training data: texts, or whole numbers.
        let is_text = columns[coded].1.as_string_opt::<i32>().is_some();
        let texts: Vec<Option<&str>> = (0..rows).map(|row| (row >= 3).then_some("pink")).collect();
        let numbers: Int64Array = (0..rows).map(|row| (row >= 3).then_some(987_654)).collect();
        let (pink, unseen): (ArrayRef, &str) = match is_text {
            true => (Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()), "`pink`"),
            false => (Arc::new(numbers), "`987654`"),
        };
        let columns: Vec<(&str, ArrayRef)> = columns
            .iter()
            .enumerate()
            .map(|(at, (name, array))| {
                (name.as_str(), if at == coded { pink.clone() } else { array.clone() })
            })
            .collect();
        let table = batch(&columns);
        let reader = BatchReader::new(&forest, &table.schema(), ColumnMatch::ByPosition);
        let reader = reader.unwrap_or_else(|e| panic!("{name}: {e}"));
        match (reader.rows::<f64>(&table), name.contains("xgboost")) {
            (Err(error), true) => {
                assert_eq!(error.row, Some(3), "{error}");
                assert!(error.to_string().contains(&format!("{unseen} is no category")), "{error}");
            }
            (Ok(found), false) => {
                let width = forest.features.len();
                assert!(found.chunks(width).all(|row| row[coded].is_nan()), "{name}");
            }
            (found, _) => panic!("{name}: {found:?}"),
        }
    }
}

/// A column of categories, as texts, numbers, truth values or CatBoost's hashes of texts, and what comes unseen.
fn categories(names: &[&str], coding: Coding) -> Forest {
    let mut forest = named(&["x"]);
    forest.features[0].categories = names.iter().map(|name| (*name).to_owned()).collect();
    forest.features[0].coding = coding;
    forest
}

/// Categories are compared with their types: a text is no number, and spaces around it count.
#[test]
fn categories_of_tables_are_compared_with_their_types() {
    let indices = |numbers, unseen| Coding::Indices { numbers, unseen, needed: false };
    let missing = UnseenCategory::Missing;
    let words = categories(&["rome", "oslo"], indices(false, missing));
    let digits = categories(&["10", "20"], indices(false, missing));
    let numbers = categories(&["10", "20.5"], indices(true, missing));
    let truths = categories(&["True", "False"], indices(true, missing));
    let none = categories(&[], indices(true, missing));
    let refusing = categories(&["rome", "NA"], indices(false, UnseenCategory::Refused));
    let texts = |texts: &[&str]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    let nan = f64::NAN;
    let cases: Vec<(&Forest, ArrayRef, Vec<f64>)> = vec![
        (
            &words,
            texts(&["oslo", " oslo", "oslo ", "Oslo", "", "NA", "0"]),
            vec![1.0, nan, nan, nan, nan, nan, nan],
        ),
        (&digits, texts(&["10", "10.0", "20"]), vec![0.0, nan, 1.0]),
        // A table may hold codes where no category is a number.
        (&words, Arc::new(Int64Array::from(vec![1, 0, 2, -1])), vec![1.0, 0.0, nan, nan]),
        (&words, Arc::new(Float64Array::from(vec![1.0, 0.5, nan])), vec![1.0, nan, nan]),
        (&numbers, Arc::new(Int8Array::from(vec![10, 20])), vec![0.0, nan]),
        (&numbers, Arc::new(Float32Array::from(vec![10.0, 20.5, nan as f32])), vec![0.0, 1.0, nan]),
        (&truths, Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])), vec![0.0, nan, 1.0]),
        (&refusing, texts(&["NA", "rome"]), vec![1.0, 0.0]),
        (&none, texts(&["rome"]), vec![nan]),
        // Columns of nulls, as pandas writes them: floats, whatever the categories are.
        (&digits, Arc::new(Float64Array::from(vec![None, Some(nan)])), vec![nan, nan]),
        (&words, Arc::new(BooleanArray::from(vec![None, None])), vec![nan, nan]),
        (&digits, Arc::new(Int64Array::from(vec![None])), vec![nan]),
    ];
    for (forest, array, expected) in cases {
        let what = format!("{array:?}");
        same(&read(forest, &batch(&[("x", array.clone())])).expect(&what), &expected, &what);
        // The same in a dictionary.
        let keys = Int32Array::from_iter_values(0..array.len() as i32);
        let dictionary = Arc::new(DictionaryArray::new(keys, array));
        same(&read(forest, &batch(&[("x", dictionary)])).expect(&what), &expected, &what);
    }
    let refused: Vec<(&Forest, ArrayRef, &str)> = vec![
        (&numbers, texts(&["10"]), "it holds texts, and the model's categories of it are numbers"),
        (
            &digits,
            Arc::new(Int64Array::from(vec![10])),
            "it holds numbers, and the model's categories of it are texts",
        ),
        (&digits, Arc::new(Float64Array::from(vec![None, Some(10.0)])), "column `x`: it holds numbers"),
        (&words, Arc::new(BooleanArray::from(vec![true])), "it holds truth values"),
        (&refusing, texts(&["rome "]), "row 0: `rome ` is no category"),
        (&refusing, texts(&["rome", ""]), "row 1: `` is no category"),
    ];
    for (forest, array, expected) in refused {
        let error = read(forest, &batch(&[("x", array)])).expect_err(expected).to_string();
        assert!(error.contains(expected) && error.contains("; "), "{error}");
    }
}

/// CatBoost hashes integers and texts as they are, and takes no float for a category.
#[test]
fn categories_of_catboost_are_integers_or_texts() {
    let mut seen = 0;
    for folder in crate::raw::folders()
        .into_iter()
        .filter(|at| at.ends_with("catboost-words") || at.ends_with("catboost-numbers"))
    {
        let forest = crate::raw::load(&folder, true).unwrap_or_else(|e| panic!("{e}"));
        let columns = columns_of(&std::fs::read_to_string(folder.join("rows.csv")).expect("rows"));
        for (at, feature) in forest.features.iter().enumerate() {
            if !matches!(feature.coding, Coding::Hashes { .. }) {
                continue;
            }
            let mut one = named(&["x"]);
            one.features[0] = Feature { name: Some("x".into()), ..feature.clone() };
            let floats: ArrayRef = Arc::new(Float64Array::from(vec![2.0]));
            let error = read(&one, &batch(&[("x", floats)])).expect_err("floats").to_string();
            assert!(error.contains("floats") && error.contains("integers or texts"), "{at}: {error}");
            // A text with spaces is another text.
            let Some(texts) = columns[at].1.as_string_opt::<i32>() else { continue };
            for name in texts.iter().flatten() {
                let texts = vec![name.to_owned(), format!("{name} "), format!(" {name}")];
                let found = read(&one, &batch(&[("x", Arc::new(StringArray::from(texts)))])).expect("texts");
                assert!(!found[0].is_nan() && found[1].is_nan() && found[2].is_nan(), "{name}: {found:?}");
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "no texts");
}

/// A file of XGBoost that lost the names of its categories says so where a table has their texts.
#[test]
fn lost_names_of_categories_are_explained() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/category-names-not-ascii/model.json");
    let forest = import::load(&model, &LoadOptions::default()).expect("a model");
    let lost = (0..forest.features.len()).find(|at| fangorn::table::lost_categories(&forest, *at));
    let column: ArrayRef = Arc::new(StringArray::from(vec!["größe"]));
    let number: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let columns: Vec<(String, ArrayRef)> = (0..forest.features.len())
        .map(|at| (format!("c{at}"), if Some(at) == lost { column.clone() } else { number.clone() }))
        .collect();
    let columns: Vec<(&str, ArrayRef)> =
        columns.iter().map(|(name, array)| (name.as_str(), array.clone())).collect();
    let error = BatchReader::new(&forest, &batch(&columns).schema(), ColumnMatch::ByPosition);
    let error = error.expect_err("texts").to_string();
    assert!(error.contains("XGBoost before 3.4 damages names") && error.contains("3.4 or newer"), "{error}");
}

/// Models whose file has no categories refuse texts, and say what to do.
#[test]
fn texts_need_categories_in_the_file() {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/churn/model.ubj");
    let forest = import::load(&model, &LoadOptions::default()).expect("a model");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["red"]));
    let names: Vec<String> = (0..forest.features.len()).map(|at| format!("f{at}")).collect();
    let columns: Vec<(&str, ArrayRef)> = names.iter().map(|name| (name.as_str(), texts.clone())).collect();
    let table = batch(&columns);
    let error = BatchReader::new(&forest, &table.schema(), ColumnMatch::ByPosition).expect_err("texts");
    assert!(error.to_string().contains("cast the column"), "{error}");
}

/// Random tables: 1 to 40 columns of mixed types side by side, with nulls, in any order, some inside structs, and slices of
/// every remainder. The expected numbers are kept while the columns are made.
#[test]
fn random_tables_become_their_numbers() {
    let mut random = Seeded(26);
    for round in 0..200 {
        let (width, rows) = (1 + random.below(40), random.below(300));
        let nulls = [0, 2, 10][random.below(3)];
        let mut expected = vec![Vec::new(); width];
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (at, numbers) in expected.iter_mut().enumerate() {
            let cells: Vec<Option<i16>> = (0..rows)
                .map(|_| (nulls == 0 || random.below(nulls) > 0).then(|| random.below(2000) as i16 - 1000))
                .collect();
            let kind = random.below(9);
            // What a type makes of a whole number.
            let number = |value: i16| match kind {
                0 => f64::from(i8::try_from(value % 100).expect("small")),
                1 => f64::from(value.unsigned_abs()),
                2 => f64::from(u8::from(value % 2 == 0)),
                3 | 4 => f64::from(value) / 8.0,
                5 => f64::from(value) / 100.0,
                _ => f64::from(value),
            };
            *numbers = cells.iter().map(|cell| cell.map_or(f64::NAN, number)).collect::<Vec<f64>>();
            let array: ArrayRef = match kind {
                0 => Arc::new(cells.iter().map(|cell| cell.map(|v| (v % 100) as i8)).collect::<Int8Array>()),
                1 => Arc::new(cells.iter().map(|cell| cell.map(i16::unsigned_abs)).collect::<UInt16Array>()),
                2 => Arc::new(cells.iter().map(|cell| cell.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
                3 => Arc::new(numbers.iter().map(|v| Some(*v as f32)).collect::<Float32Array>()),
                4 => Arc::new(numbers.iter().map(|v| (!v.is_nan()).then_some(*v)).collect::<Float64Array>()),
                5 => {
                    let cells = cells.iter().map(|cell| cell.map(i128::from)).collect::<Decimal128Array>();
                    Arc::new(cells.with_precision_and_scale(12, 2).expect("decimals"))
                }
                6 => Arc::new(cells.iter().map(|cell| cell.map(i64::from)).collect::<Int64Array>()),
                7 => {
                    let keys = cells.iter().map(|cell| cell.map(|v| i32::from(v) + 1000));
                    let values = (-1000..1000).map(f64::from).collect::<Float64Array>();
                    Arc::new(DictionaryArray::<Int32Type>::new(keys.collect(), Arc::new(values)))
                }
                _ => Arc::new(cells.into_iter().collect::<Int16Array>()),
            };
            if random.below(5) == 0 {
                let field = Field::new("x", array.data_type().clone(), true);
                let there: Vec<bool> = (0..rows).map(|_| random.below(8) > 0).collect();
                let missing = numbers.iter_mut().zip(&there).filter(|(_, there)| !**there);
                missing.for_each(|(number, _)| *number = f64::NAN);
                let inside = StructArray::new(vec![field].into(), vec![array], Some(NullBuffer::from(there)));
                columns.push((format!("c{at}"), Arc::new(inside)));
            } else {
                columns.push((format!("c{at}"), array));
            }
        }
        let names: Vec<String> = columns
            .iter()
            .map(|(name, array)| match array.data_type() {
                DataType::Struct(_) => format!("{name}.x"),
                _ => name.clone(),
            })
            .collect();
        let forest = named(&names.iter().map(String::as_str).collect::<Vec<_>>());
        for index in (1..width).rev() {
            columns.swap(index, random.below(index + 1));
        }
        let columns: Vec<(&str, ArrayRef)> =
            columns.iter().map(|(name, array)| (name.as_str(), array.clone())).collect();
        let table = batch(&columns);
        let first = if rows == 0 { 0 } else { random.below(rows) };
        for (from, count) in [(0, rows), (first, rows - first), (first, (rows - first).min(round % 17))] {
            let wanted: Vec<f64> =
                (from..from + count).flat_map(|row| expected.iter().map(move |column| column[row])).collect();
            let found = read(&forest, &table.slice(from, count)).unwrap_or_else(|e| panic!("{round}: {e}"));
            same(&found, &wanted, &format!("round {round}, rows {from} to {}", from + count));
        }
    }
}

/// Numbers stay in the batch, nulls and slices among them; other columns are read into columns of their own.
#[test]
fn columns_of_a_batch_are_its_rows() {
    let count = 700;
    let null = |row: usize| row % 7 == 3;
    let floats: ArrayRef =
        Arc::new((0..count).map(|r| (!null(r)).then_some(r as f32 / 8.0)).collect::<Float32Array>());
    let whole: ArrayRef = Arc::new((0..count as i32).map(|r| -r).collect::<Int32Array>());
    let long: ArrayRef =
        Arc::new((0..count as i64).map(|r| (r % 5 > 0).then_some(r << 30)).collect::<Int64Array>());
    let truths: ArrayRef = Arc::new((0..count).map(|r| Some(r % 3 == 0)).collect::<BooleanArray>());
    let none: ArrayRef = Arc::new(NullArray::new(count));
    let forest = Forest::builder(5, 1).build().expect("a forest");
    let columns = [("f0", floats), ("f1", whole), ("f2", long), ("f3", truths), ("f4", none)];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let reader = BatchReader::new(&forest, &batch.schema(), ColumnMatch::ByPosition).expect("a reader");
    for (first, count) in [(0, count), (1, 16), (13, 600), (699, 1), (5, 0)] {
        let slice = batch.slice(first, count);
        let rows: Vec<f64> = reader.rows(&slice).expect("rows");
        let columns = reader.columns(&slice).expect("columns");
        let columns = columns.columns();
        for (at, column) in columns.iter().enumerate() {
            let mut values = vec![0f64; count];
            column.read(0, &mut values);
            for (row, found) in values.into_iter().enumerate() {
                let r = first + row;
                let expected = match at {
                    0 if null(r) => f64::NAN,
                    0 => r as f64 / 8.0,
                    1 => -(r as f64),
                    2 if r % 5 == 0 => f64::NAN,
                    2 => (r << 30) as f64,
                    3 => f64::from(u8::from(r % 3 == 0)),
                    _ => f64::NAN,
                };
                let same = |a: f64| a == expected || a.is_nan() && expected.is_nan();
                assert!(same(found) && same(rows[row * 5 + at]), "column {at}, row {r}: {found}");
            }
        }
    }
}
