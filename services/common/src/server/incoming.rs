//! The connections of a listener: TLS handshakes side by side, and a limit where the clients are strangers.
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;

use super::connections::{Connection, Connections, Full, Peer};
use super::limited::Limited;
use crate::tls::{Clients, ServerTls};

/// Longest handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Pause after the system had no descriptor or memory for another connection.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(100);
/// Handshaken connections that wait for the server to take them.
const WAITING: usize = 64;

/// How many connections a listener takes, and the count of those it did not.
#[derive(Clone)]
pub struct Limit {
    /// Those that are open.
    pub connections: Connections,
    /// Connections that were turned away, by limit.
    pub refused: Counter<u64>,
}

impl Limit {
    fn enter(&self, address: SocketAddr) -> Option<Connection> {
        let entered = self.connections.enter(Some(Peer::of(address.ip())));
        let full = match entered {
            Ok(connection) => return Some(connection),
            Err(Full::Peer) => "peer",
            Err(Full::All) => "all",
        };
        tracing::debug!(%address, limit = full, "refuse connection");
        self.refused.add(1, &[KeyValue::new("limit", full)]);
        None
    }
}

/// Connections of a listener after their handshakes. A slow handshake holds up no other; the listener closes when the
/// stream is dropped. With a limit, the connection that has rested longest makes place for a new one; where all are being
/// answered, the new one is turned away.
pub fn incoming(
    listener: TcpListener,
    tls: ServerTls,
    clients: Clients,
    limit: Option<Limit>,
) -> ReceiverStream<io::Result<Limited>> {
    let (ready, connections) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        loop {
            let accepted = tokio::select! {
                () = ready.closed() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, address)) => {
                    let Some(acceptor) = tls.acceptor(clients) else {
                        return;
                    };
                    let place = match &limit {
                        None => None,
                        Some(limit) => match limit.enter(address) {
                            Some(place) => Some(place),
                            None => continue,
                        },
                    };
                    let ready = ready.clone();
                    tokio::spawn(async move {
                        // whoever calls without TLS, or breaks off, is nobody's business
                        let let_go = place.as_ref().map(|place| place.let_go.clone());
                        let let_go = let_go.unwrap_or_default();
                        let stream = let_go.run_until_cancelled(shake_hands(acceptor, stream));
                        if let Some(stream) = stream.await.flatten() {
                            let _ = ready.send(Ok(Limited::new(stream, place))).await;
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    tokio::time::sleep(OUT_OF_RESOURCES).await;
                }
            }
        }
    });
    ReceiverStream::new(connections)
}

async fn shake_hands(acceptor: TlsAcceptor, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection without TCP_NODELAY");
    }
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        Ok(Err(error)) => {
            tracing::debug!(%error, "handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("handshake took too long");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsConnector, client};
    use tokio_stream::StreamExt as _;
    use tonic::transport::server::Connected as _;

    use super::*;

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Self {
            let key = KeyPair::generate().expect("key");
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let pem = params.self_signed(&key).expect("self-signed").pem();
            Self {
                pem,
                issuer: Issuer::new(params, key),
            }
        }

        /// Certificate and key of "localhost", in PEM.
        fn issue(&self) -> (String, String) {
            let key = KeyPair::generate().expect("key");
            let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
            let certificate = params.signed_by(&key, &self.issuer).expect("signed");
            (certificate.pem(), key.serialize_pem())
        }
    }

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).expect("pem")
    }

    async fn connect(port: u16, authority: &Authority) -> client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(der(&authority.pem)).expect("root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("tcp");
        TlsConnector::from(Arc::new(config))
            .connect("localhost".try_into().expect("name"), stream)
            .await
            .expect("tls")
    }

    fn shown(stream: &client::TlsStream<TcpStream>) -> CertificateDer<'static> {
        let chain = stream.get_ref().1.peer_certificates().expect("chain");
        chain[0].clone()
    }

    #[tokio::test]
    async fn a_certificate_is_exchanged_while_connections_stay_open() {
        let authority = Authority::new();
        let (first, first_key) = authority.issue();
        let tls = ServerTls::from_pem(&authority.pem, None, &first, &first_key).expect("usable");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        let mut connections = incoming(listener, tls.clone(), Clients::Enrolling, None);
        tokio::spawn(async move {
            while let Some(Ok(mut stream)) = connections.next().await {
                tokio::spawn(async move {
                    let mut byte = [0_u8; 1];
                    while stream.read_exact(&mut byte).await.is_ok() {
                        stream.write_all(&byte).await.expect("echo");
                    }
                });
            }
        });
        // one that never speaks holds up nobody
        let _silent = TcpStream::connect(("127.0.0.1", port)).await.expect("tcp");
        let mut early = connect(port, &authority).await;
        assert_eq!(shown(&early), der(&first));

        let (second, second_key) = authority.issue();
        assert!(
            tls.replace(&second, &first_key).is_err(),
            "the key must be the certificate's"
        );
        assert_eq!(shown(&connect(port, &authority).await), der(&first));
        tls.replace(&second, &second_key).expect("usable");
        assert_eq!(shown(&connect(port, &authority).await), der(&second));

        early.write_all(b"x").await.expect("write");
        let mut byte = [0_u8; 1];
        early.read_exact(&mut byte).await.expect("still open");
        assert_eq!(&byte, b"x");
    }

    #[tokio::test]
    async fn a_silent_connection_makes_place_and_one_that_is_answered_does_not() {
        let authority = Authority::new();
        let (certificate, key) = authority.issue();
        let tls = ServerTls::from_pem(&authority.pem, None, &certificate, &key).expect("usable");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let port = listener.local_addr().expect("address").port();
        let limit = Limit {
            connections: Connections::new(100, 2),
            refused: opentelemetry::global::meter("test")
                .u64_counter("refused")
                .build(),
        };
        let mut connections = incoming(listener, tls, Clients::Enrolling, Some(limit));
        let mut accepted = async || {
            connections
                .next()
                .await
                .expect("listens")
                .expect("accepted")
        };
        let first = connect(port, &authority).await;
        let served = accepted().await;
        let busy = served.connect_info().begin();
        assert!(busy.is_some());
        let mut silent = connect(port, &authority).await;
        let mut served_silent = accepted().await;
        let third = connect(port, &authority).await;
        let served_third = accepted().await;
        let mut byte = [0_u8; 1];
        let gone = served_silent
            .read(&mut byte)
            .await
            .expect_err("its place went to the third");
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionAborted);
        drop(served_silent);
        assert_eq!(
            silent.read(&mut byte).await.unwrap_or(0),
            0,
            "and it is told"
        );
        drop((busy, served, served_third, first, third));
    }
}
