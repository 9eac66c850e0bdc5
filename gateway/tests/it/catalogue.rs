//! Regions and SKUs, as inventory and the scheduler tell them.
use std::sync::{Arc, Mutex};

use gpuaas_common::identity::Caller;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionService;
use gpuaas_proto::gpuaas::inventory::v1::{ListRegionsRequest, ListRegionsResponse, Region};
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuService;
use gpuaas_proto::gpuaas::scheduler::v1::{ListSkusRequest, ListSkusResponse, Sku};
use tonic::{Request, Response, Status};

const REGIONS: [&str; 3] = ["eu-1", "eu-2", "us-1"];
/// Members see all but the last one, which has no price.
const SKUS: [&str; 3] = ["large", "small", "unpriced"];

#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    deleted: Arc<Mutex<Vec<&'static str>>>,
}

impl Catalogue {
    /// A region or a SKU is there no more.
    pub fn delete(&self, code: &'static str) {
        self.deleted.lock().expect("lock").push(code);
    }

    /// A page of one, and the token of the next.
    fn page(&self, all: &[&str], page_token: &str) -> (String, String) {
        let deleted = self.deleted.lock().expect("lock");
        let mut left = all.iter().filter(|code| !deleted.contains(code));
        let place: usize = page_token.parse().unwrap_or(0);
        let code = left.nth(place).expect("a page that there is");
        let next = match left.next() {
            Some(_) => (place + 1).to_string(),
            None => String::new(),
        };
        ((*code).to_owned(), next)
    }
}

#[tonic::async_trait]
impl RegionService for Catalogue {
    async fn list_regions(
        &self,
        request: Request<ListRegionsRequest>,
    ) -> Result<Response<ListRegionsResponse>, Status> {
        Caller::of(&request)?;
        let (code, next_page_token) = self.page(&REGIONS, &request.get_ref().page_token);
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
        let (code, next_page_token) = self.page(seen, &request.get_ref().page_token);
        Ok(Response::new(ListSkusResponse {
            skus: vec![Sku {
                code,
                ..Default::default()
            }],
            next_page_token,
        }))
    }
}
