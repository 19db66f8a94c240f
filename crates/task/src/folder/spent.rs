//! Time and memory of all sessions of a run: `sessions.json`, written with each checkpoint and at the end. It is no
//! part of checkpoints, whose bytes do not depend on a clock.

use lessen_base::Result;
use lessen_base::atomic::write_file;
use lessen_train::Peak;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Time and memory of all sessions of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Processes that have worked on it.
    pub sessions: u64,
    /// Seconds from the start of each session to its last save.
    pub seconds: f64,
    /// Seconds of them that compiling took.
    pub compile_seconds: f64,
    /// The most bytes that were planned to be resident.
    pub planned: usize,
    /// The most bytes that were allocated at once.
    pub measured: usize,
    /// The most bytes that a process has had resident, where the system tells.
    #[serde(default)]
    pub resident: Option<usize>,
}

impl Spent {
    /// Reads the file; zeros where it is missing or damaged, since no result depends on it.
    pub fn read(path: &Path) -> Spent {
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// With the session that began then, up to now: its planned and measured peak, and what it has had resident.
    pub fn with_session(&self, begun: Instant, peak: &Peak, resident: Option<usize>) -> Spent {
        Spent {
            sessions: self.sessions + 1,
            seconds: self.seconds + begun.elapsed().as_secs_f64(),
            compile_seconds: self.compile_seconds,
            planned: self.planned.max(peak.planned),
            measured: self.measured.max(peak.measured),
            resident: self.resident.max(resident),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string(self).unwrap_or_default();
        write_file(path, format!("{text}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_back_and_a_damaged_file_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sessions.json");
        assert_eq!(Spent::read(&path), Spent::default());
        let spent = Spent {
            sessions: 2,
            seconds: 1.5,
            compile_seconds: 0.25,
            planned: 7,
            measured: 6,
            resident: Some(8),
        };
        spent.write(&path).unwrap();
        assert_eq!(Spent::read(&path), spent);
        fs::write(&path, "{\"sessions\": 2").unwrap();
        assert_eq!(Spent::read(&path), Spent::default());
    }
}
