//! `fangorn-cluster`: a scheduler and executors whose queries may have trained models as functions.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
};

use ballista_core::error::BallistaError;
use ballista_executor::executor_process::ExecutorProcessConfig;
use ballista_scheduler::config::SchedulerConfig;
use clap::{Parser, Subcommand};
use fangorn_sql::cluster::{run_executor, run_scheduler};

/// Scheduler and executors of Apache DataFusion Ballista, with trained models as functions of SQL.
///
/// Start one scheduler and any number of executors. Then fangorn sql --cluster df://HOST:PORT "SELECT …" runs a query on
/// them. Executors read tables and large models by their paths, so every executor needs those files. RUST_LOG=info in the
/// environment shows what happens.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:
  fangorn-cluster scheduler &
  fangorn-cluster executor &
  fangorn-cluster executor --listen 127.0.0.1:50061 &
  fangorn sql --cluster df://127.0.0.1:50050 \"SELECT id, forest_predict('model.ubj', age, income) FROM 'people/'\""
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Split queries into tasks, and send the tasks to executors
    #[command(after_help = "Example:\n  fangorn-cluster scheduler --listen 0.0.0.0:50050 --name 10.0.0.1")]
    Scheduler {
        /// The address at which clients and executors reach the scheduler
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50050")]
        listen: SocketAddr,
        /// The host name by which other machines reach this one, if it is not the address of --listen
        #[arg(long, value_name = "HOST")]
        name: Option<String>,
    },
    /// Run tasks
    #[command(
        after_help = "Example:\n  fangorn-cluster executor --scheduler 10.0.0.1:50050 --listen 10.0.0.2:50051 --threads 8"
    )]
    Executor {
        /// The address of the scheduler
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
        scheduler: (String, u16),
        /// The IPv4 address at which others fetch results. The scheduler sends tasks to the next port
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:50051")]
        listen: SocketAddr,
        /// The host name by which other machines reach this one, if it is not the address of --listen
        #[arg(long, value_name = "HOST")]
        name: Option<String>,
        /// Number of partitions that run at a time; 0 stands for the number of cores
        #[arg(long, value_name = "N", default_value = "0")]
        threads: usize,
        /// The folder for results until they are fetched. Without it, a new folder among the system's temporary files
        #[arg(long, value_name = "FOLDER")]
        work: Option<PathBuf>,
    },
}

fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let pair = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let pair = pair.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    pair.ok_or_else(|| "give a host and a port with : between them, for example localhost:50050".into())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("fangorn-cluster: the threads can't be started: {e}");
            return ExitCode::from(2);
        }
    };
    match runtime.block_on(run(arguments.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fangorn-cluster: {error}");
            ExitCode::from(2)
        }
    }
}

/// Returns the host name by which others reach a process that listens at an address, as in a URL. Returns `None` if the
/// address stands for all networks and no name is given.
fn name_of(listen: SocketAddr, name: Option<String>) -> Option<String> {
    let own = || match listen.ip() {
        ip if ip.is_unspecified() => None,
        IpAddr::V4(ip) => Some(ip.to_string()),
        IpAddr::V6(ip) => Some(format!("[{ip}]")),
    };
    name.or_else(own)
}

async fn run(command: Command) -> Result<(), BallistaError> {
    match command {
        Command::Scheduler { listen, name } => {
            // Executors report to this name.
            let Some(name) = name_of(listen, name) else {
                let what = "--listen: executors can't call an address of all networks; add --name with this machine's \
                            name or address";
                return Err(BallistaError::Configuration(what.into()));
            };
            let settings = SchedulerConfig {
                bind_host: listen.ip().to_string(),
                external_host: name,
                bind_port: listen.port(),
                ..SchedulerConfig::default()
            };
            eprintln!("fangorn-cluster: the scheduler listens at {listen}");
            run_scheduler(listen, settings).await
        }
        Command::Executor { scheduler, listen, name, threads, work } => {
            if listen.is_ipv6() {
                let what = "--listen: Ballista's executors listen at IPv4 addresses alone; give one";
                return Err(BallistaError::Configuration(what.into()));
            }
            let Some(grpc_port) = listen.port().checked_add(1) else {
                let what = "--listen: there is no port after 65535; choose a smaller one";
                return Err(BallistaError::Configuration(what.into()));
            };
            let defaults = ExecutorProcessConfig::default();
            let temporary = match &work {
                Some(_) => None,
                None => Some(tempfile::Builder::new().prefix("fangorn-executor-").tempdir()?),
            };
            let work = work.as_deref().or(temporary.as_ref().map(|folder| folder.path()));
            let settings = ExecutorProcessConfig {
                bind_host: listen.ip().to_string(),
                // Without a name, the scheduler takes the address that the executor calls from.
                external_host: name_of(listen, name),
                port: listen.port(),
                grpc_port,
                scheduler_host: scheduler.0,
                scheduler_port: scheduler.1,
                // An executor may be started before its scheduler. Ballista 55.0 waits without end, whatever this
                // number is.
                scheduler_connect_timeout_seconds: 60,
                vcores: if threads == 0 { defaults.vcores } else { threads },
                work_dir: work.map(|path| path.display().to_string()),
                ..defaults
            };
            eprintln!("fangorn-cluster: the executor listens at {listen}, and at port {grpc_port}");
            run_executor(settings).await
        }
    }
}
