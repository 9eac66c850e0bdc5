//! TLS of the edge itself: served with a certificate from files, which are read again while it serves.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_dev::ca::Authority;
use gpuaas_dev::until::until;
use gpuaas_gateway::http::tls::TlsFiles;
use reqwest::{Certificate, Client};

use crate::world::{CELL, World, answer};

/// A certificate of an authority of its own, copied to where the gateway reads it; returns the authority's.
fn renew(folder: &Path, authority: &str) -> PathBuf {
    let authority = Authority::open(&folder.join(authority), CELL).expect("authority");
    let identity = authority.service("edge", &[]).expect("identity");
    for (from, to) in [
        (&identity.key, folder.join("edge.key")),
        (&identity.certificate, folder.join("edge.pem")),
    ] {
        let part = to.with_extension("part");
        std::fs::copy(from, &part).expect("copied");
        std::fs::rename(&part, to).expect("renamed");
    }
    authority.authority().certificate
}

fn client(authority: &Path) -> Client {
    let pem = std::fs::read(authority).expect("certificate");
    let root = Certificate::from_pem(&pem).expect("certificate");
    Client::builder()
        .tls_certs_only([root])
        .build()
        .expect("client")
}

#[tokio::test]
async fn the_api_is_served_over_tls_and_its_certificate_is_exchanged_while_it_serves() {
    let world = World::start_with(|config, folder| {
        renew(folder, "first");
        config.tls = Some(TlsFiles {
            cert_file: folder.join("edge.pem"),
            key_file: folder.join("edge.key"),
            reload_seconds: 0.05,
        });
    })
    .await;
    let folder = world.folder.path();
    let url = world.url("/api/v1/allocations");
    assert!(url.starts_with("https://"), "{url}");
    let call = async |client: &Client| {
        let request = client.get(&url).bearer_auth(world.token("demo"));
        request.send().await
    };
    let first = client(&folder.join("first/ca.pem"));
    assert_eq!(answer(call(&first).await.expect("an answer")).await.0, 200);
    let plain = url.replace("https://", "http://");
    let plain = Client::new().get(plain).send().await;
    plain.expect_err("no plaintext beside TLS");

    // half a renewal: the key is not the certificate's, and the last pair is shown on
    std::fs::copy(folder.join("ca/allocation.key"), folder.join("edge.key")).expect("copied");
    let again = client(&folder.join("first/ca.pem"));
    assert_eq!(answer(call(&again).await.expect("an answer")).await.0, 200);

    let second = renew(folder, "second");
    until(
        "the next certificate to be shown",
        Duration::from_secs(20),
        async || call(&client(&second)).await.ok(),
    )
    .await;
    // a connection that is open stays open
    assert_eq!(answer(call(&first).await.expect("an answer")).await.0, 200);
}

/// What a browser is told, once by the API and once by a page of the console.
async fn told(world: &World, http: &Client) -> Vec<Option<String>> {
    let mut all = Vec::new();
    for target in ["/api/v1/allocations", "/healthz", "/no-such-page"] {
        let response = http.get(world.url(target)).send().await.expect("answer");
        let header = response.headers().get("strict-transport-security");
        all.push(header.map(|value| value.to_str().expect("text").to_owned()));
    }
    all
}

#[tokio::test]
async fn browsers_are_told_to_stay_with_https_where_it_is_spoken_and_nowhere_else() {
    let plain = World::start().await;
    assert_eq!(told(&plain, &plain.http).await, [None, None, None]);

    let behind = World::start_with(|config, _| {
        config.proxies = vec!["10.0.0.0/8".parse().expect("a network")];
    })
    .await;
    let year = Some("max-age=31536000".to_owned());
    assert_eq!(
        told(&behind, &behind.http).await,
        [(); 3].map(|()| year.clone())
    );

    for (seconds, expected) in [(300, Some("max-age=300".to_owned())), (0, None)] {
        let world = World::start_with(|config, folder| {
            renew(folder, "first");
            config.hsts_seconds = seconds;
            config.tls = Some(TlsFiles {
                cert_file: folder.join("edge.pem"),
                key_file: folder.join("edge.key"),
                reload_seconds: 60.0,
            });
        })
        .await;
        let http = client(&world.folder.path().join("first/ca.pem"));
        assert_eq!(
            told(&world, &http).await,
            [(); 3].map(|()| expected.clone())
        );
    }
}
