//! A trained decision forest behind HTTP, with axum: an example to copy from.
//!
//! | request | answer |
//! |---|---|
//! | `GET /model` | `{"columns": ["age", …], "outputs": 1}` |
//! | `POST /predict` with `{"rows": [[31, null, …], …]}` | `{"values": [[0.25], …]}`; `null` is a missing value |
//! | `POST /predict` with `{"rows": [{"age": 31}, …]}` | the same, by the columns' names; the value of a column that is left out is missing |
//!
//! A request that is refused gets `{"error": "…"}`. The status is 422 if the request has another form, or if its rows do
//! not fit the model. It is 400 if the body is no JSON, 413 if it is longer than 2 MB, and 415 if its content type is
//! not JSON.
//!
//! The handler calls [`Predictor`](fangorn::Predictor) on its own thread. The predictor takes no lock. The service does
//! not collect the rows of several requests into one batch, because each request would have to wait for others.
//! `benches/service/run.py` times the service under load.

pub mod model;

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json, Router,
    extract::{State, rejection::JsonRejection},
    http::StatusCode,
    routing::{get, post},
};
use serde::{Deserialize, Serialize};

use model::Model;

/// From this number of rows on, other requests of the thread first move to another thread.
const LONG: usize = 256;

/// The maximum number of values of a request. An empty object counts as a whole row: its missing values take memory,
/// too.
const MOST_VALUES: usize = 1 << 22;

/// A request for predictions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    rows: Vec<Row>,
}

/// A row of a request.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a row is a list of numbers and nulls, or an object of these by column name")]
enum Row {
    InOrder(Vec<Option<f64>>),
    ByName(HashMap<String, Option<f64>>),
}

/// The answer.
#[derive(Debug, Serialize)]
struct Answer {
    /// The values of each row, as many as the model predicts.
    values: Vec<Vec<f32>>,
}

/// The properties of the model that a caller needs.
#[derive(Debug, Serialize)]
struct Description {
    columns: Vec<String>,
    outputs: usize,
}

/// Why a request is refused.
#[derive(Debug, Serialize)]
struct Refusal {
    error: String,
}

type AnswerResult<T> = Result<Json<T>, (StatusCode, Json<Refusal>)>;

/// Returns the router that serves a model.
pub fn service(model: Model) -> Router {
    Router::new().route("/model", get(describe)).route("/predict", post(predict)).with_state(Arc::new(model))
}

async fn describe(State(model): State<Arc<Model>>) -> Json<Description> {
    Json(Description { columns: model.columns.clone(), outputs: model.outputs })
}

async fn predict(
    State(model): State<Arc<Model>>,
    request: Result<Json<Request>, JsonRejection>,
) -> AnswerResult<Answer> {
    let refuse = |error: String| (StatusCode::UNPROCESSABLE_ENTITY, Json(Refusal { error }));
    let Json(request) =
        request.map_err(|rejection| (rejection.status(), Json(Refusal { error: rejection.body_text() })))?;
    let run = || model.predict(&values_of(&model, &request)?);
    let predicted = match request.rows.len() {
        0..LONG => run(),
        _ => tokio::task::block_in_place(run),
    };
    let values = predicted.map_err(refuse)?.chunks(model.outputs.max(1)).map(<[f32]>::to_vec).collect();
    Ok(Json(Answer { values }))
}

/// Returns the values of a request, row after row, with NaN for missing values.
fn values_of(model: &Model, request: &Request) -> Result<Vec<f64>, String> {
    let width = model.columns.len();
    let all = request.rows.len().saturating_mul(width);
    if all > MOST_VALUES {
        return Err(format!(
            "the request has {all} values, but at most {MOST_VALUES} are accepted; send fewer rows at a time"
        ));
    }
    let mut values = Vec::with_capacity(all);
    for (number, row) in request.rows.iter().enumerate() {
        match row {
            Row::InOrder(row) if row.len() == width => {
                values.extend(row.iter().map(|value| value.unwrap_or(f64::NAN)))
            }
            Row::InOrder(row) => {
                let found = row.len();
                return Err(format!(
                    "row {number} has {found} values, but the model has {width} columns; GET /model lists them"
                ));
            }
            Row::ByName(row) => {
                let first = values.len();
                values.resize(first + width, f64::NAN);
                for (name, value) in row {
                    let Some(index) = model.indices.get(name) else {
                        return Err(format!(
                            "row {number}: the model has no column `{name}`; GET /model lists its columns"
                        ));
                    };
                    values[first + index] = value.unwrap_or(f64::NAN);
                }
            }
        }
    }
    Ok(values)
}
