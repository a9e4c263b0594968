//! Runs the files of `tests/slt` by DataFusion's own runner of sqllogictest.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, DictionaryArray, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray,
    },
    compute::take,
};
use datafusion::prelude::SessionContext;
use datafusion_sqllogictest::{
    CurrentlyExecutingSqlTracker, DataFusion, df_value_validator, value_normalizer,
};
use fangorn_sql::{Models, register};
use indicatif::ProgressBar;
use sqllogictest::strict_column_validator;

/// Reads a matrix of floats from a file of numpy, as `rows x columns` values.
fn read(model: &str, file: &str) -> (usize, Vec<f32>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/zoo/{model}/{file}"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let file = npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    let rows = file.shape()[0] as usize;
    let descr = file.dtype().descr();
    let values: Vec<f32> = match () {
        () if descr.contains("f8") => {
            file.into_vec::<f64>().expect("doubles").into_iter().map(|v| v as f32).collect()
        }
        () if descr.contains("i4") => {
            file.into_vec::<i32>().expect("labels").into_iter().map(|v| v as f32).collect()
        }
        () => file.into_vec().expect("floats"),
    };
    (rows, values)
}

/// A model's rows as a table: an id, the columns in reverse, and what the producer predicts for each row.
fn table(models: &Models, model: &str, file: &str, expected: &[&str]) -> RecordBatch {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/zoo/{model}/{file}"));
    let loaded = models.load(model, &path).expect("a model");
    let (rows, values) = read(model, "rows.npy");
    let width = values.len() / rows;
    let mut columns: Vec<(String, ArrayRef)> =
        vec![("id".into(), Arc::new(Int64Array::from_iter_values(0..rows as i64)))];
    for (at, feature) in loaded.forest.features.iter().enumerate().rev() {
        let name = feature.name.clone().unwrap_or_else(|| format!("f{at}"));
        let column = values[at..].iter().step_by(width).map(|v| (!v.is_nan()).then_some(*v));
        columns.push((name, Arc::new(column.collect::<Float32Array>())));
    }
    for name in expected {
        let (_, values) = read(model, &format!("{name}.npy"));
        let width = values.len() / rows;
        for at in 0..width {
            let column = Float32Array::from_iter_values(values[at..].iter().step_by(width).copied());
            columns.push((format!("{name}{at}"), Arc::new(column)));
        }
    }
    RecordBatch::try_from_iter(columns).expect("columns of as many rows")
}

/// The table of a model whose file names its categories: texts or integers, and a dictionary of the same values.
fn categories(models: &Models) -> RecordBatch {
    let all = table(models, "category-names", "model.ubj", &["margin"]);
    let loaded = models.get("category-names").expect("a model");
    let schema = all.schema();
    let columns = schema.fields().iter().zip(all.columns()).flat_map(|(field, array)| {
        let feature =
            loaded.forest.features.iter().find(|feature| feature.name.as_ref() == Some(field.name()));
        let names = feature.map_or(&[][..], |feature| &feature.categories);
        let codes = array.as_any().downcast_ref::<Float32Array>();
        match codes {
            Some(codes) if !names.is_empty() => {
                let known = |code: &f32| code.fract() == 0.0 && (0.0..names.len() as f32).contains(code);
                let codes: Int32Array =
                    codes.iter().map(|code| code.filter(known).map(|code| code as i32)).collect();
                let numbers: Result<Vec<i64>, _> = names.iter().map(|name| name.parse()).collect();
                let kinds: ArrayRef = match numbers {
                    Ok(numbers) => Arc::new(Int64Array::from(numbers)),
                    Err(_) => Arc::new(StringArray::from_iter_values(names)),
                };
                let values = take(&kinds, &codes, None).expect("codes of kinds");
                let dictionary = Arc::new(DictionaryArray::new(codes, kinds));
                vec![(field.name().clone(), values), (format!("{}_dictionary", field.name()), dictionary)]
            }
            _ => vec![(field.name().clone(), array.clone())],
        }
    });
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true)))
        .expect("columns")
}

fn context() -> SessionContext {
    let context = SessionContext::new().enable_url_table();
    let models = register(&context, Models::default());
    for (model, file, expected) in [
        ("churn", "model.ubj", &["margin", "output"][..]),
        ("softprob", "model.ubj", &["margin", "output"]),
        ("lightgbm-binary", "model.txt", &["margin", "output"]),
        ("catboost-labels", "model.json", &["margin", "output"]),
    ] {
        let table = table(&models, model, file, expected);
        context.register_batch(model.replace('-', "_"), table).expect("a table");
    }
    context.register_batch("colours", categories(&models)).expect("a table");
    context
}

#[test]
fn every_file_of_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/slt");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).expect("the folder").flatten().map(|e| e.path()).collect();
    files.sort();
    assert!(files.len() >= 3, "{files:?}");
    // Paths of models in the files.
    std::env::set_current_dir(env!("CARGO_MANIFEST_DIR")).expect("the folder");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    for file in files {
        let result = runtime.block_on(async {
            let mut runner = sqllogictest::Runner::new(|| async {
                Ok(DataFusion::new(context(), file.clone(), ProgressBar::hidden())
                    .with_currently_executing_sql_tracker(CurrentlyExecutingSqlTracker::new()))
            });
            runner.add_label("Datafusion");
            runner.with_column_validator(strict_column_validator);
            runner.with_normalizer(value_normalizer);
            runner.with_validator(df_value_validator);
            runner.run_file_async(&file).await
        });
        if let Err(error) = result {
            panic!("{}", error.display(false));
        }
    }
}
