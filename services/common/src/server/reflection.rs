//! Reflection, which lists what is served here and knows all messages of the contract, those in the details of errors too. Its
//! tables name every field of the contract, and few processes are ever asked: each is made at the first question to it.
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use tonic::server::NamedService;
use tonic::service::RoutesBuilder;
use tonic_reflection::server::Builder;

/// Adds both versions to services with these names.
pub fn add(routes: &mut RoutesBuilder, names: &[&'static str]) {
    let (of_v1, of_v1alpha) = (names.to_vec(), names.to_vec());
    routes.add_service(Lazy::new(move || {
        let v1 = listed(&of_v1, "grpc.reflection.v1.ServerReflection").build_v1();
        v1.expect("embedded descriptors decode")
    }));
    routes.add_service(Lazy::new(move || {
        let alpha = listed(&of_v1alpha, "grpc.reflection.v1alpha.ServerReflection").build_v1alpha();
        alpha.expect("embedded descriptors decode")
    }));
}

fn listed(names: &[&'static str], own: &'static str) -> Builder<'static> {
    let reflection = Builder::configure()
        .register_encoded_file_descriptor_set(gpuaas_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
    let names = names.iter().chain(&["grpc.health.v1.Health"]).chain([&own]);
    names.fold(reflection, |reflection, name| {
        reflection.with_service_name(*name)
    })
}

/// Makes a service.
type Make<S> = Box<dyn FnOnce() -> S + Send>;

/// A service that is made at its first call.
struct Lazy<S> {
    made: Arc<LazyLock<S, Make<S>>>,
}

impl<S> Lazy<S> {
    fn new(make: impl FnOnce() -> S + Send + 'static) -> Self {
        let make: Make<S> = Box::new(make);
        Self {
            made: Arc::new(LazyLock::new(make)),
        }
    }
}

impl<S> Clone for Lazy<S> {
    fn clone(&self) -> Self {
        Self {
            made: Arc::clone(&self.made),
        }
    }
}

impl<S: NamedService> NamedService for Lazy<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, R> tower::Service<R> for Lazy<S>
where
    S: tower::Service<R> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    // generated services always are
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        S::clone(&self.made).call(request)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Ready, ready};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tower::Service as _;

    use super::*;

    #[derive(Clone)]
    struct Echo;

    impl tower::Service<u32> for Echo {
        type Response = u32;
        type Error = Infallible;
        type Future = Ready<Result<u32, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: u32) -> Self::Future {
            ready(Ok(request))
        }
    }

    #[tokio::test]
    async fn a_service_is_made_at_its_first_call_once_for_all_its_clones() {
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let mut one = Lazy::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Echo
        });
        let mut other = one.clone();
        assert_eq!(made.load(Ordering::SeqCst), 0, "nobody has called");
        for request in [1, 2] {
            assert_eq!(one.call(request).await, Ok(request));
            assert_eq!(other.call(request).await, Ok(request));
        }
        assert_eq!(made.load(Ordering::SeqCst), 1);
    }
}
