//! TensorBoard event files: scalars and histograms over steps.
//!
//! A file is a sequence of records, each the length (u64), a checksum of the length, an `Event` message of protocol
//! buffers and its checksum, all little-endian.

mod appended_file;
mod messages;

pub use self::appended_file::AppendedFile;

use self::messages::{Event, Histogram, START, SessionLog, Summary, SummaryValue};
use crc32c::crc32c;
use lessen_base::Result;
use prost::Message;
use std::fs::OpenOptions;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A writer of one event file.
pub struct Events {
    file: AppendedFile,
}

impl Events {
    /// Starts a new event file in `dir`. A run that goes on after `done` steps begins its file with a mark that
    /// makes TensorBoard forget what older files say of later steps.
    ///
    /// # Errors
    /// A folder that cannot be written to.
    pub fn create(dir: &Path, done: u64) -> Result<Events> {
        let now = seconds();
        let base = format!("events.out.tfevents.{:010}.lessen", now as u64);
        let taken = |number: u32| dir.join(format!("{base}.{number}"));
        let path = (0..)
            .map(taken)
            .find(|path| !path.exists())
            .unwrap_or_else(|| dir.join(&base));
        let file = AppendedFile::open(&path, OpenOptions::new().write(true).create_new(true))?;
        let mut events = Events { file };
        events.append(&Event {
            file_version: Some("brain.Event:2".to_string()),
            ..event(now, 0)
        })?;
        if done > 0 {
            events.append(&Event {
                session_log: Some(SessionLog { status: Some(START) }),
                ..event(now, done + 1)
            })?;
        }
        Ok(events)
    }

    /// Adds scalars of one step.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn scalars(&mut self, step: u64, scalars: &[(&str, f64)]) -> Result<()> {
        let values = scalars.iter().map(|(tag, value)| scalar(tag, *value)).collect();
        self.append(&summary(event(seconds(), step), values))
    }

    /// Adds histograms of one step.
    ///
    /// # Errors
    /// A file that cannot be written to.
    pub fn histograms(&mut self, step: u64, histograms: &[(&str, Bins<'_>)]) -> Result<()> {
        let values = histograms.iter().map(|(tag, bins)| histogram(tag, *bins)).collect();
        self.append(&summary(event(seconds(), step), values))
    }

    /// Waits until the events are on the disk.
    ///
    /// # Errors
    /// A disk that is full or fails.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn append(&mut self, event: &Event) -> Result<()> {
        self.file.add(&record(&event.encode_to_vec()))
    }
}

/// Bins of a histogram.
#[derive(Clone, Copy, Debug)]
pub struct Bins<'a> {
    /// Ascending; bin `i` lies between edges `i` and `i + 1`.
    pub edges: &'a [f64],
    /// Elements in each bin.
    pub counts: &'a [f64],
}

impl<'a> Bins<'a> {
    /// The same bins without the empty ones at both ends.
    pub fn trimmed(self) -> Bins<'a> {
        let is_full = |count: &f64| *count > 0.0;
        let first = self.counts.iter().position(is_full).unwrap_or(0);
        let end = self.counts.iter().rposition(is_full).map_or(first, |last| last + 1);
        Bins {
            edges: &self.edges[first..=end],
            counts: &self.counts[first..end],
        }
    }

    /// The lower and the upper edge of a bin as TensorBoard can draw them: finite, and not the same.
    fn drawn(self, bin: usize) -> (f64, f64) {
        match (self.edges[bin], self.edges[bin + 1]) {
            (low, high) if low == f64::NEG_INFINITY => (2.0 * high, high),
            (low, high) if high == f64::INFINITY => (low, 2.0 * low),
            (low, high) if low == high => (low, low + f64::MIN_POSITIVE),
            edges => edges,
        }
    }
}

fn seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |time| time.as_secs_f64())
}

fn record(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = length.to_vec();
    record.extend(masked(&length).to_le_bytes());
    record.extend(message);
    record.extend(masked(message).to_le_bytes());
    record
}

/// The checksum as record files store it: rotated and shifted, so that a checksum of data that holds checksums
/// stays a good one.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// An event without content.
fn event(wall_time: f64, step: u64) -> Event {
    Event {
        wall_time: Some(wall_time),
        step: Some(i64::try_from(step).unwrap_or(i64::MAX)),
        ..Event::default()
    }
}

fn summary(event: Event, values: Vec<SummaryValue>) -> Event {
    Event {
        summary: Some(Summary { values }),
        ..event
    }
}

fn scalar(tag: &str, value: f64) -> SummaryValue {
    SummaryValue {
        tag: Some(tag.to_string()),
        simple_value: Some(value as f32),
        histogram: None,
    }
}

/// A histogram. Its sums are computed from the centres of the bins.
fn histogram(tag: &str, bins: Bins<'_>) -> SummaryValue {
    let drawn: Vec<(f64, f64)> = (0..bins.counts.len()).map(|bin| bins.drawn(bin)).collect();
    let moment = |power: i32| {
        let centres = drawn.iter().map(|(low, high)| low.midpoint(*high).powi(power));
        let products = centres.zip(bins.counts).map(|(centre, count)| centre * count);
        Some(products.sum::<f64>())
    };
    SummaryValue {
        tag: Some(tag.to_string()),
        simple_value: None,
        histogram: Some(Histogram {
            min: Some(drawn.first().map_or(0.0, |bin| bin.0)),
            max: Some(drawn.last().map_or(0.0, |bin| bin.1)),
            count: moment(0),
            sum: moment(1),
            sum_squares: moment(2),
            bucket_limit: drawn.iter().map(|bin| bin.1).collect(),
            bucket: bins.counts.to_vec(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_bytes_that_tensorflow_writes() {
        // Made with tensorboard 2.21: Event(wall_time=1.5, step=300, summary=Summary(value=[Value(tag="train/loss",
        // simple_value=2.5)])) through RecordWriter.
        let message = summary(event(1.5, 300), vec![scalar("train/loss", 2.5)]);
        let hex: String = record(&message.encode_to_vec())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, RECORDED);
    }

    const RECORDED: &str =
        "2100000000000000017becf609000000000000f83f10ac022a130a110a0a747261696e2f6c6f73731500002040b4ca3a3b";

    #[test]
    fn a_histogram_has_the_bytes_that_tensorflow_writes() {
        // Made with tensorboard 2.21: HistogramProto(min=-1.5, max=2.0, num=4.0, sum=3.25, sum_squares=8.3125,
        // bucket_limit=[-1.0, 1.0, 2.0], bucket=[1.0, 0.0, 3.0]) as the value stat/x/histogram.
        let bins = Bins {
            edges: &[-1.5, -1.0, 1.0, 2.0],
            counts: &[1.0, 0.0, 3.0],
        };
        let message = summary(event(1.5, 300), vec![histogram("stat/x/histogram", bins)]);
        let hex: String = record(&message.encode_to_vec())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, RECORDED_HISTOGRAM);
    }

    const RECORDED_HISTOGRAM: &str = "\
        8500000000000000e98acc5909000000000000f83f10ac022a770a750a10737461742f782f686973746f6772616d2a610900\
        0000000000f8bf110000000000000040190000000000001040210000000000000a40290000000000a0204032180000000000\
        00f0bf000000000000f03f00000000000000403a18000000000000f03f000000000000000000000000000008409ecce59d";

    #[test]
    fn bins_are_drawn_with_finite_edges_and_some_width() {
        let edges = [f64::NEG_INFINITY, -2.0, 0.0, 0.0, 4.0, f64::INFINITY];
        let counts = [1.0, 0.0, 2.0, 0.0, 3.0];
        let bins = Bins {
            edges: &edges,
            counts: &counts,
        };
        let drawn: Vec<_> = (0..5).map(|bin| bins.drawn(bin)).collect();
        assert_eq!(
            drawn,
            [
                (-4.0, -2.0),
                (-2.0, 0.0),
                (0.0, f64::MIN_POSITIVE),
                (0.0, 4.0),
                (4.0, 8.0)
            ]
        );
        let inner = Bins {
            edges: &edges,
            counts: &[0.0, 0.0, 2.0, 0.0, 0.0],
        }
        .trimmed();
        assert_eq!((inner.edges, inner.counts), (&[0.0, 0.0][..], &[2.0][..]));
        let none = Bins {
            edges: &edges,
            counts: &[0.0; 5],
        }
        .trimmed();
        assert!(none.counts.is_empty() && none.edges.len() == 1);
    }

    #[test]
    fn a_file_begins_with_its_version_and_a_resumed_one_with_a_mark() {
        let dir = tempfile::tempdir().unwrap();
        let length = |done| {
            let events = Events::create(dir.path(), done).unwrap();
            std::fs::metadata(events.file.path()).unwrap().len()
        };
        let fresh = length(0);
        assert_eq!(fresh, 12 + 9 + 2 + 15 + 4);
        assert_eq!(length(5), fresh + 12 + 9 + 2 + 4 + 4);
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            2,
            "a file is never written over"
        );
    }

    #[test]
    fn zeros_are_written_too() {
        // Fields of `oneof` have presence: TensorBoard shows no point for a scalar without a value.
        let zero = scalar("x", 0.0).encode_to_vec();
        assert_eq!(zero, [10, 1, b'x', 21, 0, 0, 0, 0]);
    }
}
