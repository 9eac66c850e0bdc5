//! The clients of the embedded issuer. Both are public ones: they have no secret.
use url::Url;

/// The console's client id.
pub const CONSOLE: &str = "gpuaas-console";
/// The command line's client id.
pub const CLI: &str = "gpuaas-cli";
/// Where the console takes codes, below its own origin.
const CALLBACK: &str = "/sign-in/callback";

/// Who asks for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The web console at the issuer's own address.
    Console,
    /// The command line.
    Cli,
}

impl Client {
    /// The client of an id.
    pub fn find(id: &str) -> Option<Self> {
        match id {
            CONSOLE => Some(Self::Console),
            CLI => Some(Self::Cli),
            _ => None,
        }
    }

    /// Its id.
    pub fn id(self) -> &'static str {
        match self {
            Self::Console => CONSOLE,
            Self::Cli => CLI,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Console => "the web console",
            Self::Cli => "the command line (gpuaas)",
        }
    }

    /// Whether codes may be sent there: the one address of the console, or any port of this machine for the command line
    /// (RFC 8252, 7.3).
    pub fn may_redirect_to(self, uri: &str, issuer: &str) -> bool {
        match self {
            Self::Console => uri.strip_prefix(issuer) == Some(CALLBACK),
            Self::Cli => Url::parse(uri).is_ok_and(|url| {
                let plain = url.as_str() == uri && url.scheme() == "http";
                let loopback = matches!(url.host_str(), Some("127.0.0.1" | "[::1]"));
                let nothing_else = url.query().is_none()
                    && url.fragment().is_none()
                    && url.username().is_empty()
                    && url.password().is_none();
                plain
                    && loopback
                    && nothing_else
                    && url.port().is_some()
                    && url.path() == "/callback"
            }),
        }
    }

    /// Whether a browser may be sent there after a logout.
    pub fn may_return_to(self, uri: &str, issuer: &str) -> bool {
        self == Self::Console && uri.strip_prefix(issuer) == Some("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_to_registered_addresses_alone() {
        let issuer = "http://127.0.0.1:7080";
        for (client, uri, allowed) in [
            (
                Client::Console,
                "http://127.0.0.1:7080/sign-in/callback",
                true,
            ),
            (
                Client::Console,
                "http://127.0.0.1:7080/sign-in/callback/",
                false,
            ),
            (
                Client::Console,
                "http://127.0.0.1:7080/sign-in/callback?a=b",
                false,
            ),
            (
                Client::Console,
                "http://127.0.0.1:7081/sign-in/callback",
                false,
            ),
            (
                Client::Console,
                "http://127.0.0.1:70801/sign-in/callback",
                false,
            ),
            (
                Client::Console,
                "https://127.0.0.1:7080/sign-in/callback",
                false,
            ),
            (
                Client::Console,
                "http://127.0.0.1:7080@evil.example/sign-in/callback",
                false,
            ),
            (Client::Console, "", false),
            (Client::Cli, "http://127.0.0.1:53124/callback", true),
            (Client::Cli, "http://[::1]:53124/callback", true),
            (Client::Cli, "http://localhost:53124/callback", false),
            (Client::Cli, "http://127.0.0.1/callback", false),
            (Client::Cli, "http://127.0.0.1:53124/", false),
            (Client::Cli, "http://127.0.0.1:53124/callback#x", false),
            (Client::Cli, "http://a@127.0.0.1:53124/callback", false),
            (Client::Cli, "http://127.0.0.1:53124/x/../callback", false),
            (Client::Cli, "http://127.0.0.1:7080/sign-in/callback", false),
            (Client::Cli, "javascript:alert(1)", false),
        ] {
            assert_eq!(
                client.may_redirect_to(uri, issuer),
                allowed,
                "{client:?} {uri}"
            );
        }
        assert!(Client::Console.may_return_to("http://127.0.0.1:7080/", issuer));
        assert!(!Client::Console.may_return_to("http://evil.example/", issuer));
        assert!(!Client::Cli.may_return_to("http://127.0.0.1:7080/", issuer));
    }
}
