//! The flags that say who may ask a server.

use clap::{Args, ValueHint};
use lessen_base::{Error, Result};
use lessen_serve::{Access, ApiKey};
use std::env;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The variable with a key.
const VARIABLE: &str = "LESSEN_API_KEY";

/// Who may ask a server.
#[derive(Args)]
pub struct AccessArgs {
    /// Another name of this server, such as that of a proxy before it, which requests may name and whose pages may ask;
    /// may be repeated
    #[arg(long = "allow-host", value_name = "NAME")]
    names: Vec<String>,
    /// File with a key on each line, one of which requests must have (Authorization: Bearer KEY) [default: the key in
    /// the variable LESSEN_API_KEY]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    api_key_file: Option<PathBuf>,
    /// Ask for no key, also where other machines reach the server
    #[arg(long, conflicts_with = "api_key_file")]
    no_api_key: bool,
}

impl AccessArgs {
    /// Who may ask a server that listens on `host`.
    ///
    /// # Errors
    /// A key or a file of keys that cannot be read; no key where other machines reach the server.
    pub fn access(&self, host: IpAddr) -> Result<Access> {
        let keys = match &self.api_key_file {
            _ if self.no_api_key => Vec::new(),
            Some(path) => keys_of(path)?,
            None => key_of_variable()?.into_iter().collect(),
        };
        if keys.is_empty() && !self.no_api_key && !host.to_canonical().is_loopback() {
            return Err(Error::user(format!(
                "--host {host} lets other machines ask: name a file of keys with --api-key-file, or put a key into \
                 {VARIABLE}; --no-api-key answers everyone"
            )));
        }
        let access = Access {
            names: self.names.clone(),
            keys,
        };
        access.check_names()?;
        Ok(access)
    }
}

/// The keys of a file, one on each line that is not empty.
fn keys_of(path: &Path) -> Result<Vec<ApiKey>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Error::user(format!(
            "--api-key-file {shown} cannot be read ({error}); name a file of text"
        ))
    })?;
    let lines = text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, line)| !line.is_empty());
    let keys: Result<Vec<ApiKey>> = lines
        .map(|(number, line)| {
            ApiKey::new(line).map_err(|error| error.at(format!("--api-key-file {shown}, line {}", number + 1)))
        })
        .collect();
    match keys {
        Ok(keys) if keys.is_empty() => Err(Error::user(format!(
            "--api-key-file {shown} has no key; write one on a line"
        ))),
        keys => keys,
    }
}

/// The key of the variable; none where it is not set.
fn key_of_variable() -> Result<Option<ApiKey>> {
    let Some(value) = env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let key = ApiKey::new(&value.to_string_lossy()).map_err(|error| error.at(VARIABLE))?;
    Ok(Some(key))
}
