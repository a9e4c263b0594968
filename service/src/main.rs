//! `fangorn-service`: serves a model's predictions over HTTP.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode};

use clap::Parser;
use fangorn_service::{model::Model, service};
use tokio::net::TcpListener;

/// Serve a model's predictions over HTTP.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:
  fangorn-service tests/zoo/churn/model.ubj --listen 127.0.0.1:8080
  curl -d '{\"rows\": [{\"tenure_months\": 3}]}' -H 'content-type: application/json' 127.0.0.1:8080/predict"
)]
struct Arguments {
    /// The model file, in any format that Fangorn reads
    model: PathBuf,
    /// The address and the port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The number of threads that answer requests; 0 stands for the number that the machine runs at the same time
    #[arg(long, value_name = "N", default_value = "0")]
    threads: usize,
    /// Predict with ONNX Runtime instead, to compare the two
    #[cfg(feature = "onnxruntime")]
    #[arg(long)]
    onnxruntime: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("fangorn-service: {what}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let threads = match arguments.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    #[cfg_attr(not(feature = "onnxruntime"), allow(unused_mut, reason = "only another runtime is set later"))]
    let mut model = Model::load(&arguments.model).map_err(|e| e.to_string())?;
    #[cfg(feature = "onnxruntime")]
    if arguments.onnxruntime {
        let sessions = fangorn_service::model::onnx::Sessions::open(&arguments.model, threads)?;
        model.runtime = fangorn_service::model::Runtime::OnnxRuntime(sessions);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.map_err(|e| format!("the threads can't be started: {e}"))?.block_on(async {
        let refused = |e: std::io::Error| format!("{}: {e}; choose another --listen", arguments.listen);
        let listener = TcpListener::bind(arguments.listen).await.map_err(refused)?;
        eprintln!("fangorn-service: listens at {}", listener.local_addr().map_err(refused)?);
        let stop = async { drop(tokio::signal::ctrl_c().await) };
        axum::serve(listener, service(model)).with_graceful_shutdown(stop).await.map_err(refused)
    })
}
