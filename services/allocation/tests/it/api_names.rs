//! Display names of allocations in every script are kept as they are; what would deceive a reader or a program is refused.
use crate::api_tenants::refused;
use crate::platform::Platform;

const GOOD: [&str; 9] = [
    "Müller & Söhne",
    "株式会社アクメ",
    "شركة أكمي",
    "חברת אקמי",
    "अक्मे प्राइवेट लिमिटेड",
    "ბანკი 🏦",
    "<script>alert(1)</script>",
    "'; DROP TABLE allocations; --",
    "{{7*7}}${jndi:ldap://x}",
];

const BAD: [&str; 8] = [
    "a\u{0}b",
    "a\nb",
    "a\u{1b}[31mb",
    "a\u{7f}",
    "a\u{85}b",
    "a\u{202e}b",
    "a\u{2066}b",
    "a\u{2028}b",
];

#[tokio::test]
async fn display_names_of_every_script_are_kept_and_hostile_ones_are_refused() {
    let platform = Platform::start().await;
    let id = platform.launched("web", "key-1").await;
    let longest = "名".repeat(200);
    for (number, good) in GOOD.into_iter().chain([longest.as_str()]).enumerate() {
        let key = format!("good-{number}");
        let renamed = platform.rename(&id, Some(good), &key).await;
        assert_eq!(renamed.expect("renamed").display_name, good);
        let kept = platform.get(&id).await;
        assert_eq!(kept.display_name, good);
        assert_eq!(kept.config.expect("a config").name, "web");
        // who follows the events reads the same
        let (_, told) = platform.events(&id).await.pop().expect("an event");
        assert_eq!(told["display_name"], good, "{told}");
    }
    let before = platform.get(&id).await;
    for (number, bad) in BAD.into_iter().enumerate() {
        let key = format!("bad-{number}");
        let answer = platform.rename(&id, Some(bad), &key).await;
        assert_eq!(refused(answer).2, "display_name", "{bad:?}");
    }
    assert_eq!(platform.get(&id).await, before, "nothing changed");
}
