//! AWS Signature Version 4 over each request, by AWS's own crate.

use crate::config::AwsAuth;
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use std::fmt;
use std::time::SystemTime;
use turnbuckle_core::error::{ModelError, ModelErrorKind};

/// Signs requests for one service in one region.
pub struct Signer {
    credentials: Credentials,
    region: String,
    service: String,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("region", &self.region)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

impl Signer {
    /// With these credentials.
    pub fn new(auth: &AwsAuth) -> Self {
        let token = auth.session_token.as_ref().map(|t| t.expose().to_owned());
        let secret = auth.secret_key.expose();
        let credentials = Credentials::new(&auth.access_key, secret, token, None, "turnbuckle");
        Self { credentials, region: auth.region.clone(), service: auth.service.clone() }
    }

    /// Adds the signature's headers. Signed are the host, the content's type, what AWS's own headers say, and the body.
    ///
    /// # Errors
    /// [`Config`](ModelErrorKind::Config) when the request cannot be signed.
    pub fn sign(
        &self,
        now: SystemTime,
        method: &Method,
        url: &str,
        headers: &mut HeaderMap,
        body: &Bytes,
    ) -> Result<(), ModelError> {
        let bad = |e: &dyn fmt::Display| {
            ModelError::new(ModelErrorKind::Config, format!("the request cannot be signed: {e}"))
        };
        let uri: Uri = url.parse().map_err(|e| bad(&e))?;
        let host = uri.authority().map(|a| a.as_str().to_owned()).unwrap_or_default();
        let own = headers.iter().filter(|(name, _)| signed(name));
        let own = own.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let all = own.chain([(HOST.as_str(), host.as_str())]);
        let request = SignableRequest::new(method.as_str(), url, all, SignableBody::Bytes(body))
            .map_err(|e| bad(&e))?;
        let identity = self.credentials.clone().into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name(&self.service)
            .time(now)
            .settings(SigningSettings::default())
            .build()
            .map_err(|e| bad(&e))?
            .into();
        let (instructions, _) = sign(request, &params).map_err(|e| bad(&e))?.into_parts();
        for (name, value) in instructions.headers() {
            let name = HeaderName::try_from(name).map_err(|e| bad(&e))?;
            let mut value = HeaderValue::try_from(value).map_err(|e| bad(&e))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(())
    }
}

/// Whether the header is among what is signed: what proxies may change is not.
fn signed(name: &HeaderName) -> bool {
    name == CONTENT_TYPE || name.as_str().starts_with("x-amz-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;
    use http::header::AUTHORIZATION;
    use std::time::Duration;

    /// The credentials, the time and the service of AWS's published signing test suite.
    fn suite(session_token: Option<&str>) -> (Signer, SystemTime) {
        let signer = Signer::new(&AwsAuth {
            region: "us-east-1".into(),
            service: "service".into(),
            access_key: "AKIDEXAMPLE".into(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session_token: session_token.map(Secret::new),
        });
        // 2015-08-30T12:36:00Z
        (signer, SystemTime::UNIX_EPOCH + Duration::from_secs(1_440_938_160))
    }

    fn authorization(
        signer: &(Signer, SystemTime),
        method: &Method,
        path: &str,
        headers: &mut HeaderMap,
        body: &'static str,
    ) -> String {
        let (signer, at) = signer;
        let url = format!("https://example.amazonaws.com{path}");
        signer.sign(*at, method, &url, headers, &Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!(headers["x-amz-date"], "20150830T123600Z");
        headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    fn expected(signed: &str, signature: &str) -> String {
        format!(
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders={signed}, Signature={signature}"
        )
    }

    #[test]
    fn requests_are_signed_as_the_published_vectors_are() {
        let plain = suite(None);
        // get-vanilla
        assert_eq!(
            authorization(&plain, &Method::GET, "/", &mut HeaderMap::new(), ""),
            expected(
                "host;x-amz-date",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"
            )
        );
        // post-vanilla
        assert_eq!(
            authorization(&plain, &Method::POST, "/", &mut HeaderMap::new(), ""),
            expected(
                "host;x-amz-date",
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"
            )
        );
        // post-vanilla-query
        assert_eq!(
            authorization(&plain, &Method::POST, "/?Param1=value1", &mut HeaderMap::new(), ""),
            expected(
                "host;x-amz-date",
                "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"
            )
        );
    }

    #[test]
    fn the_body_its_type_and_the_token_of_temporary_credentials_are_signed() {
        // post-x-www-form-urlencoded
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        headers.insert("user-agent", HeaderValue::from_static("a proxy may change it"));
        assert_eq!(
            authorization(&suite(None), &Method::POST, "/", &mut headers, "Param1=value1"),
            expected(
                "content-type;host;x-amz-date",
                "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a"
            )
        );
        // post-sts-header-before
        let token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTfl\
            fKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQ\
            cHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==";
        let mut headers = HeaderMap::new();
        assert_eq!(
            authorization(&suite(Some(token)), &Method::POST, "/", &mut headers, ""),
            expected(
                "host;x-amz-date;x-amz-security-token",
                "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"
            )
        );
        assert_eq!(headers["x-amz-security-token"], token);
        assert!(headers.values().all(HeaderValue::is_sensitive));
    }
}
