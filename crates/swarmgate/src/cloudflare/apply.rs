//! One step of a plan is one call.

use swarmgate_core::publish::actual::{Answer, Configuration, Step};

use super::client::Client;
use super::client::error::ApiError;

/// What came of a step.
#[derive(Debug)]
pub enum Outcome {
    Done(Answer),
    /// It was done, and somebody else wrote the configuration between two of our calls: of this version nothing is known.
    Overwrote(Answer, i64),
    /// It was not done, because the configuration is not the one it was made for any more.
    Outdated(Configuration),
}

pub async fn apply(client: &Client, step: &Step) -> Result<Outcome, ApiError> {
    let answer = match step {
        Step::PutConfiguration { version, config } => return put(client, *version, config).await,
        Step::CreateTag { name } => client.create_tag(name).await.map(|_| Answer::Done)?,
        Step::CreateApp { body, .. } => Answer::App(client.create_app(body).await?),
        Step::UpdateApp { id, body, .. } => Answer::App(client.update_app(id, body).await?),
        Step::DeleteApp { id, .. } => client.delete_app(id).await.map(|()| Answer::Done)?,
        Step::CreateRecord { zone, record } => Answer::Record(client.create_record(zone, record).await?),
        Step::UpdateRecord { zone, id, record } => {
            Answer::Record(client.update_record(zone, id, record).await?)
        }
        Step::DeleteRecord { zone, id, .. } => client.delete_record(zone, id).await.map(|()| Answer::Done)?,
    };
    Ok(Outcome::Done(answer))
}

/// The API knows no condition on a write, so the version is compared before and after.
async fn put(client: &Client, version: i64, config: &str) -> Result<Outcome, ApiError> {
    let before = client.configuration().await?;
    if before.version != version {
        return Ok(Outcome::Outdated(before));
    }
    let mut after = client.put_configuration(config).await?;
    if after.config.is_none() {
        after = client.configuration().await?;
    }
    let (written, answer) = (after.version, Answer::Configuration(after));
    if written > version + 1 { Ok(Outcome::Overwrote(answer, written)) } else { Ok(Outcome::Done(answer)) }
}
