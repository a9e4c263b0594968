//! Functions that travel in plans of several processes: the model is the one that was planned for, or a refusal.

use std::{path::PathBuf, sync::Arc};

use arrow::{
    array::{AsArray, Float32Array, RecordBatch},
    datatypes::Float32Type,
};
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::{
        ScalarUDF, ScalarUDFImpl as _,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    prelude::{Expr, SessionContext, col, lit},
};
use fangorn::{
    Forest,
    file::Contents,
    forest::{CompareType, Side},
};
use fangorn_sql::{ForestFunction, ForestOutput, ModelSource, Models, SentFunction};

/// Rows `0.0, 1.0, …` of one column `x`.
fn rows() -> RecordBatch {
    let x = Float32Array::from_iter_values((0..100).map(|x| x as f32));
    RecordBatch::try_from_iter([("x", Arc::new(x) as _)]).expect("a column")
}

/// A forest of one column and so many trees, each of which adds `value` to rows from 50 on.
fn forest(trees: usize, value: f32) -> Forest {
    let mut forest = Forest::builder(1, 1);
    for _ in 0..trees {
        let mut tree = forest.tree(0);
        tree.split(0, CompareType::F32.less(50.0), Side::Left, 1, 2);
        tree.leaf(1, &[0.0]);
        tree.leaf(2, &[f64::from(value)]);
    }
    forest.build().expect("a forest")
}

/// The function for a model, as a query's optimizer leaves it.
fn planned(models: &Arc<Models>, name: &str) -> ForestFunction {
    let function = ForestFunction::new(models.clone(), ForestOutput::Margin, false);
    let schema =
        Arc::new(datafusion::common::DFSchema::try_from(rows().schema().as_ref().clone()).expect("a schema"));
    let context = SimplifyContext::builder().with_schema(schema).build();
    match function.simplify(vec![lit(name), col("x")], &context).expect("the column fits") {
        ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) => {
            call.func.inner().downcast_ref::<ForestFunction>().expect("a forest's").clone()
        }
        _ => panic!("the optimizer keeps the model"),
    }
}

/// Predicts with a function that another process received.
fn run(sent: SentFunction) -> Result<Vec<f32>> {
    run_with(&Arc::new(Models::only_named()), sent)
}

/// Predicts with a function that another process received, which keeps these models.
fn run_with(models: &Arc<Models>, sent: SentFunction) -> Result<Vec<f32>> {
    let function = ScalarUDF::from(ForestFunction::received(models.clone(), sent));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a thread");
    let batches = runtime.block_on(async {
        let table = SessionContext::new().read_batch(rows())?;
        table
            .select(vec![function.call(vec![lit("a name that nobody knows here"), col("x")])])?
            .collect()
            .await
    })?;
    Ok(batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Float32Type>().values().to_vec())
        .collect())
}

fn expected(trees: usize, value: f32) -> Vec<f32> {
    (0..100).map(|x| if x < 50 { 0.0 } else { trees as f32 * value }).collect()
}

#[test]
fn a_small_model_travels_as_bytes() {
    let models = Arc::new(Models::default());
    models.add("m", forest(3, 0.5)).expect("a model");
    let sent = planned(&models, "m").sent().expect("a small model");
    let model = sent.model.as_ref().expect("the model of the plan");
    assert!(matches!(model.source, ModelSource::Bytes(_)), "{:?}", model.source);
    assert_eq!(run(sent.clone()).expect("rows"), expected(3, 0.5));

    // Sent on by a scheduler, which does not load it.
    let scheduler = ForestFunction::received(Arc::new(Models::only_named()), sent.clone());
    assert_eq!(scheduler.sent().expect("as it came"), sent);

    // Another model's bytes under the hash.
    let mut other = sent;
    let bytes = Contents::new(forest(3, 0.25)).to_bytes();
    other.model.as_mut().expect("a model").source = ModelSource::Bytes(bytes.into());
    let error = run(other).expect_err("another model");
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// Returns whether Ballista tries a task again that failed with this error.
fn is_retried(error: DataFusionError) -> bool {
    #[cfg(feature = "cluster")]
    return ballista_core::serde::protobuf::FailedTask::from(ballista_core::error::BallistaError::from(
        error,
    ))
    .retryable;
    #[cfg(not(feature = "cluster"))]
    matches!(error.find_root(), DataFusionError::IoError(_))
}

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_large_model_travels_as_its_files_path() {
    let file = Scratch(std::env::temp_dir().join(format!("fangorn-sent-{}.fangorn", std::process::id())));
    let write =
        |value| std::fs::write(&file.0, Contents::new(forest(20_000, value)).to_bytes()).expect("a file");
    write(1.0);
    let models = Arc::new(Models::default());
    models.load("m", &file.0).expect("a model");
    let sent = planned(&models, "m").sent().expect("a model with a file");
    let source = &sent.model.as_ref().expect("the model of the plan").source;
    assert!(matches!(source, ModelSource::File(path) if path.is_absolute()), "{source:?}");
    assert_eq!(run(sent.clone()).expect("rows"), expected(20_000, 1.0));

    // The file holds another model: trying again does not help.
    write(2.0);
    let error = run(sent.clone()).expect_err("another model");
    assert!(error.to_string().contains("another model"), "{error}");
    assert!(!is_retried(error));
    // A process reads the file once.
    write(1.0);
    let kept = Arc::new(Models::only_named());
    assert_eq!(run_with(&kept, sent.clone()).expect("rows"), expected(20_000, 1.0));
    std::fs::remove_file(&file.0).expect("the file");
    assert_eq!(run_with(&kept, sent.clone()).expect("rows of the kept model"), expected(20_000, 1.0));
    // A file that can't be read may come back, so Ballista is to try again.
    let comes_back = |sent: SentFunction| {
        let error = run(sent).expect_err("no file");
        assert!(error.to_string().contains("every executor needs"), "{error}");
        assert!(is_retried(error));
    };
    comes_back(sent.clone());
    // It opens, and can't be read.
    std::fs::create_dir(&file.0).expect("a folder");
    comes_back(sent.clone());
    // What can be read and is no model stays that.
    std::fs::remove_dir(&file.0).expect("the folder");
    std::fs::write(&file.0, "no model").expect("a file");
    assert!(!is_retried(run(sent).expect_err("no model")));
}

#[test]
fn a_function_that_no_plan_was_made_for_looks_for_its_model_where_it_arrives() {
    let models = Arc::new(Models::default());
    let sent = ForestFunction::new(models, ForestOutput::Value, false).sent().expect("no model");
    assert_eq!(sent, SentFunction { output: ForestOutput::Value, by_position: false, model: None });
    let error = run(sent).expect_err("no such model");
    assert!(error.to_string().contains("neither the name of a model"), "{error}");
}
