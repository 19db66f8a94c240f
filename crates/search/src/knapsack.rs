//! The multiple-choice knapsack, solved exactly: one item of each group, the greatest sum of values within a limit of
//! costs.

/// An item of a group.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Item {
    /// Its cost, at least 0.
    pub cost: f64,
    /// Its value.
    pub value: f64,
}

/// What a partial choice has: the sums, and its last item with the partial choice before.
#[derive(Clone, Copy)]
struct Partial {
    cost: f64,
    value: f64,
    item: usize,
    before: usize,
}

/// The numbers of the items, one of each group, whose values have the greatest sum while their costs sum to `limit` at
/// most; none where no choice fits. Costs are added in the order of the groups, so that a limit which is such a sum is
/// kept to. Of equal sums the cheaper one is taken.
///
/// Groups are taken one after another. Of the partial choices those stay that no other one beats in both cost and
/// value, and that can still come to more than the best choice known: beyond the limit of what is left, the values of
/// the others are bounded by the linear relaxation, in which items may be parted (Sinha and Zoltners 1979). Both cuts
/// lose no best choice, so the result is exact, with costs as they are.
pub fn knapsack(groups: &[Vec<Item>], limit: f64) -> Option<Vec<usize>> {
    let undominated: Vec<Vec<usize>> = groups.iter().map(|group| front(group)).collect();
    if undominated.iter().any(Vec::is_empty) {
        return None;
    }
    let cheapest = groups
        .iter()
        .zip(&undominated)
        .map(|(group, items)| group[items[0]].cost);
    let remaining = Remaining::new(cheapest.collect(), limit);
    if !remaining.fit(0.0, 0) {
        return None;
    }
    let relaxations: Vec<Relaxation> = (0..=groups.len())
        .map(|from| Relaxation::of(&groups[from..], &undominated[from..]))
        .collect();
    let mut known = f64::NEG_INFINITY;
    let mut layers: Vec<Vec<Partial>> = vec![vec![Partial {
        cost: 0.0,
        value: 0.0,
        item: 0,
        before: 0,
    }]];
    for (number, group) in groups.iter().enumerate() {
        let before = &layers[number];
        let mut next = Vec::with_capacity(before.len() * undominated[number].len());
        for (place, partial) in before.iter().enumerate() {
            for &item in &undominated[number] {
                let (cost, value) = (partial.cost + group[item].cost, partial.value + group[item].value);
                if !remaining.fit(cost, number + 1) {
                    break;
                }
                let relaxation = &relaxations[number + 1];
                // What rounding of sums may hide is left out of a choice that fits, and added to a bound.
                let (left, hidden) = (limit - cost, remaining.rounding(cost));
                known = known.max(value + relaxation.whole(left - hidden));
                let bound = value + relaxation.bound(left + hidden);
                if bound + 1e-9 * (1.0 + bound.abs()) >= known {
                    next.push(Partial {
                        cost,
                        value,
                        item,
                        before: place,
                    });
                }
            }
        }
        next.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(b.value.total_cmp(&a.value)));
        let mut best = f64::NEG_INFINITY;
        next.retain(|partial| {
            let stays = partial.value > best;
            best = best.max(partial.value);
            stays
        });
        layers.push(next);
    }
    let mut place = layers.last()?.len().checked_sub(1)?;
    let mut chosen = vec![0; groups.len()];
    for number in (0..groups.len()).rev() {
        let partial = layers[number + 1][place];
        chosen[number] = partial.item;
        place = partial.before;
    }
    Some(chosen)
}

/// The cheapest items of the groups that are left, beside the limit.
struct Remaining {
    cheapest: Vec<f64>,
    /// The sum of the cheapest items from each group on.
    sums: Vec<f64>,
    limit: f64,
}

impl Remaining {
    fn new(cheapest: Vec<f64>, limit: f64) -> Remaining {
        let mut sums = vec![0.0; cheapest.len() + 1];
        for group in (0..cheapest.len()).rev() {
            sums[group] = sums[group + 1] + cheapest[group];
        }
        Remaining { cheapest, sums, limit }
    }

    /// The most by which two orders of adding up the costs of a choice that begins with `cost` differ near the limit.
    fn rounding(&self, cost: f64) -> f64 {
        4.0 * f64::EPSILON * self.sums.len() as f64 * (self.limit.abs() + cost)
    }

    /// Whether the groups from `group` on have items that fit beside a partial choice of this cost.
    fn fit(&self, cost: f64, group: usize) -> bool {
        let (least, rounding) = (cost + self.sums[group], self.rounding(cost));
        if (least - self.limit).abs() > rounding {
            return least < self.limit;
        }
        self.cheapest[group..].iter().fold(cost, |sum, own| sum + own) <= self.limit
    }
}

/// The items that no other one beats, by rising cost and value.
fn front(group: &[Item]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..group.len()).filter(|item| !group[*item].value.is_nan()).collect();
    order.sort_by(|&a, &b| {
        let by_value = group[b].value.total_cmp(&group[a].value);
        group[a].cost.total_cmp(&group[b].cost).then(by_value)
    });
    let mut best = f64::NEG_INFINITY;
    order.retain(|&item| {
        let stays = group[item].value > best;
        best = best.max(group[item].value);
        stays
    });
    order
}

/// The linear relaxation of some groups: from the cheapest items on, steps to better ones by falling efficiency.
struct Relaxation {
    cost: f64,
    value: f64,
    /// Additional cost and value of each step.
    steps: Vec<[f64; 2]>,
}

impl Relaxation {
    fn of(groups: &[Vec<Item>], undominated: &[Vec<usize>]) -> Relaxation {
        let (mut cost, mut value, mut steps) = (0.0, 0.0, Vec::new());
        for (group, items) in groups.iter().zip(undominated) {
            cost += group[items[0]].cost;
            value += group[items[0]].value;
            let mut hull: Vec<Item> = Vec::new();
            for item in items.iter().map(|&item| group[item]) {
                let slope = |a: Item, b: Item| (b.value - a.value) / (b.cost - a.cost);
                while hull.len() > 1
                    && slope(hull[hull.len() - 2], hull[hull.len() - 1]) <= slope(hull[hull.len() - 2], item)
                {
                    hull.pop();
                }
                hull.push(item);
            }
            steps.extend(
                hull.windows(2)
                    .map(|two| [two[1].cost - two[0].cost, two[1].value - two[0].value]),
            );
        }
        steps.sort_by(|a, b| (b[1] / b[0]).total_cmp(&(a[1] / a[0])));
        Relaxation { cost, value, steps }
    }

    /// The greatest value within what is left, where the last step may be taken in part.
    fn bound(&self, left: f64) -> f64 {
        let (mut left, mut value) = (left - self.cost, self.value);
        for [cost, more] in &self.steps {
            if *cost > left {
                return value + more * (left / cost).max(0.0);
            }
            left -= cost;
            value += more;
        }
        value
    }

    /// The value of a choice that fits: all steps up to the first that does not.
    fn whole(&self, left: f64) -> f64 {
        let (mut left, mut value) = (left - self.cost, self.value);
        for [cost, more] in &self.steps {
            if *cost > left {
                break;
            }
            left -= cost;
            value += more;
        }
        value
    }
}
