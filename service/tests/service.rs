//! The service as a client meets it.

use std::path::Path;

use fangorn_service::{model::Model, service};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

async fn send(address: std::net::SocketAddr, request: &str, body: &str) -> (u16, serde_json::Value) {
    let mut stream = TcpStream::connect(address).await.expect("the service");
    let text = format!(
        "{request} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.expect("the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    (status, serde_json::from_str(body).expect("JSON"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_get_the_producers_predictions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/zoo/churn");
    let model = Model::load(&folder.join("model.ubj")).expect("a model");
    let (columns, outputs) = (model.columns.clone(), model.outputs);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, service(model)).await });

    let (status, described) = send(address, "GET /model", "").await;
    assert_eq!((status, described["outputs"].as_u64()), (200, Some(outputs as u64)));
    assert_eq!(described["columns"].as_array().map(Vec::len), Some(columns.len()));

    let text = std::fs::read_to_string(folder.join("rows.csv")).expect("rows");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let cells: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let cell = |cell: &str| if cell.is_empty() { "null".to_owned() } else { cell.to_owned() };
    let named = cells.iter().map(|row| {
        let entries = header.iter().zip(row).map(|(name, value)| format!("\"{name}\":{}", cell(value)));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    });
    let by_name = format!("{{\"rows\":[{}]}}", named.collect::<Vec<_>>().join(","));
    let ordered = cells.iter().map(|row| {
        let index = |name: &String| header.iter().position(|other| other == name).expect("a column");
        let values = columns.iter().map(|name| cell(row[index(name)]));
        format!("[{}]", values.collect::<Vec<_>>().join(","))
    });
    let ordered: Vec<String> = ordered.collect();
    let in_order = format!("{{\"rows\":[{}]}}", ordered.join(","));
    let expected = std::fs::read(folder.join("output.npy")).expect("the producer's predictions");
    let expected: Vec<f32> = expected[expected.len() - 4 * cells.len()..]
        .chunks(4)
        .map(|b| f32::from_le_bytes(b.try_into().expect("4 bytes")))
        .collect();
    for body in [by_name, in_order] {
        let (status, answer) = send(address, "POST /predict", &body).await;
        assert_eq!(status, 200, "{answer}");
        let values = answer["values"].as_array().expect("values");
        assert_eq!(values.len(), cells.len());
        for (value, expected) in values.iter().zip(&expected) {
            let value = value[0].as_f64().expect("a number");
            assert!((value - f64::from(*expected)).abs() < 1e-6, "{value} {expected}");
        }
    }
    // More rows than one thread answers without a word to the others.
    let many = format!("{{\"rows\":[{}]}}", vec![&*ordered[0]; 3000].join(","));
    let (status, answer) = send(address, "POST /predict", &many).await;
    assert_eq!((status, answer["values"].as_array().map(Vec::len)), (200, Some(3000)));
    assert_eq!(
        send(address, "POST /predict", "{\"rows\":[]}").await.1["values"].as_array().map(Vec::len),
        Some(0)
    );

    let empty = format!("{{\"rows\":[{}]}}", vec!["{}"; 400_000].join(","));
    for (body, code, part) in [
        (&*empty, 422, "send fewer rows"),
        ("{\"rows\":[[1,2]]}", 422, "2 values"),
        ("{\"rows\":[{\"no such\":1}]}", 422, "no such"),
        ("{\"rows\":[7]}", 422, "a row is a list"),
        ("{\"columns\":[7]}", 422, "unknown field"),
        ("{", 400, "EOF"),
    ] {
        let (status, answer) = send(address, "POST /predict", body).await;
        assert!(
            status == code && answer["error"].as_str().is_some_and(|said| said.contains(part)),
            "{body}: {status} {answer}"
        );
    }
}
