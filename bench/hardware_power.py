"""Power of a netlist from the transitions of its nets and the energies of a Liberty library.

Used by bench/hardware_flow.py. The energy of a cell in a cycle is what Liberty says of each transition at its pins:
`internal_power` of input pins, `internal_power` of output pins by load (the mean over inputs and states), and half of
C V^2 of the net that it drives. Slews are one typical value, since these tables hardly depend on them.
"""

import bisect
import re

TOKEN = re.compile(r'"[^"]*"|[\w.+\-]+|[(){}:;,]')


def parse(text):
    """A group of Liberty, `name (arguments) { ... }`, as its simple attributes, complex ones and groups."""
    tokens = TOKEN.findall(re.sub(r"/\*.*?\*/", " ", text.replace("\\\n", " "), flags=re.S))
    group, _ = parse_group(tokens, 0)
    return group


def parse_group(tokens, at):
    """Reads one group from its name on; the group and the position after it."""
    group = {"name": tokens[at], "arguments": [], "simple": {}, "complex": {}, "groups": []}
    at += 2
    while tokens[at] != ")":
        if tokens[at] != ",":
            group["arguments"].append(tokens[at].strip('"'))
        at += 1
    at += 2
    while tokens[at] != "}":
        if tokens[at] == ";":
            at += 1
        elif tokens[at + 1] == ":":
            end = at + 2
            while tokens[end] != ";" and not (end > at + 2 and tokens[end + 1] in (":", "(")) and tokens[end] != "}":
                end += 1
            group["simple"][tokens[at]] = " ".join(tokens[at + 2:end]).strip('"')
            at = end
        else:
            end = at
            while tokens[end] != ")":
                end += 1
            if end + 1 < len(tokens) and tokens[end + 1] == "{":
                inner, at = parse_group(tokens, at)
                group["groups"].append(inner)
            else:
                group["complex"][tokens[at]] = [token.strip('"') for token in tokens[at + 2:end] if token != ","]
                at = end + 1
    return group, at + 1


def numbers(words):
    """The numbers of an attribute's strings."""
    return [float(number) for word in words for number in re.split(r"[\s,]+", word.strip()) if number]


def lookup(table, slew, load):
    """The value of an energy table of one index, the slew, or of two, slew and load; linear between the points."""
    values = numbers(table["complex"]["values"])
    slews = numbers(table["complex"].get("index_1", []))
    loads = numbers(table["complex"].get("index_2", []))
    if not slews:
        return values[0]
    rows = [values[at * max(len(loads), 1):(at + 1) * max(len(loads), 1)] for at in range(len(slews))]
    column = [line(loads, row, load) if loads else row[0] for row in rows]
    return line(slews, column, slew)


def line(points, values, at):
    """The piecewise linear function through the points, its last pieces continued."""
    if len(points) == 1:
        return values[0]
    right = min(max(bisect.bisect_left(points, at), 1), len(points) - 1)
    part = (at - points[right - 1]) / (points[right] - points[right - 1])
    return values[right - 1] + part * (values[right] - values[right - 1])


class CellPower:
    """Capacitances, energies and leakage of one cell."""

    def __init__(self, text, slew):
        cell = parse(text)
        self.leakage = float(cell["simple"].get("cell_leakage_power", 0.0))
        self.capacitance, self.outputs, self.tables, self.slew = {}, set(), {}, slew
        for pin in (group for group in cell["groups"] if group["name"] == "pin"):
            name = pin["arguments"][0]
            if pin["simple"].get("direction") == "output":
                self.outputs.add(name)
            self.capacitance[name] = float(pin["simple"].get("capacitance", 0.0))
            self.tables[name] = [table for power in pin["groups"] if power["name"] == "internal_power"
                                 for table in [[part for part in power["groups"] if part["name"] == edge]
                                               for edge in ("rise_power", "fall_power")] if table]

    def energy(self, pin, load):
        """The mean internal energy of a transition of a pin, rising and falling as often, over all states."""
        tables = self.tables.get(pin, [])
        if not tables:
            return 0.0
        # A pin has as many tables for its rise as for its fall.
        return sum(lookup(table[0], self.slew, load) for table in tables) / len(tables)


def netlist_power(instances, nets, clock, library, period):
    """Power in W: of all cells, of flip-flops with their clock, of leakage. `nets` has transitions in a cycle."""
    loads = {}
    for cell, _, pins in instances:
        power = library.power(cell)
        for pin, net in pins:
            if pin not in power.outputs:
                loads[net] = loads.get(net, 0.0) + power.capacitance[pin]
    volts, to_joule = library.volts, library.joule
    total = {"flops": 0.0, "gates": 0.0, "leakage": 0.0}
    for cell, _, pins in instances:
        power, energy = library.power(cell), 0.0
        for pin, net in pins:
            rate = 2.0 if net == clock else nets.get(net, 0.0)
            load = loads.get(net, 0.0) if pin in power.outputs else 0.0
            energy += rate * (power.energy(pin, load) + 0.5 * load * volts * volts)
            # The clock comes from outside; what its pins take counts as the flip-flops'.
            if net == clock:
                energy += rate * 0.5 * power.capacitance[pin] * volts * volts
        total["flops" if cell in library.flops else "gates"] += energy * to_joule / (period * 1e-9)
        total["leakage"] += power.leakage * 1e-9
    total["total"] = total["flops"] + total["gates"] + total["leakage"]
    return total
