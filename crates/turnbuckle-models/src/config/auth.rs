//! How a provider is convinced that a call may be made.

use super::{ConfigError, Environment, Preset, ProviderConfig};
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How calls are authorised, as it is configured. Without it, whatever the preset allows for and the environment has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuthConfig {
    /// By the key, in the header of the wire.
    Key,
    /// By the key as `authorization: Bearer KEY`.
    Bearer,
    /// By a token of Microsoft Entra, for a client that has a secret.
    Entra {
        /// The directory.
        tenant: Option<String>,
        /// The application.
        client_id: Option<String>,
        /// The variable that holds the application's secret.
        client_secret_env: Option<String>,
        /// Where tokens are given out; the directory's own place otherwise.
        token_url: Option<String>,
    },
    /// By AWS Signature Version 4.
    Aws {
        /// The profile in the credentials file, when the environment holds no credentials.
        profile: Option<String>,
        /// The credentials file; `~/.aws/credentials` otherwise.
        credentials_file: Option<PathBuf>,
    },
    /// By a token of Google, for a service account or a person who is logged in.
    Google {
        /// The JSON file with the credentials.
        credentials_file: Option<PathBuf>,
        /// Where tokens are given out; what the file says otherwise.
        token_url: Option<String>,
    },
}

/// A way of being authorised that a preset allows for, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// See [`AuthConfig::Key`].
    Key,
    /// See [`AuthConfig::Bearer`].
    Bearer,
    /// See [`AuthConfig::Entra`].
    Entra,
    /// See [`AuthConfig::Aws`].
    Aws,
    /// See [`AuthConfig::Google`].
    Google,
}

/// How calls are authorised, with all that is needed for it.
#[derive(Clone, Debug)]
pub enum Auth {
    /// By the provider's key, if it has one, in the header of the wire.
    Key,
    /// By the provider's key as a bearer token.
    Bearer,
    /// By tokens that are asked for.
    Token(TokenAuth),
    /// By AWS Signature Version 4.
    Aws(AwsAuth),
}

/// How tokens are asked for.
#[derive(Clone, Debug)]
pub enum TokenAuth {
    /// As a client of Microsoft Entra.
    Entra {
        /// Where.
        token_url: String,
        /// The application.
        client_id: String,
        /// Its secret.
        client_secret: Secret,
    },
    /// With a Google credentials file.
    Google {
        /// The file's content.
        credentials: Secret,
        /// Where, when it is not where the file says.
        token_url: Option<String>,
    },
}

/// What requests to AWS are signed with.
#[derive(Clone, Debug)]
pub struct AwsAuth {
    /// The region that the signature names.
    pub region: String,
    /// The service that the signature names.
    pub service: String,
    /// The key's id.
    pub access_key: String,
    /// The key.
    pub secret_key: Secret,
    /// The token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// Finds what a provider is authorised with.
pub(super) struct Finder<'a> {
    pub(super) provider: &'a str,
    pub(super) config: &'a ProviderConfig,
    pub(super) preset: Option<&'a Preset>,
    pub(super) env: Environment<'a>,
    /// Whether a key was found.
    pub(super) key: Option<&'a Secret>,
    /// The region, where the provider has one.
    pub(super) region: Option<String>,
    /// The service that signatures name, where there are any.
    pub(super) service: Option<String>,
}

impl Finder<'_> {
    pub(super) fn find(&self) -> Result<Auth, ConfigError> {
        if let Some(own) = &self.config.auth {
            return match own {
                AuthConfig::Key => Ok(Auth::Key),
                AuthConfig::Bearer => Ok(Auth::Bearer),
                AuthConfig::Entra { .. } => self.entra().and_then(|a| a.ok_or_else(|| self.none())),
                AuthConfig::Aws { .. } => self.aws().and_then(|a| a.ok_or_else(|| self.none())),
                AuthConfig::Google { .. } => {
                    self.google().and_then(|a| a.ok_or_else(|| self.none()))
                }
            };
        }
        let kinds = self.preset.map(|p| p.auth.as_slice()).unwrap_or_default();
        for kind in kinds {
            let found = match kind {
                AuthKind::Key => self.key.map(|_| Auth::Key),
                AuthKind::Bearer => self.key.map(|_| Auth::Bearer),
                AuthKind::Entra => self.entra()?,
                AuthKind::Aws => self.aws()?,
                AuthKind::Google => self.google()?,
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
        // A server that stands in for the cloud, such as a gateway, may want nothing.
        if kinds.is_empty() || self.config.base_url.is_some() {
            Ok(Auth::Key)
        } else {
            Err(self.none())
        }
    }

    fn none(&self) -> ConfigError {
        let preset = self.preset;
        let variables = preset.map(|p| p.needs.clone()).unwrap_or_default();
        ConfigError::NoCredentials { provider: self.provider.to_owned(), needs: variables }
    }

    fn entra(&self) -> Result<Option<Auth>, ConfigError> {
        let (tenant, client, secret_env, url) = match &self.config.auth {
            Some(AuthConfig::Entra { tenant, client_id, client_secret_env, token_url }) => {
                (tenant.clone(), client_id.clone(), client_secret_env.clone(), token_url.clone())
            }
            _ => (None, None, None, None),
        };
        let env = |name: &str| (self.env)(name);
        let secret = env(secret_env.as_deref().unwrap_or("AZURE_CLIENT_SECRET"));
        let client_id = client.or_else(|| env("AZURE_CLIENT_ID"));
        let token_url = url.or_else(|| {
            let tenant = tenant.or_else(|| env("AZURE_TENANT_ID"))?;
            let authority = env("AZURE_AUTHORITY_HOST")
                .unwrap_or_else(|| "https://login.microsoftonline.com".to_owned());
            Some(format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/')))
        });
        let (Some(token_url), Some(client_id), Some(secret)) = (token_url, client_id, secret)
        else {
            return Ok(None);
        };
        let client_secret = Secret::new(&secret);
        Ok(Some(Auth::Token(TokenAuth::Entra { token_url, client_id, client_secret })))
    }

    fn google(&self) -> Result<Option<Auth>, ConfigError> {
        let (file, token_url) = match &self.config.auth {
            Some(AuthConfig::Google { credentials_file, token_url }) => {
                (credentials_file.clone(), token_url.clone())
            }
            _ => (None, None),
        };
        let named =
            file.or_else(|| (self.env)("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from));
        // Where `gcloud auth application-default login` leaves a person's own.
        let usual = || {
            let home = PathBuf::from((self.env)("HOME")?);
            Some(home.join(".config/gcloud/application_default_credentials.json"))
                .filter(|path| path.exists())
        };
        let Some(path) = named.or_else(usual) else { return Ok(None) };
        let credentials = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::KeyFile { path, source })?;
        let credentials = Secret::new(&credentials);
        Ok(Some(Auth::Token(TokenAuth::Google { credentials, token_url })))
    }

    fn aws(&self) -> Result<Option<Auth>, ConfigError> {
        let env = |name: &str| (self.env)(name);
        let (Some(region), Some(service)) = (self.region.clone(), self.service.clone()) else {
            return Ok(None);
        };
        let (profile, file) = match &self.config.auth {
            Some(AuthConfig::Aws { profile, credentials_file }) => {
                (profile.clone(), credentials_file.clone())
            }
            _ => (None, None),
        };
        let named = profile.is_some() || file.is_some();
        if !named
            && let (Some(access_key), Some(secret)) =
                (env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"))
        {
            let session_token = env("AWS_SESSION_TOKEN").map(|token| Secret::new(&token));
            let secret_key = Secret::new(&secret);
            return Ok(Some(Auth::Aws(AwsAuth {
                region,
                service,
                access_key,
                secret_key,
                session_token,
            })));
        }
        let path = file
            .or_else(|| env("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from))
            .or_else(|| Some(PathBuf::from(env("HOME")?).join(".aws/credentials")));
        let Some(path) = path.filter(|path| named || path.exists()) else { return Ok(None) };
        let text = std::fs::read_to_string(&path)
            .map_err(|source| ConfigError::KeyFile { path, source })?;
        let profile =
            profile.or_else(|| env("AWS_PROFILE")).unwrap_or_else(|| "default".to_owned());
        let field = |name| profile_field(&text, &profile, name);
        let (Some(access_key), Some(secret)) =
            (field("aws_access_key_id"), field("aws_secret_access_key"))
        else {
            return Ok(None);
        };
        Ok(Some(Auth::Aws(AwsAuth {
            region,
            service,
            access_key: access_key.to_owned(),
            secret_key: Secret::new(secret),
            session_token: field("aws_session_token").map(Secret::new),
        })))
    }
}

/// A field of a profile in a shared credentials file: sections in brackets, `name = value` lines.
fn profile_field<'t>(text: &'t str, profile: &str, field: &str) -> Option<&'t str> {
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = section.trim() == profile;
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == field
        {
            return Some(value.trim()).filter(|v| !v.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_from_the_shared_file() {
        let text = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=s=1\n\n[ dev ]\naws_access_key_id = D\n\
                    aws_session_token =\n";
        assert_eq!(profile_field(text, "default", "aws_access_key_id"), Some("A"));
        assert_eq!(profile_field(text, "default", "aws_secret_access_key"), Some("s=1"));
        assert_eq!(profile_field(text, "dev", "aws_access_key_id"), Some("D"));
        assert_eq!(profile_field(text, "dev", "aws_secret_access_key"), None);
        assert_eq!(profile_field(text, "dev", "aws_session_token"), None);
        assert_eq!(profile_field(text, "none", "aws_access_key_id"), None);
    }
}
