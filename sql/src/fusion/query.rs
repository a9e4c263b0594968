//! The result of a query as a matrix in row blocks.

use std::{
    future::Future,
    panic::resume_unwind,
    sync::{Arc, OnceLock, mpsc::sync_channel},
    thread,
};

use arrow::{array::AsArray, datatypes::DataType};
use datafusion::{
    common::{DataFusionError, Result, exec_datafusion_err, plan_err},
    logical_expr::{AggregateUDF, Expr, cast, ident},
    prelude::DataFrame,
};
use fangorn_fusion::{BlockOperator, BlockParts, FusionError, Matrix, RowBlocks, dag::Shape};
use futures::StreamExt as _;
use tokio::runtime::{Handle, RuntimeFlavor};

use super::{
    aggregate::{FusedAggregate, add_block, refused},
    rows::Rows,
};

/// The result of a query as a matrix that is read in row blocks: a row of the matrix for each row, an element for each
/// column that is named.
///
/// Operators of a plan run where the query runs. Those that the plan has memory for run in this process, over rows that
/// are fetched once. Calls wait for queries, so in asynchronous code they belong into `tokio::task::spawn_blocking`.
#[derive(Clone, Debug)]
pub struct QueryBlocks {
    query: DataFrame,
    columns: Vec<String>,
    row_number: Option<String>,
    shape: Shape,
    runtime: Handle,
    kept: Arc<OnceLock<Blocks>>,
}

/// Blocks, each with the number of its first row, if rows have numbers.
type Blocks = Vec<(Option<usize>, Matrix)>;

impl QueryBlocks {
    /// Counts the rows of a query, of which these columns are a matrix. Its rows have no numbers: an operator that gives
    /// rows, or reads the same rows of another matrix, is refused.
    ///
    /// # Errors
    /// A column does not exist or is neither a number nor true or false, the query fails, or it runs on a runtime of one
    /// thread, which would wait for itself.
    pub async fn new(query: DataFrame, columns: &[&str]) -> Result<Self> {
        Self::of(query, columns, None).await
    }

    /// Like [`new`](Self::new), with a column of row numbers: each from 0 on once. `row_number() OVER (ORDER BY id) - 1`
    /// makes one of an id.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub async fn numbered(query: DataFrame, columns: &[&str], row_number: &str) -> Result<Self> {
        Self::of(query, columns, Some(row_number)).await
    }

    async fn of(query: DataFrame, columns: &[&str], row_number: Option<&str>) -> Result<Self> {
        let runtime = Handle::current();
        if runtime.runtime_flavor() == RuntimeFlavor::CurrentThread {
            return plan_err!(
                "row blocks of a query need a runtime of several threads; build a multi-thread runtime"
            );
        }
        if columns.is_empty() {
            return plan_err!("a matrix has one column at least; name the query's columns that belong to it");
        }
        for name in columns.iter().copied().chain(row_number) {
            let kind = query.schema().field_with_unqualified_name(name)?.data_type();
            if Some(name) == row_number && !kind.is_integer() {
                return plan_err!(
                    "column {name} has the type {kind}, and row numbers are whole; cast it to BIGINT"
                );
            }
            if !(kind.is_numeric() || *kind == DataType::Boolean) {
                return plan_err!(
                    "column {name} has the type {kind}, and a matrix has numbers; cast it, or leave it out"
                );
            }
        }
        let rows = query.clone().count().await?;
        Ok(Self {
            query,
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            row_number: row_number.map(str::to_owned),
            shape: (rows, columns.len()),
            runtime,
            kept: Arc::default(),
        })
    }

    /// Returns the columns as numbers of double precision, after the numbers of the rows if they are wanted.
    fn expressions(&self, numbered: bool) -> Vec<Expr> {
        let number =
            self.row_number.iter().filter(|_| numbered).map(|name| cast(ident(name), DataType::Int64));
        number.chain(self.columns.iter().map(|name| cast(ident(name), DataType::Float64))).collect()
    }

    /// Waits for a future on a thread of its own, since a thread of the runtime may not wait.
    fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> T {
        thread::scope(|scope| scope.spawn(|| self.runtime.block_on(future)).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Fetches the rows, as dense blocks.
    async fn fetch(&self, mut take: impl FnMut(Option<usize>, Matrix) -> Result<()> + Send) -> Result<()> {
        let numbered = self.row_number.is_some();
        let mut rows = Rows::new(self.columns.clone(), numbered);
        // Names must differ, and the same column may be there twice.
        let named = self.expressions(numbered).into_iter().enumerate();
        let select: Vec<Expr> = named.map(|(at, column)| column.alias(format!("c{at}"))).collect();
        let mut batches = self.query.clone().select(select)?.execute_stream().await?;
        while let Some(batch) = batches.next().await {
            rows.add(batch?.columns(), &mut take)?;
        }
        rows.finish(&mut take)
    }

    /// Computes the results of an operator in this process.
    fn results_here(&self, operator: &BlockOperator) -> Result<BlockParts> {
        let blocks = match self.kept.get() {
            Some(blocks) => blocks,
            None => {
                let mut blocks = Blocks::new();
                self.wait(self.fetch(|first, block| {
                    blocks.push((first, block));
                    Ok(())
                }))?;
                self.kept.get_or_init(|| blocks)
            }
        };
        let mut parts = BlockParts::default();
        for (first, block) in blocks {
            add_block(operator, &mut parts, *first, block)?;
        }
        Ok(parts)
    }

    /// Computes the results of an operator where the query runs.
    fn results_there(&self, operator: &BlockOperator) -> Result<BlockParts> {
        let numbered = operator.needs_row_numbers();
        let function = FusedAggregate::new(operator.clone(), self.columns.clone(), numbered);
        let call = AggregateUDF::from(function).call(self.expressions(numbered)).alias("results");
        let batches = self.wait(async {
            let results = self.query.clone().aggregate(Vec::new(), vec![call])?;
            results.collect().await
        })?;
        let bytes = batches.iter().find(|batch| batch.num_rows() == 1).map(|batch| batch.column(0).clone());
        let bytes = bytes.ok_or_else(|| exec_datafusion_err!("the query has no result"))?;
        operator.parts_from_bytes(bytes.as_binary::<i64>().value(0)).map_err(refused)
    }
}

/// Returns a query's error as one of a matrix.
fn of_query(name: &str, error: &DataFusionError) -> FusionError {
    FusionError::Input { name: name.to_owned(), problem: error.find_root().strip_backtrace() }
}

impl RowBlocks for QueryBlocks {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn each(
        &self,
        take: &mut dyn FnMut(usize, Matrix) -> Result<(), FusionError>,
    ) -> Result<(), FusionError> {
        // Rows without numbers get those of the order in which they come.
        let mut next = 0;
        let (sender, receiver) = sync_channel(1);
        let (taken, fetched) = thread::scope(|scope| {
            let fetch = self.fetch(move |first, block| {
                sender.send((first, block)).map_err(|_| exec_datafusion_err!("nobody takes the rows"))
            });
            let fetching = scope.spawn(|| self.runtime.block_on(fetch));
            let taken = receiver.into_iter().try_for_each(|(first, block): (Option<usize>, Matrix)| {
                let (first, rows) = (first.unwrap_or(next), block.shape().0);
                next += rows;
                take(first, block)
            });
            (taken, fetching.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        taken.and(fetched.map_err(|error| of_query("the query", &error)))
    }

    fn results(&self, operator: &BlockOperator) -> Result<BlockParts, FusionError> {
        let name = operator.input();
        if operator.needs_row_numbers() && self.row_number.is_none() {
            let problem = "an operator gives rows, or reads the same rows of another matrix, and rows of a query have no \
                           order; name a column of row numbers (QueryBlocks::numbered), or give the plan's costs less memory \
                           than a vector with an element a row takes";
            return Err(FusionError::Input { name, problem: problem.to_owned() });
        }
        let results =
            if operator.fits_memory() { self.results_here(operator) } else { self.results_there(operator) };
        results.map_err(|error| of_query(&name, &error))
    }
}
