//! Fusion plans over tables: every operator gives what it gives over matrices in memory.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanArray, Float32Array, Float64Array, Int32Array, RecordBatch, StringArray, UInt32Array,
    },
    compute::take_record_batch,
};
use datafusion::{
    datasource::MemTable,
    prelude::{SessionConfig, SessionContext},
};
use fangorn_fusion::{
    Bindings, Matrix, MatrixBlocks, RowBlocks,
    dag::{Aggregation, Builder, Dag, Direction},
    select::{BlockCosts, Costs, Plan, Policy},
};
use fangorn_sql::fusion::QueryBlocks;
use tokio::runtime::Runtime;

#[path = "../examples/algorithms/kmeans.rs"]
mod kmeans;
#[path = "../examples/algorithms/l2svm.rs"]
mod l2svm;

const ROWS: usize = 20_011;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads")
}

fn draws(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    }
}

/// Columns of several types, of which the last is a class, and what they are as a matrix.
fn columns() -> (RecordBatch, Vec<f64>) {
    let mut draw = draws(5);
    let (mut numbers, mut single, mut whole, mut is_new, mut class) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut matrix = Vec::new();
    for _ in 0..ROWS {
        let (a, b, c, d) = (draw(), draw() as f32, (20.0 * draw()) as i32, draw() > 0.2);
        let side = if a - f64::from(b) + f64::from(c) / 20.0 + draw() > 0.0 { 1 } else { -1 };
        matrix.extend([a, f64::from(b), f64::from(c), f64::from(u8::from(d)), f64::from(side)]);
        numbers.push(a);
        single.push(b);
        whole.push(c);
        is_new.push(d);
        class.push(side);
    }
    let row = Int32Array::from_iter_values(0..ROWS as i32);
    let arrays: Vec<(&str, ArrayRef)> = vec![
        ("Row", Arc::new(row)),
        ("number", Arc::new(Float64Array::from(numbers))),
        ("single", Arc::new(Float32Array::from(single))),
        ("whole", Arc::new(Int32Array::from(whole))),
        ("is new", Arc::new(BooleanArray::from(is_new))),
        ("class", Arc::new(Int32Array::from(class))),
    ];
    (RecordBatch::try_from_iter(arrays).expect("columns"), matrix)
}

const NAMES: [&str; 5] = ["number", "single", "whole", "is new", "class"];

/// The table in three partitions of uneven batches, in an order of their own. Every 1000th pair of rows is swapped.
fn session(batch: &RecordBatch) -> SessionContext {
    let rows = batch.num_rows();
    let mut order: Vec<u32> = (0..rows as u32).collect();
    (0..rows - 1).step_by(1000).for_each(|row| order.swap(row, row + 1));
    let batch = take_record_batch(batch, &UInt32Array::from(order)).expect("the same rows");
    let (mut partitions, mut first, mut draw) = (vec![Vec::new(); 3], 0, draws(11));
    while first < rows {
        let count = (1 + ((draw() + 0.5) * 3000.0) as usize).min(rows - first);
        partitions[(first / 7) % 3].push(batch.slice(first, count));
        first += count;
    }
    partitions[1].reverse();
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(3));
    let table = MemTable::try_new(batch.schema(), partitions).expect("a table");
    context.register_table("rows", Arc::new(table)).expect("its name is free");
    context
}

fn close(name: &str, expected: &[f64], found: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (at, (a, b)) in expected.iter().zip(found).enumerate() {
        assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0), "{name}[{at}]: {b} instead of {a}");
    }
}

/// Outputs of all templates: aggregates, rows, rows that read another vector with an element a row.
fn graph(declare: impl Fn(&Builder)) -> Dag {
    let builder = Builder::new();
    declare(&builder);
    builder.finish().expect("a graph")
}

#[test]
fn operators_over_a_query_give_what_they_give_over_a_matrix() {
    let runtime = runtime();
    let (batch, matrix) = columns();
    let context = session(&batch);
    let numbered = runtime.block_on(async {
        let query = context.sql("SELECT * FROM rows").await.expect("a query");
        QueryBlocks::numbered(query, &NAMES, "Row").await.expect("its rows")
    });
    let plain = runtime.block_on(async {
        let query = context.sql("SELECT * FROM rows").await.expect("a query");
        QueryBlocks::new(query, &NAMES).await.expect("its rows")
    });
    assert_eq!(numbered.shape(), (ROWS, 5));
    let w: Vec<f64> = (0..ROWS).map(|row| (row % 13) as f64 - 5.0).collect();
    let bindings = Bindings::from([
        ("v".to_owned(), Matrix::dense((5, 1), vec![1.0, -2.0, 0.5, 3.0, 0.25]).expect("five elements")),
        ("w".to_owned(), Matrix::dense((ROWS, 1), w).expect("an element a row")),
    ]);
    let aggregates = |is_sparse: bool| {
        graph(|builder| {
            let x = if is_sparse { builder.csr("X", ROWS, 5, 0.9) } else { builder.dense("X", ROWS, 5) };
            let v = builder.dense("v", 5, 1);
            let _ = builder.dense("w", ROWS, 1);
            builder.output("gradient", x.transpose().matmul(x.matmul(v).square()));
            builder.output("sums", (x * 2.0).column_sums());
            builder.output("least", x.aggregate(Aggregation::Min, Direction::Full));
            builder.output("most", x.aggregate(Aggregation::Max, Direction::Column));
            builder.output("squares", x.sum_of_squares());
        })
    };
    let by_rows = graph(|builder| {
        let (x, v, w) = (builder.dense("X", ROWS, 5), builder.dense("v", 5, 1), builder.dense("w", ROWS, 1));
        builder.output("weighted", x.transpose().matmul(w));
        builder.output("scores", x.matmul(v) * w);
        builder.output("halves", x * 0.5);
    });
    let blocks = Some(BlockCosts { read: 1e9, broadcast: 1e9 });
    // With so much memory all operators run here; without blocks, the costs say nothing about where.
    let here = Costs { memory: 1e12, blocks, ..Costs::default() };
    for (name, dag, needs_numbers) in
        [("dense", aggregates(false), false), ("sparse", aggregates(true), false), ("rows", by_rows, true)]
    {
        let whole = match name {
            "sparse" => Matrix::csr((ROWS, 5), &matrix),
            _ => Matrix::dense((ROWS, 5), matrix.clone()),
        };
        let mut all = bindings.clone();
        all.insert("X".to_owned(), whole.expect("all rows"));
        for policy in Policy::ALL {
            for costs in [Costs::default(), here] {
                let plan = Plan::new(&dag, policy, &costs);
                let expected = plan.run(&dag, &all).expect("a run");
                let run = |source: &QueryBlocks| {
                    let sources = HashMap::from([("X".to_owned(), source as &dyn RowBlocks)]);
                    plan.run_blocks(&dag, &bindings, &sources)
                };
                let mut found = vec![run(&numbered).expect("rows with numbers")];
                match run(&plain) {
                    Ok(rows) => found.push(rows),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(needs_numbers || policy != Policy::CostBased, "{text}");
                        assert!(text.contains("column of row numbers") && text.contains("\"X\""), "{text}");
                    }
                }
                for found in found {
                    for (output, expected) in &expected {
                        let name = format!("{name}, {policy:?}, {output}");
                        close(&name, &expected.to_dense(), &found[output].to_dense());
                    }
                }
            }
        }
    }
    // The rows one by one, for whoever wants the whole matrix.
    let mut whole = vec![0.0; matrix.len()];
    numbered
        .each(&mut |first, block| {
            let values = block.to_dense();
            whole[5 * first..][..values.len()].copy_from_slice(&values);
            Ok(())
        })
        .expect("all rows");
    assert_eq!(whole, matrix);
}

#[test]
fn algorithms_train_over_a_query_as_over_a_matrix() {
    let runtime = runtime();
    let (batch, matrix) = columns();
    let context = session(&batch);
    let blocks = Some(BlockCosts { read: 5e8, broadcast: 1e8 });
    let source = |names: &[&str]| {
        runtime.block_on(async {
            let query = context.sql("SELECT * FROM rows").await.expect("a query");
            QueryBlocks::new(query, names).await.expect("its rows")
        })
    };
    let whole = |width: usize| {
        let values = matrix.chunks_exact(5).flat_map(|row| row[..width].to_vec()).collect();
        MatrixBlocks { matrix: Matrix::dense((ROWS, width), values).expect("all rows"), rows: ROWS }
    };
    // Vectors with an element a row have no room, so they stay in the blocks.
    let costs = Costs { memory: 8.0 * ROWS as f64 - 1.0, blocks, ..Costs::default() };
    let expected = l2svm::train(&whole(5), &Costs::default(), Policy::CostBased).expect("weights");
    let found = l2svm::train(&source(&NAMES), &costs, Policy::CostBased).expect("weights");
    assert!(expected.objective < 0.5 * ROWS as f64 && expected.steps > 3);
    close("objective", &[expected.objective], &[found.objective]);
    assert!(found.weights.iter().zip(&expected.weights).all(|(a, b)| (a - b).abs() < 1e-6));

    let start: Vec<f64> = matrix.chunks_exact(5).take(4).flat_map(|row| row[..4].to_vec()).collect();
    let expected =
        kmeans::train(&whole(4), start.clone(), &Costs::default(), Policy::CostBased).expect("centroids");
    let found = kmeans::train(&source(&NAMES[..4]), start, &costs, Policy::CostBased).expect("centroids");
    assert_eq!(found.iterations, expected.iterations);
    close("error", &[expected.error], &[found.error]);
    close("centroids", &expected.centroids, &found.centroids);
}

#[test]
fn what_is_no_matrix_is_refused_by_name() {
    let runtime = runtime();
    let context = SessionContext::new();
    let arrays: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0)]))),
        ("b", Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]))),
        ("name", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
        ("once", Arc::new(Int32Array::from(vec![0, 1, 2]))),
        ("twice", Arc::new(Int32Array::from(vec![0, 1, 1]))),
        ("from_1", Arc::new(Int32Array::from(vec![1, 2, 3]))),
        ("negative", Arc::new(Int32Array::from(vec![-1, 0, 1]))),
    ];
    let batch = RecordBatch::try_from_iter(arrays).expect("columns");
    context.register_batch("rows", batch).expect("a table");
    let open = |columns: &'static [&'static str], number: Option<&'static str>| {
        runtime.block_on(async {
            let query = context.sql("SELECT * FROM rows").await.expect("a query");
            match number {
                None => QueryBlocks::new(query, columns).await,
                Some(number) => QueryBlocks::numbered(query, columns, number).await,
            }
        })
    };
    let refused = |columns, number, part: &str| {
        let error = open(columns, number).expect_err(part).to_string();
        assert!(error.contains(part), "`{part}` is not in {error}");
    };
    refused(&["b", "name"], None, "column name has the type Utf8");
    refused(&["b", "nobody"], None, "nobody");
    refused(&[], None, "one column at least");
    refused(&["b"], Some("b"), "row numbers are whole");
    let run = |columns: &'static [&'static str], number| {
        let source = open(columns, number).expect("rows");
        let dag = graph(|builder| {
            let x = builder.dense("X", 3, columns.len());
            builder.output("rows", x * 2.0);
        });
        let sum = graph(|builder| builder.output("sum", builder.dense("X", 3, columns.len()).sum()));
        let dag = if number.is_some() { dag } else { sum };
        let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
        let sources = HashMap::from([("X".to_owned(), &source as &dyn RowBlocks)]);
        plan.run_blocks(&dag, &Bindings::new(), &sources)
    };
    let fails = |columns, number, part: &str| {
        let error = run(columns, number).expect_err(part).to_string();
        assert!(error.contains(part) && error.contains("\"X\""), "`{part}` is not in {error}");
    };
    fails(&["b", "a"], None, "column a has a null");
    fails(&["b"], Some("twice"), "come in two blocks");
    fails(&["b"], Some("from_1"), "of 3 rows");
    fails(&["b"], Some("negative"), "row number -1 is negative");
    assert_eq!(run(&["b"], Some("once")).expect("rows")["rows"].to_dense(), [2.0, 4.0, 6.0]);
    assert_eq!(run(&["b", "once", "b"], None).expect("a sum")["sum"].scalar(), 15.0);

    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a thread");
    let error = one.block_on(async {
        let query = context.sql("SELECT * FROM rows").await.expect("a query");
        QueryBlocks::new(query, &["b"]).await.expect_err("a runtime of one thread").to_string()
    });
    assert!(error.contains("multi-thread"), "{error}");
}
