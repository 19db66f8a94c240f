"""Verdicts on claims, as `lessen experiment` has them: Student's t-test over the seeds, Holm's division of the level.

A claim is held where its numbers, one of each seed, have a mean above 0 that the two-sided t-test tells from 0, not held
where the mean is below, and not decided with so many seeds otherwise. Numbers are differences of two sides with the same
seed, or of a side and a bound. At most 5 % is the chance that any claim of a page is decided where nothing differs.
"""

import math
import statistics

LEVEL = 0.05


def two_sided(t, freedom):
    """The probability that Student's t is at least t from 0 (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).

    >>> [round(two_sided(t, freedom), 5) for freedom, t in ((1, 12.7062), (2, 4.30265), (3, 3.18245), (30, 2.04227))]
    [0.05, 0.05, 0.05, 0.05]
    """
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = 1.0, 0.0
    for k in range(odd, freedom - odd, 2):
        total += term
        term *= cosine * cosine * (k + 1) / (k + 2)
    within = 2 / math.pi * (angle + sine * cosine * total) if odd else sine * total
    return min(max(1 - within, 0.0), 1.0)


def chance(numbers):
    """The p of numbers; None of fewer than two."""
    if len(numbers) < 2:
        return None
    mean, deviation = statistics.mean(numbers), statistics.stdev(numbers)
    if mean == 0 or deviation == 0:
        return float(mean == 0)
    return two_sided(abs(mean) / deviation * math.sqrt(len(numbers)), len(numbers) - 1)


def decided(chances):
    """Which of a page's claims are decided, by their p; one without p is not.

    >>> decided([0.03, None, 0.016, 0.9, 0.012])
    [False, False, True, False, True]
    """
    tested = sorted((p, at) for at, p in enumerate(chances) if p is not None)
    found = [False] * len(chances)
    for rank, (p, at) in enumerate(tested):
        if p > LEVEL / (len(tested) - rank):
            break
        found[at] = True
    return found


def words(numbers, is_decided):
    """The verdict on a claim."""
    if is_decided:
        return "held" if statistics.mean(numbers) > 0 else "not held"
    return f"not decided with {len(numbers)} seed{'s' if len(numbers) != 1 else ''}"


def judged(claims):
    """The verdict on each claim of a page, with its p; a claim is its numbers, one of each seed.

    >>> judged([[1.0, 1.1, 0.9], [-1.0, -1.2, -1.1], [0.1, -0.2], [0.3]])
    ['held, p 0.0033', 'not held, p 0.0027', 'not decided with 2 seeds, p 0.795', 'not decided with 1 seed, no spread']
    """
    chances = [chance(numbers) for numbers in claims]
    marks = zip(claims, chances, decided(chances))
    return [f"{words(numbers, is_decided)}, {show(p)}" for numbers, p, is_decided in marks]


def show(p):
    """A p for people, as a clause."""
    if p is None:
        return "no spread"
    return "p < 0.0001" if p < 1e-4 else f"p {p:.4f}" if p < 0.01 else f"p {p:.3f}"


def about(count):
    """The sentences of a page about its test."""
    return (
        "Verdicts are of two-sided t-tests over the seeds, with one degree of freedom less than seeds. At most"
        f" {100 * LEVEL:g} % is the chance that any claim of this page is decided where nothing differs: the level is divided"
        f" among the tested claims (Holm), {count}."
    )
