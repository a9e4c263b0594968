//! A scheduler and two executors on this machine, as processes of their own.

use std::{
    fs::File,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch};
use datafusion::{parquet::arrow::ArrowWriter, prelude::SessionContext};
use fangorn_fusion::{
    BlockOperator, BlockParts, FusionError, Matrix, RowBlocks,
    dag::Shape,
    select::{BlockCosts, Costs, Policy},
};
use fangorn_sql::fusion::QueryBlocks;

#[path = "../examples/algorithms/kmeans.rs"]
mod kmeans;
#[path = "../examples/algorithms/l2svm.rs"]
mod l2svm;

/// Files of a table.
const FILES: usize = 16;

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a port that is free together with the one after it.
fn free_port() -> u16 {
    for _ in 0..100 {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("an address").port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
    panic!("no two ports are free");
}

struct Cluster {
    scheduler: Process,
    executors: Vec<(Process, PathBuf)>,
    address: String,
}

impl Cluster {
    fn start(folder: &Path) -> Self {
        let start = |arguments: &[String]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fangorn-cluster"));
            Process(command.args(arguments).stderr(Stdio::null()).spawn().expect("the program"))
        };
        let port = free_port();
        let scheduler = start(&["scheduler".into(), format!("--listen=127.0.0.1:{port}")]);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the scheduler does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        let executors = (0..2)
            .map(|number| {
                let work = folder.join(format!("work-{number}"));
                std::fs::create_dir_all(&work).expect("a folder");
                let arguments = [
                    "executor".into(),
                    format!("--scheduler=127.0.0.1:{port}"),
                    format!("--listen=127.0.0.1:{}", free_port()),
                    "--threads=1".into(),
                    format!("--work={}", work.display()),
                ];
                (start(&arguments), work)
            })
            .collect();
        Self { scheduler, executors, address: format!("df://127.0.0.1:{port}") }
    }
}

/// Writes a file of the table.
fn write_file(folder: &Path, number: usize, columns: Vec<(String, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .expect("columns");
    let file = File::create(folder.join(format!("part-{number:02}.parquet"))).expect("a file");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("rows");
    writer.close().expect("the end");
}

/// Writes a table of so many rows, as a folder of Parquet files: an id and the columns of the model `softprob`.
fn write_table(folder: &Path, rows: usize) {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let unit = (state >> 40) as f32 / (1 << 24) as f32;
        (unit > 0.05).then_some((unit - 0.5) * 6.0)
    };
    for number in 0..FILES {
        let ids = Int64Array::from_iter_values((0..rows).map(|row| (number * rows + row) as i64));
        let mut columns: Vec<(String, ArrayRef)> = vec![("id".into(), Arc::new(ids))];
        for at in 0..8 {
            let column: Float32Array = (0..rows).map(|_| draw()).collect();
            columns.push((format!("f{at}"), Arc::new(column)));
        }
        write_file(folder, number, columns);
    }
}

fn sql(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fangorn-sql"));
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a query. Returns its CSV.
fn query(arguments: &[&str]) -> Result<String, String> {
    let output = sql(arguments).output().expect("the program");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Returns the number of result files of tasks in an executor's folder.
fn results_in(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { results_in(&entry.path()) } else { 1 }).sum()
}

const COLUMNS: &str = "f7, f6, f5, f4, f3, f2, f1, f0";

#[test]
fn a_cluster_gives_the_rows_of_one_process() {
    let scratch = Scratch(std::env::temp_dir().join(format!("fangorn-cluster-{}", std::process::id())));
    write_table(&scratch.0.join("rows"), 2000);
    let table = format!("'{}/'", scratch.0.join("rows").display());
    let cluster = Cluster::start(&scratch.0);
    let model = format!("--model=m={}/../tests/zoo/softprob/model.ubj", env!("CARGO_MANIFEST_DIR"));
    let texts = format!("--model=t={}/../tests/zoo/category-names/model.ubj", env!("CARGO_MANIFEST_DIR"));
    for text in [
        format!("SELECT id, forest_predict('m', {COLUMNS}) AS p FROM {table} ORDER BY id"),
        format!(
            "SELECT forest_class('m', {COLUMNS}) AS c, count(*) AS n, min(id) AS first FROM {table} GROUP BY c ORDER BY c"
        ),
        // The model's columns have other names where the function runs.
        format!(
            "SELECT id, forest_margin('m', f0, f1, f2, f3, f4, f5, f6, f7) AS p FROM \
             (SELECT id, f1 AS f0, f0 AS f1, f2 + 1 AS f2, f3, f4, f5, f6, f7 FROM {table}) WHERE id % 7 = 3 ORDER BY id"
        ),
        format!(
            "SELECT id FROM {table} WHERE forest_predict_by_position('m', f0, f1, f2, f3, f4, f5, f6, f7)[1] > 0.2 ORDER BY id"
        ),
    ] {
        let local = query(&[&model, &text]).expect("rows of one process");
        assert!(local.lines().count() > 3 || text.ends_with("LIMIT 0"), "{text}: {local}");
        let distributed =
            query(&[&model, "--cluster", &cluster.address, &text]).expect("rows of the cluster");
        assert!(distributed == local, "{text}: {distributed}");
    }
    // What does not fit is refused before anything is sent; what fails in a task ends the query.
    for (text, part) in [
        (format!("SELECT forest_predict('m', f0, f1) FROM {table}"), "trained on 8"),
        (format!("SELECT forest_predict('nobody', {COLUMNS}) FROM {table}"), "neither the name of a model"),
        (
            format!(
                "SELECT forest_predict('t', named_struct('code', CAST(NULL AS BIGINT), 'weight', f0, 'colour', CASE WHEN id = 4321 THEN 'no colour' \
                 END)) FROM {table}"
            ),
            "no colour",
        ),
    ] {
        let said = query(&[&model, &texts, "--cluster", &cluster.address, &text]).expect_err("a refusal");
        assert!(said.contains(part) && said.lines().count() == 1, "{said}");
    }
    drop(cluster.scheduler);
    let said = query(&[&model, "--cluster", &cluster.address, &format!("SELECT id FROM {table}")])
        .expect_err("nobody answers");
    assert!(said.lines().count() == 1, "{said}");
}

/// `FANGORN_KILLS` sets how many executors are killed, each in a cluster of its own.
#[test]
fn a_job_outlives_an_executor() {
    let kills = std::env::var("FANGORN_KILLS").map_or(1, |n| n.parse().expect("a number"));
    let scratch = Scratch(std::env::temp_dir().join(format!("fangorn-kill-{}", std::process::id())));
    write_table(&scratch.0.join("rows"), 20_000);
    let model = format!("--model=m={}/../tests/zoo/softprob/model.ubj", env!("CARGO_MANIFEST_DIR"));
    let table = scratch.0.join("rows");
    let text = format!("SELECT id, forest_predict('m', {COLUMNS}) AS p FROM '{}/'", table.display());
    let sorted = |text: String| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let local = sorted(query(&[&model, &text]).expect("rows of one process"));
    for kill in 0..kills {
        let mut cluster = Cluster::start(&scratch.0.join(kill.to_string()));
        let begun = Instant::now();
        let whole = sorted(query(&[&model, "--cluster", &cluster.address, &text]).expect("rows"));
        let (undisturbed, before) =
            (begun.elapsed(), cluster.executors.iter().map(|(_, work)| results_in(work)).sum::<usize>());
        assert!(whole == local, "undisturbed");
        let begun = Instant::now();
        let running = sql(&[&model, "--cluster", &cluster.address, &text]).spawn().expect("the program");
        let done = |cluster: &Cluster| {
            cluster.executors.iter().map(|(_, work)| results_in(work)).sum::<usize>() - before
        };
        while done(&cluster) < before / 2 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let at = done(&cluster);
        assert!(at < before, "all tasks have ended");
        let (mut victim, _) = cluster.executors.swap_remove(kill % 2);
        victim.0.kill().expect("a process");
        let output = running.wait_with_output().expect("the program");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let found = sorted(String::from_utf8(output.stdout).expect("UTF-8"));
        assert!(found == local, "run {kill}: {} lines, {} expected", found.len(), local.len());
        let disturbed = begun.elapsed();
        assert!(at >= before / 2, "{at} of {before} results before the kill");
        assert!(
            disturbed <= undisturbed + Duration::from_secs(60),
            "{disturbed:?}, {undisturbed:?} undisturbed"
        );
        println!("killed after {at} of {before} results: {disturbed:.1?}, undisturbed {undisturbed:.1?}");
    }
}

const FEATURES: usize = 6;

/// Writes a table of so many rows, as a folder of Parquet files: columns `x0` to `x5`, and a class of 1 or -1.
fn write_classes(folder: &Path, rows: usize) {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut state = 7u64;
    let mut draw = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
    for number in 0..FILES {
        let mut columns = vec![Vec::new(); FEATURES];
        let mut classes = Vec::new();
        for _ in 0..rows {
            let row: [f64; FEATURES] = std::array::from_fn(|_| draw());
            let margin = row[0] - row[1] + 2.0 * row[2] + draw();
            classes.push(if margin > 0.0 { 1 } else { -1 });
            columns.iter_mut().zip(row).for_each(|(column, x)| column.push(x));
        }
        let named = columns.into_iter().enumerate();
        let mut columns: Vec<(String, ArrayRef)> =
            named.map(|(at, x)| (format!("x{at}"), Arc::new(Float64Array::from(x)) as _)).collect();
        columns.push(("class".into(), Arc::new(Int64Array::from(classes))));
        write_file(folder, number, columns);
    }
}

/// A matrix of a query, which kills an executor while so many operators have been sent.
struct Disturbed {
    rows: QueryBlocks,
    victim: Mutex<Option<(Process, usize)>>,
}

impl RowBlocks for Disturbed {
    fn shape(&self) -> Shape {
        self.rows.shape()
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        self.rows.each(take)
    }

    fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
        assert!(!operator.fits_memory(), "it runs on the cluster");
        let mut victim = self.victim.lock().expect("an executor");
        let due = match &mut *victim {
            Some((_, 0)) => victim.take(),
            Some((_, left)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        drop(victim);
        // The operator is on its way, or running.
        let killing = due.map(|(process, _)| {
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                drop(process);
            })
        });
        let results = self.rows.results(operator);
        if let Some(killing) = killing {
            killing.join().expect("it was killed");
        }
        results
    }
}

#[test]
fn fusion_plans_give_the_local_result_and_outlive_an_executor() {
    let scratch = Scratch(std::env::temp_dir().join(format!("fangorn-fused-{}", std::process::id())));
    let folder = scratch.0.join("rows");
    write_classes(&folder, 1000);
    let rows = 1000 * FILES;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let names: Vec<String> = (0..FEATURES).map(|at| format!("x{at}")).collect();
    let mut columns: Vec<&str> = names.iter().map(String::as_str).collect();
    let open = |address: Option<&str>, columns: &[&str]| {
        runtime.block_on(async {
            let context = match address {
                None => SessionContext::new(),
                Some(address) => {
                    fangorn_sql::cluster::connect(address, &Default::default()).await.expect("a session")
                }
            };
            let query = format!("SELECT * FROM '{}/'", folder.display());
            let query = context.enable_url_table().sql(&query).await.expect("a query");
            QueryBlocks::new(query, columns).await.expect("its rows")
        })
    };
    // Memory has no room for a vector with an element a row.
    let blocks = Some(BlockCosts { read: 5e8, broadcast: 1e8 });
    let costs = Costs { memory: 8.0 * rows as f64 - 1.0, blocks, ..Costs::default() };
    let close = |a: &[f64], b: &[f64]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-7 * a.abs().max(1.0))
    };
    let disturbed = |name: &str, columns: &[&str], operators: usize| {
        let mut cluster = Cluster::start(&scratch.0.join(name));
        let rows = open(Some(&cluster.address), columns);
        let (victim, _) = cluster.executors.swap_remove(0);
        (Disturbed { rows, victim: Mutex::new(Some((victim, operators))) }, cluster)
    };

    let local = kmeans::train(&open(None, &columns), start(&folder, &columns), &costs, Policy::CostBased);
    let local = local.expect("centroids");
    let (source, cluster) = disturbed("kmeans", &columns, 5);
    let found =
        kmeans::train(&source, start(&folder, &columns), &costs, Policy::CostBased).expect("centroids");
    assert!(source.victim.into_inner().expect("an executor").is_none(), "an executor was killed");
    assert_eq!(found.iterations, local.iterations);
    assert!(close(&local.centroids, &found.centroids) && close(&[local.error], &[found.error]));
    drop(cluster);

    columns.push("class");
    let local = l2svm::train(&open(None, &columns), &costs, Policy::CostBased).expect("weights");
    let (source, cluster) = disturbed("l2svm", &columns, 6);
    let found = l2svm::train(&source, &costs, Policy::CostBased).expect("weights");
    assert!(source.victim.into_inner().expect("an executor").is_none(), "an executor was killed");
    assert!(close(&local.weights, &found.weights), "{:?} instead of {:?}", found.weights, local.weights);
    assert!(close(&[local.objective], &[found.objective]) && found.steps == local.steps);
    drop(cluster);

    // What fails in a task ends the run, and its message comes back.
    let cluster = Cluster::start(&scratch.0.join("nulls"));
    let query = runtime.block_on(async {
        let context = fangorn_sql::cluster::connect(&cluster.address, &Default::default()).await;
        let query = format!("SELECT nullif(class, -1) AS class FROM '{}/'", folder.display());
        let query = context.expect("a session").enable_url_table().sql(&query).await.expect("a query");
        QueryBlocks::new(query, &["class"]).await.expect("its rows")
    });
    let costs = Costs { memory: 1000.0, ..costs };
    let error =
        kmeans::train(&query, vec![0.0], &costs, Policy::CostBased).err().expect("a null").to_string();
    assert!(error.contains("column class has a null"), "{error}");
}

/// Returns three rows of a table, as centroids to begin with.
fn start(folder: &Path, columns: &[&str]) -> Vec<f64> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads");
    let rows = runtime.block_on(async {
        let query = format!("SELECT * FROM '{}/part-00.parquet' LIMIT 3", folder.display());
        let query = SessionContext::new().enable_url_table().sql(&query).await.expect("a query");
        QueryBlocks::new(query, columns).await.expect("its rows")
    });
    let mut found = Vec::new();
    let taken = rows.each(&mut |_, block| {
        found.extend(block.to_dense());
        Ok(())
    });
    taken.expect("three rows");
    found
}
