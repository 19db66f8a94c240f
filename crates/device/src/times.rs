//! Measured times of operations, and the file that keeps them for the next process. A file that cannot be read, is
//! damaged or is of another program or machine is as good as none, and a folder that cannot be written to is no error:
//! times are measured again then.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use lessen_base::atomic::write_file;
use lessen_compile::MeasuredMemory;
use serde_json::{Map, Value, json};

/// Time of an operation, by the rows or elements that it is applied to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Time {
    /// Seconds whatever the number of rows.
    pub fixed: f64,
    /// Seconds of a row or an element.
    pub each: f64,
}

/// Measured times of a device on this machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MeasuredTimes {
    /// Memory; none where nothing was measured.
    pub memory: Option<MeasuredMemory>,
    /// Bytes that the memory was measured with.
    pub memory_bytes: usize,
    /// Times of operations, by a name that tells operations with different times apart.
    pub operations: BTreeMap<String, Time>,
}

/// The folder of times: `lessen` in the user's cache folder; none where the user has none.
pub fn times_folder() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let of_user = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    Some(of_user?.join("lessen"))
}

impl MeasuredTimes {
    /// The times in a file, if the file holds the times of `key`, a text that changes with program, machine and device.
    pub fn read(path: &Path, key: &str) -> Option<MeasuredTimes> {
        let text = fs::read_to_string(path).ok()?;
        let value: Value = serde_json::from_str(&text).ok()?;
        if value["key"].as_str()? != key {
            return None;
        }
        let positive = |value: &Value| value.as_f64().filter(|x| x.is_finite() && *x >= 0.0);
        let memory = MeasuredMemory {
            rate: positive(&value["memory"]["rate"]).filter(|rate| *rate > 0.0)?,
            step_overhead_seconds: positive(&value["memory"]["step_overhead_seconds"])?,
        };
        let time = |(name, time): (&String, &Value)| {
            let [fixed, each] = [0, 1].map(|i| positive(&time[i]));
            let (fixed, each) = (fixed?, each?);
            Some((name.clone(), Time { fixed, each }))
        };
        let operations = value["operations"]
            .as_object()?
            .iter()
            .map(time)
            .collect::<Option<_>>()?;
        Some(MeasuredTimes {
            memory: Some(memory),
            memory_bytes: value["memory"]["bytes"].as_u64()? as usize,
            operations,
        })
    }

    /// Writes the times, together with the times that another process has written meanwhile. Processes do not disturb
    /// each other: each writes a file of its own, which replaces the old file as a whole.
    pub fn write(&self, path: &Path, key: &str) {
        let Some(memory) = self.memory else { return };
        let mut operations = MeasuredTimes::read(path, key)
            .map(|times| times.operations)
            .unwrap_or_default();
        operations.extend(self.operations.iter().map(|(name, time)| (name.clone(), *time)));
        let operations: Map<String, Value> = operations
            .into_iter()
            .map(|(name, Time { fixed, each })| (name, json!([fixed, each])))
            .collect();
        let value = json!({
            "key": key,
            "memory": {
                "bytes": self.memory_bytes,
                "rate": memory.rate,
                "step_overhead_seconds": memory.step_overhead_seconds,
            },
            "operations": operations,
        });
        let own = path.with_extension(format!("{}.json", std::process::id()));
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = folder.is_ok() && write_file(&own, format!("{value:#}\n").as_bytes()).is_ok();
        if !written || fs::rename(&own, path).is_err() {
            // Without the file the next process measures again.
            let _ = fs::remove_file(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(operations: &[(&str, f64)]) -> MeasuredTimes {
        let time = |&(name, each): &(&str, f64)| (name.to_string(), Time { fixed: 1e-3, each });
        MeasuredTimes {
            memory: Some(MeasuredMemory {
                rate: 3.0e10,
                step_overhead_seconds: 2.5e-6,
            }),
            memory_bytes: 1 << 20,
            operations: operations.iter().map(time).collect(),
        }
    }

    type Parts = (Option<MeasuredMemory>, usize, Vec<(String, Time)>);

    fn read(path: &Path, key: &str) -> Option<Parts> {
        let times = MeasuredTimes::read(path, key)?;
        Some((times.memory, times.memory_bytes, times.operations.into_iter().collect()))
    }

    #[test]
    fn times_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("times.json");
        let written = times(&[("gelu", 1.0 / 3.0), ("add", 2e-9)]);
        written.write(&path, "mine");
        let expected = written.operations.clone().into_iter().collect();
        assert_eq!(read(&path, "mine"), Some((written.memory, 1 << 20, expected)));
    }

    #[test]
    fn times_of_two_processes_are_put_together_and_those_of_another_machine_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.json");
        times(&[("gelu", 1.0)]).write(&path, "mine");
        times(&[("add", 2.0)]).write(&path, "mine");
        let names = |key: &str| read(&path, key).map(|(.., times)| times.into_iter().map(|time| time.0).collect());
        assert_eq!(names("mine"), Some(vec!["add".to_string(), "gelu".to_string()]));
        assert_eq!(names("another"), None);
        times(&[("exp", 3.0)]).write(&path, "another");
        assert_eq!(names("another"), Some(vec!["exp".to_string()]));
        assert_eq!(names("mine"), None);
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("times.json");
        let good = times(&[("gelu", 1.0)]);
        good.write(&path, "mine");
        let text = fs::read_to_string(&path).unwrap();
        let half = text[..text.len() / 2].to_string();
        let damaged = [
            String::new(),
            half,
            text.replace("1.0", "-1.0"),
            text.replace("1.0", "\"one\""),
            text.replace("operations", "times"),
            "[1, 2]".to_string(),
        ];
        for damaged in damaged {
            fs::write(&path, &damaged).unwrap();
            assert_eq!(read(&path, "mine"), None, "{damaged}");
            good.write(&path, "mine");
            assert!(read(&path, "mine").is_some());
        }
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let not_a_folder = folder.path().join("file");
        fs::write(&not_a_folder, "").unwrap();
        let path = not_a_folder.join("times.json");
        times(&[]).write(&path, "mine");
        assert_eq!(read(&path, "mine"), None);
    }
}
