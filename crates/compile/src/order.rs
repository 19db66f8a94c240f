//! A topological order that stays one while edges are added (Pearce and Kelly, "A dynamic topological sort algorithm
//! for directed acyclic graphs", 2006): an edge that agrees with the order costs nothing, another one a search between
//! its ends.

use std::collections::HashSet;

/// A directed acyclic graph with a topological order of its nodes.
pub(crate) struct Order {
    successors: Vec<Vec<u32>>,
    predecessors: Vec<Vec<u32>>,
    /// The position of each node.
    position: Vec<u32>,
}

impl Order {
    /// A graph whose nodes are in topological order already; `edges` lead from lower to higher numbers.
    pub fn new(nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Order {
        let mut order = Order {
            successors: vec![Vec::new(); nodes],
            predecessors: vec![Vec::new(); nodes],
            position: (0..nodes as u32).collect(),
        };
        for (from, to) in edges {
            debug_assert!(from < to, "edges lead forwards");
            order.link(from, to);
        }
        order
    }

    fn link(&mut self, from: usize, to: usize) {
        self.successors[from].push(to as u32);
        self.predecessors[to].push(from as u32);
    }

    /// Adds edges from each of `sources` to `to`, unless one of the sources can be reached from `to`; then nothing
    /// changes. Returns whether they were added.
    pub fn add(&mut self, sources: &[usize], to: usize) -> bool {
        let last = sources.iter().map(|&s| self.position[s]).max().unwrap_or(0);
        if last > self.position[to] {
            let after = self.forward(to, last);
            if sources.iter().any(|&s| after.contains(&(s as u32))) {
                return false;
            }
            self.reorder(sources, to, after);
        }
        for &source in sources {
            self.link(source, to);
        }
        true
    }

    /// The nodes reachable from `from` whose position is at most `last`.
    fn forward(&self, from: usize, last: u32) -> HashSet<u32> {
        self.reached(vec![from as u32], &self.successors, |p| p <= last)
    }

    /// The nodes reachable over `edges` from `open`, all of whose positions pass `within`.
    fn reached(&self, mut open: Vec<u32>, edges: &[Vec<u32>], within: impl Fn(u32) -> bool) -> HashSet<u32> {
        let mut found: HashSet<u32> = open.iter().copied().collect();
        while let Some(node) = open.pop() {
            for &next in &edges[node as usize] {
                if within(self.position[next as usize]) && found.insert(next) {
                    open.push(next);
                }
            }
        }
        found
    }

    /// Moves `after`, which is what follows `to`, behind what precedes the sources. All keep to the positions that they
    /// occupy together.
    fn reorder(&mut self, sources: &[usize], to: usize, after: HashSet<u32>) {
        let first = self.position[to];
        let late: Vec<u32> = (sources.iter().map(|&s| s as u32))
            .filter(|&s| self.position[s as usize] > first)
            .collect();
        let before = self.reached(late, &self.predecessors, |p| p > first);
        let in_order = |nodes: HashSet<u32>| {
            let mut nodes: Vec<u32> = nodes.into_iter().collect();
            nodes.sort_unstable_by_key(|&n| self.position[n as usize]);
            nodes
        };
        let moved = [in_order(before), in_order(after)].concat();
        let mut free: Vec<u32> = moved.iter().map(|&n| self.position[n as usize]).collect();
        free.sort_unstable();
        for (node, position) in moved.into_iter().zip(free) {
            self.position[node as usize] = position;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lessen_base::SplitMix64;

    /// Whether `to` can be reached from `from` over edges.
    fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        let (mut open, mut seen) = (vec![from], vec![from]);
        while let Some(node) = open.pop() {
            for &(_, next) in edges.iter().filter(|(a, _)| *a == node) {
                if !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        seen.contains(&to)
    }

    #[test]
    fn edges_are_added_unless_they_close_a_circle_and_the_order_stays_topological() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let n = 2 + random.below(14) as usize;
            let mut edges = Vec::new();
            for to in 1..n {
                for from in 0..to {
                    if random.below(4) == 0 {
                        edges.push((from, to));
                    }
                }
            }
            let mut order = Order::new(n, edges.iter().copied());
            for _ in 0..10 {
                let to = random.below(n as u64) as usize;
                let sources: Vec<usize> = (0..n).filter(|&s| s != to && random.below(6) == 0).collect();
                let circle = sources.iter().any(|&s| reaches(&edges, to, s));
                assert_eq!(order.add(&sources, to), !circle, "seed {seed}");
                if !circle {
                    edges.extend(sources.iter().map(|&s| (s, to)));
                }
                for &(a, b) in &edges {
                    assert!(order.position[a] < order.position[b], "seed {seed}: {a} before {b}");
                }
            }
        }
    }
}
