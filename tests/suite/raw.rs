//! Tables whose categories are texts, or numbers that are no codes: rows that are made with `Feature::codes` predict what
//! the producer says of the table. `tests/raw/make.py` makes the models.

use std::path::{Path, PathBuf};

use fangorn::{
    Error, Forest, Predictor,
    file::Contents,
    forest::reference,
    import::{self, ErrorKind, LoadOptions},
};

pub fn folders() -> Vec<PathBuf> {
    let raw = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/raw");
    let entries = std::fs::read_dir(raw).expect("the folder").flatten().map(|entry| entry.path());
    let mut folders: Vec<PathBuf> = entries.filter(|path| path.join("output.npy").exists()).collect();
    folders.sort();
    assert_eq!(folders.len(), 8);
    folders
}

pub fn load(folder: &Path, raw_categories: bool) -> Result<Forest, Error> {
    let files = std::fs::read_dir(folder).expect("the folder").flatten().map(|entry| entry.path());
    let model = files.filter(|path| path.file_stem().is_some_and(|stem| stem == "model")).min();
    import::load(&model.expect("a model"), &LoadOptions { raw_categories, ..LoadOptions::default() })
}

/// The table's rows, with a number for each category.
pub fn rows(folder: &Path, forest: &Forest) -> Vec<f64> {
    let text = std::fs::read_to_string(folder.join("rows.csv")).expect("rows");
    let codes: Vec<_> = forest.features.iter().map(|feature| feature.codes()).collect();
    let cells = text.lines().skip(1).flat_map(|line| line.split(',').zip(&codes));
    let number = |(cell, codes): (&str, &Option<fangorn::forest::Codes<'_>>)| match codes {
        Some(codes) => codes.of(cell).expect("a category of the training data"),
        None => cell.parse().expect("a number"),
    };
    cells.map(number).collect()
}

#[test]
fn tables_predict_what_the_producer_says_of_them() {
    for folder in folders() {
        let name = folder.display().to_string();
        let forest = load(&folder, true).unwrap_or_else(|e| panic!("{e}"));
        let rows = rows(&folder, &forest);
        let columns = forest.features.len();
        let bytes = std::fs::read(folder.join("output.npy")).expect("predictions");
        let expected: Vec<f64> = npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("f64");
        assert_eq!(rows.len(), expected.len() * columns, "{name}");
        let found = rows.chunks(columns).flat_map(|row| reference::values(&forest, row));
        for (r, (found, expected)) in found.zip(&expected).enumerate() {
            assert!(
                (found - expected).abs() <= 1e-6 * expected.abs().max(1.0),
                "{name}, row {r}: {found}, {expected}"
            );
        }
        let predictor = Predictor::new(&forest).unwrap_or_else(|e| panic!("{e}"));
        let found = predictor.predict(&rows, columns).unwrap_or_else(|e| panic!("{e}"));
        for (r, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let off = (f64::from(*found) - expected).abs();
            assert!(off <= 1e-5 * expected.abs().max(1.0), "{name}, row {r}: {found}, {expected}");
        }
        // Our own file keeps how categories become numbers.
        let options = LoadOptions { raw_categories: true, ..LoadOptions::default() };
        let kept = import::parse(&Contents::new(forest.clone()).to_bytes(), &options);
        assert_eq!(kept.as_ref(), Ok(&forest), "{name}");
    }
}

#[test]
fn unseen_categories_are_what_the_producer_makes_of_them() {
    for folder in folders() {
        let name = folder.display().to_string();
        let forest = load(&folder, true).unwrap_or_else(|e| panic!("{e}"));
        let codes = forest.features.iter().find_map(|feature| feature.codes()).expect("categories");
        for text in ["pink", "8", ""] {
            match (codes.of(text), name.contains("xgboost")) {
                (None, true) => {}
                (Some(code), false) => assert!(code.is_nan(), "{name}: {text} is {code}"),
                (found, _) => panic!("{name}: {text} is {found:?}"),
            }
        }
    }
}

#[test]
fn rows_of_numbers_are_refused_where_categories_are_texts() {
    for folder in folders() {
        let name = folder.display().to_string();
        let needed = ["catboost", "sklearn"].iter().any(|library| name.contains(library));
        match load(&folder, false) {
            Ok(forest) => assert!(!needed && forest.features.iter().all(|f| !f.coding.is_needed()), "{name}"),
            Err(Error::Import(error)) => {
                assert!(needed && error.kind() == ErrorKind::Unsupported, "{error}");
                assert!(error.remedy().contains("LoadOptions::raw_categories"), "{error}");
            }
            Err(other) => panic!("{other}"),
        }
    }
}
