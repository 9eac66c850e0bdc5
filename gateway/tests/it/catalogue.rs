//! Regions and SKUs, as inventory and the scheduler tell them.
use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionService;
use gpuaas_proto::gpuaas::inventory::v1::{ListRegionsRequest, ListRegionsResponse, Region};
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService;
use gpuaas_proto::gpuaas::scheduler::v1::{ListSkusRequest, ListSkusResponse, Sku};
use tonic::{Request, Response, Status};

const REGIONS: [&str; 3] = ["eu-1", "eu-2", "us-1"];
/// Members see all but the last one, which has no price.
const SKUS: [&str; 3] = ["large", "small", "unpriced"];

#[derive(Clone, Copy, Debug)]
pub struct Catalogue;

/// A page of one, and the token of the next.
fn page(all: &[&str], page_token: &str) -> (String, String) {
    let place = page_token.parse().unwrap_or(0);
    let next = match place + 1 < all.len() {
        true => (place + 1).to_string(),
        false => String::new(),
    };
    (all[place].to_owned(), next)
}

#[tonic::async_trait]
impl RegionService for Catalogue {
    async fn list_regions(
        &self,
        request: Request<ListRegionsRequest>,
    ) -> Result<Response<ListRegionsResponse>, Status> {
        Caller::of(&request)?;
        let (code, next_page_token) = page(&REGIONS, &request.get_ref().page_token);
        Ok(Response::new(ListRegionsResponse {
            regions: vec![Region {
                code,
                ..Default::default()
            }],
            next_page_token,
        }))
    }
}

#[tonic::async_trait]
impl SkuService for Catalogue {
    async fn list_skus(
        &self,
        request: Request<ListSkusRequest>,
    ) -> Result<Response<ListSkusResponse>, Status> {
        let seen = match Caller::of(&request)?.platform_role {
            Some(_) => &SKUS[..],
            None => &SKUS[..2],
        };
        let (code, next_page_token) = page(seen, &request.get_ref().page_token);
        Ok(Response::new(ListSkusResponse {
            skus: vec![Sku {
                code,
                ..Default::default()
            }],
            next_page_token,
        }))
    }
}
