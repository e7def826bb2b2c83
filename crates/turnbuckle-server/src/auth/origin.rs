//! What a browser may send while there is no authentication: any page of the web could otherwise talk to a server on this
//! machine, by its address or by a name that points to it.

use crate::problem::{Answer, Code, Problem};
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderName};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what another site's page sends, and names that do not mean this machine.
///
/// # Errors
/// `origin_refused`.
pub fn check(headers: &HeaderMap, allowed: &[String]) -> Answer<()> {
    let refuse = |what: &str| Err(Problem::new(Code::OriginRefused, what.to_owned()));
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    match text(HOST) {
        Some(host) if is_local(host) => {}
        _ => return refuse("Without authentication this server answers to localhost only."),
    }
    if let Some(origin) = text(ORIGIN) {
        let local = origin.strip_prefix("http://").is_some_and(|host| Some(host) == text(HOST));
        if !local && !allowed.iter().any(|a| a == origin) {
            return refuse("Without authentication this server answers to its own pages only.");
        }
    } else if text(FETCH_SITE).is_some_and(|site| site == "cross-site") {
        return refuse("Without authentication this server answers to its own pages only.");
    }
    Ok(())
}

fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(pairs: &[(HeaderName, &str)]) -> bool {
        let headers =
            pairs.iter().map(|(n, v)| (n.clone(), v.parse().unwrap())).collect::<HeaderMap>();
        check(&headers, &["http://localhost:5173".to_owned()]).is_ok()
    }

    #[test]
    fn only_this_machine_and_its_own_pages_are_let_in() {
        for host in ["localhost", "localhost:7777", "127.0.0.1:7777", "[::1]:7777"] {
            assert!(checked(&[(HOST, host)]), "{host}");
            assert!(checked(&[(HOST, host), (ORIGIN, &format!("http://{host}"))]), "{host}");
        }
        let here = (HOST, "localhost:7777");
        assert!(checked(&[here.clone(), (ORIGIN, "http://localhost:5173")]));
        for (name, value) in [
            (ORIGIN, "http://evil.example"),
            (ORIGIN, "http://localhost:8888"),
            (ORIGIN, "https://localhost:7777"),
            (ORIGIN, "null"),
            (FETCH_SITE, "cross-site"),
        ] {
            assert!(!checked(&[here.clone(), (name.clone(), value)]), "{name}: {value}");
        }
        for host in ["evil.example", "localhost.evil.example", "192.168.0.2", ""] {
            assert!(!checked(&[(HOST, host)]), "{host}");
        }
        assert!(!checked(&[]));
    }
}
