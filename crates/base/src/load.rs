//! The time that processors have worked, for this process and for all others.

use std::fs;

/// The time that the processors of this machine have worked since its start, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Number of processors.
    pub processors: usize,
    /// Ticks of all processors, idle or not.
    pub all: u64,
    /// Ticks in which a processor was not idle, also those that another machine beside a virtual one took.
    pub busy: u64,
    /// Ticks of this process with all its threads.
    pub own: u64,
}

/// The fewest ticks of one processor from which on a share of them tells something.
const TELLING: u64 = 10;

impl ProcessorTime {
    /// The time up to now; none where the system does not tell.
    pub fn now() -> Option<ProcessorTime> {
        let machine = fs::read_to_string("/proc/stat").ok()?;
        let process = fs::read_to_string("/proc/self/stat").ok()?;
        ProcessorTime::parse(&machine, &process)
    }

    /// The number of processors that other processes have kept busy since `before`, on average. None where too little
    /// time has passed to tell.
    pub fn busy_with_others(&self, before: &ProcessorTime) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        if self.processors == 0 || all < TELLING * self.processors as u64 {
            return None;
        }
        let busy = self.busy.saturating_sub(before.busy);
        let own = self.own.saturating_sub(before.own);
        Some(busy.saturating_sub(own) as f64 * self.processors as f64 / all as f64)
    }

    /// Reads `/proc/stat` and `/proc/self/stat`.
    fn parse(machine: &str, process: &str) -> Option<ProcessorTime> {
        let total = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = total
            .split_whitespace()
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        // User, nice, system, idle, waiting, interrupts, soft interrupts, stolen; times of guests are among the first.
        let first = ticks.get(..8)?;
        let all: u64 = first.iter().sum();
        let idle = first[3] + first[4];
        let processors = machine
            .lines()
            .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "))
            .count();
        // The name of the program, in brackets, may have spaces.
        let fields: Vec<&str> = process.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks_of = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(ProcessorTime {
            processors,
            all,
            busy: all - idle,
            own: ticks_of(11)? + ticks_of(12)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_read() {
        let machine = "cpu  100 10 20 500 30 1 2 7 50 0\ncpu0 50 5 10 250 15 0 1 3 25 0\n\
                       cpu1 50 5 10 250 15 1 1 4 25 0\nintr 1 2 3\n";
        let process = "42 (a b) c) S 1 42 42 0 -1 4194304 100 0 0 0 33 4 0 0 20 0 1 0 5 6 7\n";
        let expected = ProcessorTime {
            processors: 2,
            all: 670,
            busy: 140,
            own: 37,
        };
        assert_eq!(ProcessorTime::parse(machine, process), Some(expected));
        assert_eq!(ProcessorTime::parse("", process), None);
        assert_eq!(ProcessorTime::parse(machine, "42 (a"), None);
        #[cfg(target_os = "linux")]
        assert!(ProcessorTime::now().unwrap().processors > 0);
    }

    #[test]
    fn processors_of_others_are_counted() {
        let time = |all, busy, own| ProcessorTime {
            processors: 4,
            all,
            busy,
            own,
        };
        let before = time(1000, 100, 10);
        assert_eq!(time(1400, 300, 110).busy_with_others(&before), Some(1.0));
        assert_eq!(time(1400, 200, 110).busy_with_others(&before), Some(0.0));
        assert_eq!(time(1020, 120, 10).busy_with_others(&before), None);
        assert_eq!(before.busy_with_others(&before), None);
    }
}
