//! `CapacityAdminService`: the history of the fleet's capacity; its planning reports are in [`super::reports`].
use std::time::Duration;

use gpuaas_common::identity::Caller;
use gpuaas_common::page::{self, MAX_PAGE_SIZE};
use gpuaas_common::time::{from_proto_time, proto_time};
use gpuaas_common::{Error, Result};
use gpuaas_placement::history::{self, MAX_BUCKETS, Query};
use gpuaas_proto::gpuaas::scheduler::v1::capacity_admin_service_server::CapacityAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    CapacityBucket, DefragmentationSuggestion, EvacuationPlan, GetPreservationReportRequest,
    ListCapacityHistoryRequest, ListCapacityHistoryResponse, PlanEvacuationRequest,
    PreservationReport, SuggestDefragmentationRequest,
};
use serde::{Deserialize, Serialize};
use tonic::{Request, Response, Status};

use super::Api;
use super::public::given;

const MINUTE: i64 = 60;
/// Longest bucket: 31 days, in seconds.
const MAX_BUCKET: i64 = 31 * 24 * 60 * MINUTE;
/// The period of an answer when the request names no start.
const DEFAULT_SPAN: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);
/// Buckets of an answer when the request names no length.
const DEFAULT_BUCKETS: i64 = 288;

#[tonic::async_trait]
impl CapacityAdminService for Api {
    async fn list_capacity_history(
        &self,
        request: Request<ListCapacityHistoryRequest>,
    ) -> Result<Response<ListCapacityHistoryResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.history(request.get_ref()).await?))
    }

    async fn plan_evacuation(
        &self,
        request: Request<PlanEvacuationRequest>,
    ) -> Result<Response<EvacuationPlan>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(
            self.evacuation_plan(request.get_ref()).await?,
        ))
    }

    async fn suggest_defragmentation(
        &self,
        request: Request<SuggestDefragmentationRequest>,
    ) -> Result<Response<DefragmentationSuggestion>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(
            self.defragmentation(request.get_ref()).await?,
        ))
    }

    async fn get_preservation_report(
        &self,
        request: Request<GetPreservationReportRequest>,
    ) -> Result<Response<PreservationReport>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.preservation(request.get_ref()).await?))
    }
}

impl Api {
    async fn history(
        &self,
        request: &ListCapacityHistoryRequest,
    ) -> Result<ListCapacityHistoryResponse> {
        let size = match request.page_size {
            0 => MAX_PAGE_SIZE,
            size => page::page_size(size)?,
        };
        let texts = parts(request);
        let parts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let before = page::decode::<Page>(&request.page_token, &parts)?;
        // the next page is of the period of the first one
        let (now, after) = match &before {
            None => (jiff::Timestamp::now(), None),
            Some(page) => {
                let after = (moment(page.at)?, page.region.as_str(), page.sku.as_str());
                (moment(page.until)?, Some(after))
            }
        };
        let (from, until, bucket) = span(request, now)?;
        let query = Query {
            after,
            // one more than requested shows whether there is a next page
            limit: size + 1,
            region_code: given(&request.region_code),
            sku: given(&request.sku),
            from,
            until,
            bucket,
        };
        let mut conn = self.pool.acquire().await?;
        let mut buckets = history::history(&mut conn, &query).await?;
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let more = buckets.len() > size;
        buckets.truncate(size);
        let last = buckets.last().filter(|_| more).map(|last| Page {
            until: until.as_microsecond(),
            at: last.at.to_jiff().as_microsecond(),
            region: last.region_code.clone(),
            sku: last.sku.clone(),
        });
        let number = |number: i32| number.unsigned_abs();
        Ok(ListCapacityHistoryResponse {
            next_page_token: last.map_or_else(String::new, |last| page::encode(&last, &parts)),
            bucket_seconds: i64::try_from(bucket.as_secs()).unwrap_or(i64::MAX),
            buckets: buckets
                .into_iter()
                .map(|one| CapacityBucket {
                    start_time: Some(proto_time(one.at.to_jiff())),
                    region_code: one.region_code,
                    sku: one.sku,
                    nodes: number(one.nodes),
                    gpus: number(one.gpus),
                    gpus_in_use: number(one.gpus_in_use),
                    gpus_free: number(one.gpus_free),
                    mean_gpus: one.mean_gpus,
                    mean_gpus_in_use: one.mean_gpus_in_use,
                })
                .collect(),
        })
    }
}

/// Where a page ends: the end of the period, and the last bucket. Times are microseconds since 1970.
#[derive(Serialize, Deserialize)]
struct Page {
    until: i64,
    at: i64,
    region: String,
    sku: String,
}

/// What of a request a page token belongs to.
fn parts(request: &ListCapacityHistoryRequest) -> [String; 5] {
    let time = |time: &Option<prost_types::Timestamp>| {
        let text = |time: &prost_types::Timestamp| format!("{}.{}", time.seconds, time.nanos);
        time.as_ref().map(text).unwrap_or_default()
    };
    [
        request.region_code.clone(),
        request.sku.clone(),
        time(&request.start_time),
        time(&request.end_time),
        request.bucket_seconds.to_string(),
    ]
}

/// A time of a page token that somebody made up may be none.
fn moment(microseconds: i64) -> Result<jiff::Timestamp> {
    let at = jiff::Timestamp::from_microsecond(microseconds).ok();
    let at = at.filter(|at| *at >= jiff::Timestamp::UNIX_EPOCH);
    at.ok_or_else(page::not_ours)
}

/// Start, end and length of a bucket, in whole minutes.
fn span(
    request: &ListCapacityHistoryRequest,
    now: jiff::Timestamp,
) -> Result<(jiff::Timestamp, jiff::Timestamp, Duration)> {
    let given = |field: &str, time: &Option<prost_types::Timestamp>| match time {
        None => Ok(None),
        Some(time) => from_proto_time(time)
            .map(Some)
            .ok_or_else(|| Error::invalid(field, "is not a time")),
    };
    let until = given("end_time", &request.end_time)?.unwrap_or(now);
    let from = match given("start_time", &request.start_time)? {
        Some(from) => from,
        None => until
            .checked_sub(DEFAULT_SPAN)
            .map_err(|_| Error::invalid("end_time", "is not a time"))?,
    };
    // the minute that `start_time` lies in
    let from = from.as_second() - from.as_second().rem_euclid(MINUTE);
    let seconds = until.as_second() - from;
    if seconds <= 0 {
        return Err(Error::invalid("start_time", "must be before end_time"));
    }
    let bucket = match request.bucket_seconds {
        0 => (seconds / DEFAULT_BUCKETS + MINUTE - 1) / MINUTE * MINUTE,
        requested if (1..=MAX_BUCKET).contains(&requested) && requested % MINUTE == 0 => requested,
        _ => {
            return Err(Error::invalid(
                "bucket_seconds",
                format!("must be a multiple of 60 up to {MAX_BUCKET}, or absent"),
            ));
        }
    };
    let bucket = bucket.max(MINUTE);
    if seconds / bucket >= MAX_BUCKETS {
        return Err(Error::invalid(
            "bucket_seconds",
            format!("must leave at most {MAX_BUCKETS} buckets between start_time and end_time"),
        ));
    }
    let from = jiff::Timestamp::from_second(from)
        .map_err(|_| Error::invalid("start_time", "is not a time"))?;
    Ok((from, until, Duration::from_secs(bucket.unsigned_abs())))
}
