//! Images that take longer to read than a call waits.
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_dev::until::until;
use gpuaas_image_catalog::api::Api;
use gpuaas_image_catalog::registry::{Registry, Verifications};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::images::v1::image_admin_service_server::ImageAdminService as _;
use gpuaas_proto::gpuaas::images::v1::{CreateImageRequest, Image};
use tokio::io::{AsyncReadExt as _, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tonic::Code;

use crate::common::{World, as_admin};

const DEADLINE: Duration = Duration::from_secs(30);
/// Far less than an image, and more than everything else that a registry says.
const FIRST: u64 = 1 << 20;

/// A way to a registry on which each connection brings so much and then nothing, until it is opened.
struct Narrow {
    host: String,
    /// Connections that have brought all that they may.
    held: Arc<AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Narrow {
    async fn to(registry: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let host = listener.local_addr().expect("address").to_string();
        let held = Arc::new(AtomicUsize::new(0));
        let (open, opened) = watch::channel(false);
        let counted = held.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&registry).await.expect("the registry");
                tokio::spawn(carry(client, server, counted.clone(), opened.clone()));
            }
        });
        Self { host, held, open }
    }

    fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }
}

async fn carry(
    client: TcpStream,
    server: TcpStream,
    held: Arc<AtomicUsize>,
    mut opened: watch::Receiver<bool>,
) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asks = copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut first = (&mut from_server).take(FIRST);
        copy(&mut first, &mut to_client).await?;
        if first.limit() == 0 {
            held.fetch_add(1, Ordering::SeqCst);
            // the test has ended where nobody opens it
            let _ = opened.wait_for(|is_open| *is_open).await;
        }
        copy(&mut from_server, &mut to_client).await
    };
    // either end may hang up
    let _ = tokio::try_join!(asks, answers);
}

/// A catalog whose calls wait for next to nothing.
struct Catalog {
    api: Api,
    ca_file: PathBuf,
}

impl Catalog {
    fn over(world: &World, narrow: &Narrow) -> Self {
        let api = Api {
            allowed_registries: vec![narrow.host.clone()],
            verifications: Verifications::new(Duration::from_millis(1)),
            ..world.api.clone()
        };
        let ca_file = world.registry.server().ca_file().to_owned();
        Self { api, ca_file }
    }

    /// A call by a connection of its own: what holds the reading of the image holds nothing else.
    async fn create(&self, request: &CreateImageRequest) -> Result<Image, Error> {
        let api = Api {
            registry: Registry::new(Some(self.ca_file.as_path()), DEADLINE).expect("client"),
            ..self.api.clone()
        };
        let answer = api.create_image(as_admin("k1", request.clone())).await;
        Ok(answer.map_err(Error::from)?.into_inner())
    }

    /// The answer once the image is read.
    async fn created(&self, request: &CreateImageRequest) -> Result<Image, Error> {
        until("the image to be read", DEADLINE, async || {
            let answer = self.create(request).await;
            let is_answer =
                !matches!(&answer, Err(error) if error.reason() == ErrorReason::ImageBeingVerified);
            is_answer.then_some(answer)
        })
        .await
    }
}

fn request(world: &World, narrow: &Narrow) -> CreateImageRequest {
    let uri = format!("oci://{}/slice-guest-images/lab-mini:v1", narrow.host);
    world.request("lab-mini", &uri)
}

fn is_being_verified(answer: Result<Image, Error>) {
    let error = answer.expect_err("it is not read yet");
    assert_eq!(
        (error.code(), error.reason()),
        (Code::Unavailable, ErrorReason::ImageBeingVerified),
        "{error:?}"
    );
}

/// Before, the whole image was read within the call, which ended long before: an image of gigabytes could not be published.
#[tokio::test]
async fn an_image_that_takes_longer_to_read_than_a_call_is_created_by_a_repeat() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    let narrow = Narrow::to(world.registry.server().host()).await;
    let catalog = Catalog::over(&world, &narrow);
    let request = request(&world, &narrow);

    let (first, second) = tokio::join!(catalog.create(&request), catalog.create(&request));
    is_being_verified(first);
    is_being_verified(second);
    until("the reading to be held", DEADLINE, async || {
        (narrow.held() > 0).then_some(())
    })
    .await;
    is_being_verified(catalog.create(&request).await);
    for table in ["os_images", "audit", "idempotency"] {
        assert_eq!(world.count(table).await, 0, "{table}");
    }

    narrow.open.send_replace(true);
    let image = catalog.created(&request).await.expect("created");
    assert_eq!(image.digest, pushed.image.digest.to_string());
    let again = catalog.create(&request).await.expect("replayed");
    assert_eq!(again, image);
    for (table, rows) in [("os_images", 1), ("audit", 1), ("idempotency", 1)] {
        assert_eq!(world.count(table).await, rows, "{table}");
    }
    assert_eq!(narrow.held(), 1, "for all calls it was read once");
}

#[tokio::test]
async fn e_28_damage_that_is_found_after_the_call_is_told_to_the_repeat() {
    let world = World::new().await;
    let pushed = world.push(&world.file(1), "lab-mini:v1").await;
    let hex = pushed.image.digest.as_str().trim_start_matches("sha256:");
    let blob = world.registry.blobs().join(format!(
        "docker/registry/v2/blobs/sha256/{}/{hex}/data",
        &hex[..2]
    ));
    let good = std::fs::read(&blob).expect("the registry keeps blobs in files");
    let mut flipped = good.clone();
    flipped[4_000_000] ^= 1;
    std::fs::write(&blob, flipped).expect("corrupt");
    let narrow = Narrow::to(world.registry.server().host()).await;
    let catalog = Catalog::over(&world, &narrow);
    let request = request(&world, &narrow);
    is_being_verified(catalog.create(&request).await);

    narrow.open.send_replace(true);
    let error = catalog.created(&request).await.expect_err("damaged");
    assert_eq!(
        error.reason(),
        ErrorReason::ImageDigestMismatch,
        "{error:?}"
    );
    assert_eq!(world.count("os_images").await, 0);
    // it was told once: the next call has it read anew
    std::fs::write(&blob, good).expect("mend");
    catalog.created(&request).await.expect("created");
}
