//! Mistakes in programs that build graphs: errors with the line of the program where they are caught, panics elsewhere.

use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};

use lessen_base::{Error, Result};

use crate::tensor::Tensor;
use crate::trace::{OPEN, Place, TraceRef};

/// Payload of the unwinding from a mistake in [`TraceRef::attempt`].
struct Mistake {
    sentence: String,
    place: Place,
}

impl TraceRef {
    /// Ends the building of the graph because of a mistake in the program that builds it: an error of
    /// [`TraceRef::attempt`], where that is called, with the line of the caller.
    ///
    /// # Panics
    /// With the sentence, outside of [`TraceRef::attempt`].
    #[track_caller]
    pub fn fail(self, sentence: impl Into<String>) -> ! {
        unwind(self.open().attempts.get(), sentence.into(), Location::caller())
    }

    /// [`TraceRef::fail`] because of the operation that made `value`: the error has the line of it, where that is
    /// known.
    ///
    /// # Panics
    /// As [`TraceRef::fail`].
    #[track_caller]
    pub fn fail_at(self, value: Tensor, sentence: impl Into<String>) -> ! {
        let place = self.line_of(value).unwrap_or_else(Location::caller);
        unwind(self.open().attempts.get(), sentence.into(), place)
    }

    /// Calls `build`. A mistake in an operation of this trace, such as shapes that do not fit, is an error that names
    /// the line of the program, in place of a panic. After an error the trace is of no use.
    ///
    /// # Errors
    /// The first mistake. Other panics are not caught.
    pub fn attempt<R>(self, build: impl FnOnce() -> R) -> Result<R> {
        let built = self.caught(build);
        built.map_err(|mistake| Error::user(mistake.sentence).at(shown(mistake.place)))
    }

    /// [`TraceRef::attempt`] for a graph that a file describes: no line of the program is at fault.
    ///
    /// # Errors
    /// The first mistake.
    pub fn attempt_described<R>(self, build: impl FnOnce() -> R) -> Result<R> {
        self.caught(build).map_err(|mistake| Error::user(mistake.sentence))
    }

    fn caught<R>(self, build: impl FnOnce() -> R) -> std::result::Result<R, Box<Mistake>> {
        let before = self.open().attempts.replace(true);
        let result = catch_unwind(AssertUnwindSafe(build));
        self.open().attempts.set(before);
        result.map_err(|payload| match payload.downcast::<Mistake>() {
            Ok(mistake) => mistake,
            Err(other) => resume_unwind(other),
        })
    }

    /// The line of the program that made a value in [`TraceRef::attempt`], as `FILE:LINE`; none of an input, and none
    /// of a tensor of another trace.
    pub fn place_of(self, value: Tensor) -> Option<String> {
        self.line_of(value).map(shown)
    }

    fn line_of(self, value: Tensor) -> Option<Place> {
        if value.trace != self {
            return None;
        }
        let first = self.with_graph(|graph| {
            let node = &graph.nodes[graph.producer(value.id)?.index()];
            node.outputs.first().copied()
        });
        self.open().places.borrow().get(&first?).copied()
    }
}

/// Ends the building of a graph of this thread that no tensor is given for; see [`TraceRef::fail`].
#[track_caller]
pub(crate) fn fail_in_thread(sentence: &str) -> ! {
    let attempts = OPEN.with_borrow(|open| open.iter().any(|(_, construction)| construction.attempts.get()));
    unwind(attempts, sentence.to_string(), Location::caller())
}

/// Unwinds to [`TraceRef::attempt`], or panics where that is not called.
#[track_caller]
fn unwind(attempts: bool, sentence: String, place: Place) -> ! {
    // Where a program is to end at a panic, unwinding would end it without a word.
    if attempts && cfg!(panic = "unwind") {
        resume_unwind(Box::new(Mistake { sentence, place }));
    }
    panic!("{sentence}")
}

/// A line of a program as people write it.
fn shown(place: Place) -> String {
    format!("{}:{}", place.file(), place.line())
}
