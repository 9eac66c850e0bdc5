//! Codes, refresh tokens and device codes: each is good once, for its client, and for its time.
use super::*;

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const URI: &str = "http://127.0.0.1:7080/sign-in/callback";

fn request() -> Request {
    Request {
        client: Client::Console,
        redirect_uri: URI.to_owned(),
        challenge: challenge_of(VERIFIER),
        state: String::new(),
        nonce: "n".to_owned(),
        scope: "openid".to_owned(),
    }
}

fn code(grants: &Grants) -> String {
    let name = grants.request(request(), 0).expect("kept");
    grants.approve(&name, "demo", "user:demo", 0).expect("code")
}

#[test]
fn the_challenge_is_that_of_the_standard() {
    // RFC 7636, appendix B
    let expected = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    assert_eq!(challenge_of(VERIFIER), expected);
}

#[test]
fn a_code_is_good_once_for_its_client_address_and_verifier() {
    let grants = Grants::default();
    let redeem = |code: &str, client, uri: &str, verifier: &str, now| {
        grants.redeem(code, client, uri, verifier, now)
    };
    let good = code(&grants);
    let (sign_in, nonce) = redeem(&good, Client::Console, URI, VERIFIER, 59).expect("good");
    assert_eq!((&*sign_in.subject, &*nonce), ("demo", "n"));
    let refresh = grants.refresh_token(&sign_in, 59).expect("kept");
    let again = redeem(&good, Client::Console, URI, VERIFIER, 59);
    assert_eq!(again, Err(Refusal::Reused(sign_in.sid.clone())));
    // what came of the stolen code is worth nothing any more
    let refreshed = grants.refresh(&refresh, Client::Console, 59);
    assert_eq!(refreshed, Err(Refusal::Unknown));
    let other = "http://127.0.0.1:7081/sign-in/callback";
    for (client, uri, verifier, now) in [
        (Client::Cli, URI, VERIFIER, 1),
        (Client::Console, other, VERIFIER, 1),
        (Client::Console, URI, &*"x".repeat(43), 1),
        (Client::Console, URI, "", 1),
        (Client::Console, URI, VERIFIER, 60),
    ] {
        let refused = redeem(&code(&grants), client, uri, verifier, now);
        assert_eq!(
            refused,
            Err(Refusal::Unknown),
            "{client:?} {uri} {verifier} {now}"
        );
    }
    let guessed = code(&grants);
    let wrong = redeem(&guessed, Client::Console, URI, &"y".repeat(43), 1);
    assert_eq!(wrong, Err(Refusal::Unknown));
    let right = redeem(&guessed, Client::Console, URI, VERIFIER, 1);
    assert!(right.is_err(), "one guess is all there is");
}

#[test]
fn a_refresh_token_that_comes_again_ends_the_sign_in() {
    let grants = Grants::default();
    let (sign_in, _) = grants
        .redeem(&code(&grants), Client::Console, URI, VERIFIER, 0)
        .expect("good");
    let first = grants.refresh_token(&sign_in, 0).expect("kept");
    assert_eq!(
        grants.refresh(&first, Client::Cli, 1),
        Err(Refusal::Unknown)
    );
    assert_eq!(
        grants.refresh(&first, Client::Console, 1),
        Ok(sign_in.clone())
    );
    let second = grants.refresh_token(&sign_in, 1).expect("kept");
    let reused = grants.refresh(&first, Client::Console, 2);
    assert_eq!(reused, Err(Refusal::Reused(sign_in.sid)));
    assert_eq!(
        grants.refresh(&second, Client::Console, 2),
        Err(Refusal::Unknown)
    );
}

#[test]
fn a_device_waits_and_does_not_hurry() {
    let grants = Grants::default();
    let begin = || grants.device(Client::Cli, "openid", 0).expect("codes");
    let one = begin();
    let poll = |codes: &DeviceCodes, now| grants.poll(&codes.device_code, Client::Cli, now);
    assert_eq!(poll(&one, 0), Err(Refusal::Pending));
    assert_eq!(poll(&one, 4), Err(Refusal::SlowDown));
    // it was told to wait ten seconds now
    assert_eq!(poll(&one, 13), Err(Refusal::SlowDown));
    assert_eq!(poll(&one, 40), Err(Refusal::Pending));
    let typed = one.user_code.to_lowercase().replace('-', " ");
    assert_eq!(grants.waiting(&typed, 40), Some(Client::Cli));
    assert!(grants.decide(&typed, Some(("demo", "user:demo")), 40));
    assert!(!grants.decide(&typed, None, 40), "decided once");
    let foreign = grants.poll(&one.device_code, Client::Console, 60);
    assert_eq!(foreign, Err(Refusal::Unknown));
    assert_eq!(poll(&one, 60).expect("approved").subject, "demo");
    assert_eq!(poll(&one, 90), Err(Refusal::Unknown), "once");

    let denied = begin();
    assert!(grants.decide(&denied.user_code, None, 1));
    assert_eq!(poll(&denied, 1), Err(Refusal::Denied));
    let late = begin();
    assert_eq!(poll(&late, DEVICE_SECONDS), Err(Refusal::Expired));
    assert_eq!(grants.waiting(&late.user_code, DEVICE_SECONDS), None);
}

#[test]
fn nothing_grows_without_end() {
    let grants = Grants::default();
    let made = (0..=MOST).filter(|_| grants.ticket(0).is_some()).count();
    assert_eq!(made, MOST);
    // those that have ended make place
    let ticket = grants.ticket(REQUEST_SECONDS).expect("a place");
    assert!(grants.take_ticket(&ticket, REQUEST_SECONDS));
    assert!(!grants.take_ticket(&ticket, REQUEST_SECONDS), "once");
}
