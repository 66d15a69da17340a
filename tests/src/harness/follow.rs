//! A client that follows one execution over connections that break: the smallest one that keeps the
//! promises of the API. It stands beside agent-cli's own, so that a fault can be told from its neighbour.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use agentd_proto::v1;
use tokio::time::{sleep, timeout};
use tonic::{Code, Status, Streaming};

use super::{
    api::{Api, Pings},
    transcript::Transcript,
};

/// Silence after which a connection counts as broken although it is open.
const SILENCE: Duration = Duration::from_secs(20);

const PINGS: Pings = Pings {
    after: Duration::from_millis(250),
    within: Duration::from_millis(1500),
};

/// Follows an execution to its end, whatever happens to its connections. `Run` is repeated until the start
/// was told, `Attach` continues afterwards. What takes longer than `patience` has hung and is an error.
pub async fn follow(
    socket: &Path,
    spec: &v1::ExecSpec,
    patience: Duration,
) -> Result<Transcript, String> {
    let mut transcript = Transcript::default();
    let mut history = Vec::new();
    let whole = reconnect(socket, spec, &mut transcript, &mut history);
    match timeout(patience, whole).await {
        Ok(Ok(())) => Ok(transcript),
        Ok(Err(why)) => Err(format!("{why}; before that: {history:#?}")),
        Err(_) => Err(format!(
            "no end after {patience:?}, at event {}: {history:#?}",
            transcript.last_seq
        )),
    }
}

async fn reconnect(
    socket: &Path,
    spec: &v1::ExecSpec,
    transcript: &mut Transcript,
    history: &mut Vec<String>,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let outcome = attempt(socket, spec, transcript).await;
        if transcript.exited.is_some() {
            return Ok(());
        }
        let why = match outcome {
            Ok(()) => "the stream ended early".to_owned(),
            Err(Broken::Transport(why)) => why,
            Err(Broken::Contract(why)) => return Err(why),
        };
        let at = began.elapsed();
        history.push(format!("{at:?}, event {}: {why}", transcript.last_seq));
        sleep(Duration::from_millis(5)).await;
    }
}

enum Broken {
    /// The connection; another one may do better.
    Transport(String),
    /// The daemon said what it must not say.
    Contract(String),
}

async fn attempt(
    socket: &Path,
    spec: &v1::ExecSpec,
    transcript: &mut Transcript,
) -> Result<(), Broken> {
    let gone = |error: &dyn std::error::Error| Broken::Transport(error.to_string());
    let dialled = timeout(SILENCE, Api::dial_with_pings(socket, PINGS)).await;
    let api = dialled.map_err(|e| gone(&e))?.map_err(|e| gone(&e))?;
    if transcript.last_seq == 0 {
        let request = v1::RunRequest {
            spec: Some(spec.clone()),
        };
        let answer = timeout(SILENCE, api.execs().run(request)).await;
        let stream = answer
            .map_err(|e| gone(&e))?
            .map_err(|e| judge(&e))?
            .into_inner();
        read(stream, |message: v1::RunResponse| message.event, transcript).await
    } else {
        let request = v1::AttachRequest {
            exec_id: spec.exec_id.clone(),
            after_seq: transcript.last_seq,
            strict: false,
        };
        let answer = timeout(SILENCE, api.execs().attach(request)).await;
        let stream = answer
            .map_err(|e| gone(&e))?
            .map_err(|e| judge(&e))?
            .into_inner();
        read(
            stream,
            |message: v1::AttachResponse| message.event,
            transcript,
        )
        .await
    }
}

async fn read<T>(
    mut stream: Streaming<T>,
    event_of: impl Fn(T) -> Option<v1::ExecEvent>,
    transcript: &mut Transcript,
) -> Result<(), Broken> {
    loop {
        let message = timeout(SILENCE, stream.message()).await;
        let message = message.map_err(|_| Broken::Transport("silence".to_owned()))?;
        let Some(message) = message.map_err(|e| judge(&e))? else {
            return Ok(());
        };
        let event = event_of(message);
        let event = event.ok_or_else(|| Broken::Contract("a message without event".to_owned()))?;
        transcript.take(event).map_err(Broken::Contract)?;
    }
}

/// What a broken connection can never produce by itself is the daemon's own answer.
fn judge(status: &Status) -> Broken {
    let text = format!("{:?}: {}", status.code(), status.message());
    match status.code() {
        Code::NotFound
        | Code::AlreadyExists
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::OutOfRange
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => Broken::Contract(text),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Internal
        | Code::Unavailable => Broken::Transport(text),
    }
}
