//! L2SVM and KMeans over a folder of Parquet files, here or on a cluster, by fusion plans.
//!
//! ```console
//! cargo run --release --features cluster --example algorithms -- kmeans rows/ --columns f0,f1,f2
//! ```

mod kmeans;
mod l2svm;

use std::{error::Error, time::Instant};

use clap::{Parser, ValueEnum};
use datafusion::prelude::SessionContext;
use fangorn_fusion::{
    RowBlocks,
    select::{BlockCosts, Costs, Policy},
};
use fangorn_sql::fusion::QueryBlocks;

/// Train on the rows of a query: operators of the fusion plan run as aggregate functions, here or on a cluster.
#[derive(Parser)]
#[command(after_help = "Examples:
  algorithms kmeans \"SELECT age, income FROM 'people/'\" --columns age,income
  algorithms l2svm \"SELECT *, 2 * churned - 1 AS class FROM 'people/'\" --columns age,income,class \\
    --cluster df://localhost:50050")]
struct Arguments {
    /// The algorithm. L2SVM takes the last column as the class, 1 or -1
    algorithm: Algorithm,
    /// The query
    query: String,
    /// The columns of the matrix
    #[arg(long, value_delimiter = ',', required = true)]
    columns: Vec<String>,
    /// Run operators on the cluster of this scheduler
    #[arg(long, value_name = "df://HOST:PORT")]
    cluster: Option<String>,
    /// Operators whose inputs and results have room in so much memory run in this process
    #[arg(long, value_name = "BYTES", default_value = "64e6")]
    memory: f64,
    /// Number of centroids of KMeans
    #[arg(long, default_value = "5")]
    centroids: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Algorithm {
    L2svm,
    Kmeans,
}

async fn session(cluster: Option<&str>) -> datafusion::error::Result<SessionContext> {
    match cluster {
        None => Ok(SessionContext::new()),
        #[cfg(feature = "cluster")]
        Some(address) => fangorn_sql::cluster::connect(address, &Default::default()).await,
        #[cfg(not(feature = "cluster"))]
        Some(_) => {
            datafusion::common::plan_err!("--cluster: this example was built without --features cluster")
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        let session = session(arguments.cluster.as_deref()).await?.enable_url_table();
        let columns: Vec<&str> = arguments.columns.iter().map(String::as_str).collect();
        QueryBlocks::new(session.sql(&arguments.query).await?, &columns).await
    })?;
    let blocks = Some(BlockCosts { read: 5e8, broadcast: 1e8 });
    let costs = Costs { memory: arguments.memory, blocks, ..Costs::default() };
    println!("{} rows of {} columns", rows.shape().0, rows.shape().1);
    let begun = Instant::now();
    match arguments.algorithm {
        Algorithm::L2svm => {
            let found = l2svm::train(&rows, &costs, Policy::CostBased)?;
            println!(
                "objective {:.9e} after {} Newton steps: {:?}",
                found.objective, found.steps, found.weights
            );
        }
        Algorithm::Kmeans => {
            // The first rows begin as centroids.
            let (columns, mut start) = (rows.shape().1, Vec::new());
            let wanted = arguments.centroids * columns;
            rows.each(&mut |_, block| {
                let missing = wanted - start.len();
                start.extend(block.to_dense().into_iter().take(missing));
                Ok(())
            })?;
            let found = kmeans::train(&rows, start, &costs, Policy::CostBased)?;
            println!(
                "error {:.9e} after {} iterations: {:?}",
                found.error, found.iterations, found.centroids
            );
        }
    }
    println!("{:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}
