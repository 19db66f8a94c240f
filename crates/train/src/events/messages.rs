//! The messages of protocol buffers in an event file: the few fields that Lessen writes. All are written whatever their
//! value, as TensorFlow's `optional` and `oneof` fields are.

/// An event.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Event {
    #[prost(double, optional, tag = "1")]
    pub wall_time: Option<f64>,
    #[prost(int64, optional, tag = "2")]
    pub step: Option<i64>,
    #[prost(string, optional, tag = "3")]
    pub file_version: Option<String>,
    #[prost(message, optional, tag = "5")]
    pub summary: Option<Summary>,
    #[prost(message, optional, tag = "7")]
    pub session_log: Option<SessionLog>,
}

/// Values of a step.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Summary {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<SummaryValue>,
}

/// A scalar or a histogram.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SummaryValue {
    #[prost(string, optional, tag = "1")]
    pub tag: Option<String>,
    #[prost(float, optional, tag = "2")]
    pub simple_value: Option<f32>,
    #[prost(message, optional, tag = "5")]
    pub histogram: Option<Histogram>,
}

/// A histogram: the upper edges of its bins and the number of elements in each.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Histogram {
    #[prost(double, optional, tag = "1")]
    pub min: Option<f64>,
    #[prost(double, optional, tag = "2")]
    pub max: Option<f64>,
    #[prost(double, optional, tag = "3")]
    pub count: Option<f64>,
    #[prost(double, optional, tag = "4")]
    pub sum: Option<f64>,
    #[prost(double, optional, tag = "5")]
    pub sum_squares: Option<f64>,
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}

/// A mark in the course of a run.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SessionLog {
    #[prost(int32, optional, tag = "1")]
    pub status: Option<i32>,
}

/// The status of a session that starts: events of later steps in older files are forgotten.
pub(super) const START: i32 = 1;
