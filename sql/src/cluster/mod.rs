//! Forest functions and fusion plans on a cluster of Apache DataFusion Ballista.
//!
//! A client plans a query, a scheduler cuts the plan into stages of tasks, and executors run the tasks. [`connect`]
//! returns a client's session. [`scheduler`] and [`executor`] add forest functions to the settings of the other two,
//! which the program `fangorn-cluster` starts.
//!
//! A function is sent with its model: as bytes up to 1 MiB, and above that as its file's path with a hash. So every
//! process uses the model that the query was planned for, or refuses the query. Each process loads a model once.
//!
//! The session also runs [`fusion`](crate::fusion) plans: their operators are sent with the query.
//!
//! If an executor is lost, others take over its tasks. A task that fails is retried only after an `IoError`: so a
//! model's file that can't be opened is tried again, but a value that does not fit ends the query.
//!
//! ```no_run
//! use std::sync::Arc;
//! use fangorn_sql::{Models, cluster};
//!
//! # async fn query() -> datafusion::error::Result<()> {
//! let models = Arc::new(Models::default());
//! let context = cluster::connect("df://localhost:50050", &models).await?;
//! let query = "SELECT id, forest_predict('model.ubj', age, income) FROM 'people.parquet'";
//! let rows = context.sql(query).await?.collect().await?;
//! # Ok(())
//! # }
//! ```

mod codec;

pub use codec::FunctionCodec;

use std::{net::SocketAddr, sync::Arc};

use ballista::prelude::{SessionConfigExt, SessionContextExt};
use ballista_core::{error::BallistaError, registry::BallistaFunctionRegistry};
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_scheduler::{
    cluster::BallistaCluster, config::SchedulerConfig, scheduler_process::start_server,
};
use datafusion::{
    error::Result,
    execution::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};

use crate::Models;

/// Seconds between an executor's heartbeats.
const HEARTBEAT_S: u64 = 5;

/// Seconds without a heartbeat after which an executor is lost, and its tasks go to others.
const LOST_AFTER_S: u64 = 15;

/// The maximum size of a message between processes, in bytes. All tasks that an executor gets at once are one message,
/// and each contains the models of its plan.
const MESSAGE_BYTES: u32 = 256 << 20;

/// Seconds for which executors keep the results of a query that has ended: as long as a client may take to fetch them.
const RESULTS_KEPT_S: u64 = 12 * 3600;

/// Returns a session whose queries run on the cluster of a scheduler, `df://host:port`.
///
/// # Errors
/// The address is not valid. Whether a scheduler answers is only known when a query runs.
pub async fn connect(address: &str, models: &Arc<Models>) -> Result<SessionContext> {
    let codec = Arc::new(FunctionCodec::new(models.clone()));
    let config = SessionConfig::new_with_ballista()
        .with_ballista_logical_extension_codec(codec.clone())
        .with_ballista_physical_extension_codec(codec)
        .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES as usize);
    let state = SessionStateBuilder::new().with_default_features().with_config(config).build();
    let context = SessionContext::remote_with_state(address, state).await?;
    // Ballista's own session has only Ballista's functions.
    crate::functions(models).into_iter().for_each(|function| context.register_udf(function));
    Ok(context)
}

/// Returns a scheduler's settings with forest functions. An executor is lost after 15 seconds without a heartbeat.
pub fn scheduler(settings: SchedulerConfig) -> SchedulerConfig {
    let codec = Arc::new(FunctionCodec::new(Default::default()));
    SchedulerConfig {
        override_logical_codec: Some(codec.clone()),
        override_physical_codec: Some(codec),
        executor_timeout_seconds: LOST_AFTER_S,
        expire_dead_executor_interval_seconds: HEARTBEAT_S,
        no_executors_grace_period_seconds: 2 * LOST_AFTER_S,
        finished_job_data_clean_up_interval_seconds: RESULTS_KEPT_S,
        grpc_server_max_decoding_message_size: MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MESSAGE_BYTES,
        grpc_client_max_message_size: MESSAGE_BYTES,
        ..settings
    }
}

/// Returns an executor's settings with forest functions. It sends a heartbeat every 5 seconds.
pub fn executor(settings: ExecutorProcessConfig) -> ExecutorProcessConfig {
    let codec = Arc::new(FunctionCodec::new(Default::default()));
    // Ballista's own functions lack those of lists, such as the one that takes a class's probability out of a list.
    let functions = SessionStateBuilder::new().with_default_features().build();
    ExecutorProcessConfig {
        override_function_registry: Some(Arc::new(BallistaFunctionRegistry::from(&functions))),
        override_logical_codec: Some(codec.clone()),
        override_physical_codec: Some(codec),
        executor_heartbeat_interval_seconds: HEARTBEAT_S,
        grpc_max_decoding_message_size: MESSAGE_BYTES,
        grpc_max_encoding_message_size: MESSAGE_BYTES,
        ..settings
    }
}

/// Runs a scheduler until it is stopped.
///
/// # Errors
/// It can't listen at the address.
pub async fn run_scheduler(address: SocketAddr, settings: SchedulerConfig) -> Result<(), BallistaError> {
    let settings = scheduler(settings);
    let cluster = BallistaCluster::new_from_config(&settings).await?;
    start_server(cluster, address, Arc::new(settings)).await
}

/// Runs an executor until it is stopped.
///
/// # Errors
/// It can't listen at its address. If the scheduler does not answer, the executor waits for it.
pub async fn run_executor(settings: ExecutorProcessConfig) -> Result<(), BallistaError> {
    start_executor_process(Arc::new(executor(settings))).await
}
